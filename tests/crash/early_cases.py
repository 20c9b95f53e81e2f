"""The way of points.py through an edit and a deletion that come before their messages. Whatever dies, both hold."""

from harness.sessiond import S
from life import GONE
from point_cases import Case

WHERE = {"agent": "old", "channel": "x", "peer": "early"}
KEY = "agent:old:x:direct:early"


class EarlyChanges(Case):
    points = ("journal.written", "journal.synced", "checkpoint.exchanged", "early.written", "replace.renamed", "marks.written")
    second = ("recovery.replayed", "early.written", "journal.synced")

    def change(self):
        client = self.daemon.client()
        return [client.post("/v1/inbound/deletes", {**WHERE, "messageId": "gone"}),
                client.post("/v1/inbound/edits", {**WHERE, "messageId": "edited", "text": "as it is now"})]

    def tell(self, id):
        return self.daemon.client().post("/v1/inbound", {**WHERE, "chatType": "direct", "messageId": id, "text": "as it was"})

    def drive(self):
        try:
            self.change()
            self.daemon.checkpoint()
            for id in ("gone", "edited"):
                self.tell(id)
                self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        """The same again, as a bridge would repeat it."""
        faults = []
        for reply in self.change():
            if reply.status not in (200, 202):
                faults.append(f"changed again: {reply}")
        gone, edited = self.tell("gone"), self.tell("edited")
        if gone.status != 200 or not gone.json.get("deleted") or gone.json["seq"] is not None:
            faults.append(f"it was deleted: {gone}")
        if edited.status not in (200, 201):
            faults.append(f"it was edited: {edited}")
        self.daemon.checkpoint()
        shown = self.me.client.get(S(KEY, "old", "messages") + "?view=chat")
        if [row.get("text") for row in shown.json["data"]] != ["as it is now"]:
            faults.append(f"shown: {shown.json['data']}")
        return faults


CASES = (EarlyChanges,)
