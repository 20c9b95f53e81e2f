"""The way of points.py through the index of the search: whatever dies, each text of a session is found once afterwards, and nothing else."""

import urllib.parse

from harness.case import text_of
from harness.sessiond import S, eventually
from life import GONE
from point_cases import Case

KEY = "agent:old:x:direct:found"


class Found(Case):
    points = ("search.creating", "search.written", "search.written:3", "search.committed", "search.committed:2")
    second = ("search.written", "search.committed", "search.creating")

    def prepare(self):
        assert self.daemon.client().put(S(KEY, "old"), {"sessionId": "s9"}).status == 201
        super().prepare()
        if self.point == "search.creating" or self.then == "search.creating":
            for name in ("index.db", "index.db-wal", "index.db-shm"):
                (self.daemon.state / "search" / name).unlink(missing_ok=True)

    def drive(self):
        client = self.daemon.client()
        try:
            for number in range(200):
                client.post(S(KEY, "old", "messages"), {"role": "user", "text": f"needle {number}"})
                if self.daemon.process.poll() is not None:
                    return
        except GONE:
            pass

    def check(self):
        client = self.me.client
        said, after = [], -1
        while True:
            page = client.get(S(KEY, "old", "messages") + f"?limit=200&after={after}").json
            said += [m["seq"] for m in page["data"] if "needle" in (text_of(m) or "")]
            if not page["page"]["hasMore"]:
                break
            after = page["page"]["nextAfter"]

        def found():
            seqs, cursor = [], ""
            while True:
                page = client.get("/v1/search?q=needle&agent=old&limit=100" + cursor).json
                seqs += [hit["seq"] for hit in page["data"]]
                if not page["page"]["hasMore"]:
                    return sorted(seqs), page["partial"]
                cursor = "&cursor=" + urllib.parse.quote(page["page"]["next"])

        try:
            eventually(lambda: found() == (said, False) or None, 20, what="all is found once")
        except AssertionError:
            return [f"said {said}, found {found()}"]
        return []


CASES = (Found,)
