"""The way of points.py through a delivery: made, claimed, acked. Whatever dies, there is one, and it is sent once it was acked."""

from harness.books import outbox_before
from harness.sessiond import S
from life import GONE
from point_cases import Case

KEY = "agent:old:x:direct:delivered"


class Deliveries(Case):
    points = ("journal.written", "journal.synced", "checkpoint.exchanged", "outbox.written", "replace.renamed", "marks.written",
              "book.appended", "book.ended", "book.compacted", "book.renamed")
    second = ("recovery.replayed", "outbox.written", "journal.synced", "book.appended", "book.ended")

    def prepare(self):
        client = self.daemon.client()
        assert client.put(S(KEY, "old"), {"sessionId": "s9", "deliveryContext": {"channel": "x", "to": "u"}}).status == 201
        assert client.post("/v1/deliveries/claim", {"channel": "x"}).status == 204
        self.acked = False
        super().prepare()

    def send(self):
        """The same each time, as a runner would send it again."""
        return self.daemon.client().post(S(KEY, "old", "outbound"), {"text": "answer", "messageId": "m-1"})

    def drive(self):
        client = self.daemon.client()
        try:
            self.send()
            self.daemon.checkpoint()
            for delivery in client.post("/v1/deliveries/claim", {"channel": "x", "leaseMs": 600_000}).json["data"]:
                acked = client.post(f"/v1/deliveries/{delivery['deliveryId']}/ack", {"platformMessageId": "p-1"})
                self.acked = acked.status == 200
            self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        faults, client = [], self.me.client
        sent = self.send()
        if sent.status != 201 or not (sent.json["delivery"] or {}).get("deliveryId"):
            return [f"sent again: {sent}"]
        id_ = sent.json["delivery"]["deliveryId"]
        before = client.get("/v1/deliveries/" + id_).json
        if self.acked and before.get("status") != "sent":
            faults.append(f"it was acked: {before}")
        acked = client.post(f"/v1/deliveries/{id_}/ack", {"platformMessageId": "p-1"})
        if acked.status != 200 or acked.json.get("platformMessageId") != "p-1":
            faults.append(f"acked again: {acked}")
        self.daemon.checkpoint()
        listed = [d["deliveryId"] for d in client.get("/v1/deliveries?agent=old").json["data"]]
        if listed != [id_]:
            faults.append(f"the deliveries: {listed}")
        noted = [e for e in client.get(S(KEY, "old", "messages") + "?types=custom").json["data"]]
        if [e["data"]["platformMessageId"] for e in noted] != ["p-1"]:
            faults.append(f"noted: {noted}")
        return faults


class DeliveriesBefore(Deliveries):
    """An earlier version has left its deliveries in one text."""
    points = ("book.compacted", "book.renamed", "outbox.written", "marks.written")
    second = ("book.compacted", "book.renamed", "recovery.replayed")

    def prepare(self):
        super().prepare()
        self.start()
        self.send()
        self.stop()
        outbox_before(self.daemon.state / "journal" / "outbox" / "old.log")

    def check(self):
        faults = super().check()  # changes it, and writes it
        return faults + [f"{file} is left" for file in (self.daemon.state / "journal" / "outbox").glob("old.json")]


CASES = (Deliveries, DeliveriesBefore)
