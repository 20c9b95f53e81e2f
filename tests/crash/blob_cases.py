"""The ways of points.py to the points of blobs: what an acknowledged message names is there, whole; what nobody names goes with maintenance."""

import base64
import hashlib

from harness.sessiond import S
from life import GONE
from point_cases import Case


def media(number):
    return (b"%05d" % number) * 18_000  # 90 000 bytes


class Blobs(Case):
    """An agent of its own: a session that is purged, one that stays, and messages with media that come."""
    config = {**Case.config, "blobs": {"graceMs": 0}}
    points = ("blob.stored", "blob.stored:2", "blob.touched", "blob.unnamed", "blob.removed", "replace.temp_synced", "replace.renamed",
              "journal.written:2", "journal.synced:3")
    KEY, GONE_KEY = "agent:pics:x:stays", "agent:pics:x:goes"

    def __init__(self, *named):
        super().__init__(*named)
        self.acknowledged, self.sent = set(), set()

    def post(self, key, number):
        part = {"type": "image", "data": base64.b64encode(media(number)).decode(), "mimeType": "image/png"}
        self.sent.add(number)
        try:
            reply = self.daemon.client().post(S(key, "pics", "messages"), {"role": "user", "content": [{"type": "text", "text": f"n{number}"}, part]})
        except GONE:
            return
        assert reply.status == 201, reply
        self.acknowledged.add(number)

    def prepare(self):
        client = self.daemon.client()
        for key in (self.KEY, self.GONE_KEY):
            assert client.post("/v1/agents/pics/sessions", {"key": key}).status == 201
        self.post(self.GONE_KEY, 0)
        self.post(self.KEY, 1)
        assert client.delete(S(self.GONE_KEY, "pics") + "?purge=true").status == 204
        super().prepare()

    def drive(self):
        for number in (1, 2, 3):
            self.post(self.KEY, number)
        try:
            self.daemon.client().post("/v1/admin/maintenance", {"dryRun": False})
            for number in (0, 4):  # what was just removed comes back
                self.post(self.KEY, number)
            self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        client, faults = self.me.client, []
        page = client.get(S(self.KEY, "pics", "messages") + "?media=inline&limit=200").json["data"]
        named = set()
        for message in page:
            number = int(message["content"][0]["text"][1:])
            named.add(number)
            if base64.b64decode(message["content"][1].get("data", "")) != media(number):
                faults.append(f"the image {number} is another or not there: {str(message)[:300]}")
            blob = client.get("/v1/blobs/" + hashlib.sha256(media(number)).hexdigest())
            if blob.status != 200 or blob.raw != media(number):
                faults.append(f"the blob {number}: {blob.status}")
        missing = (self.acknowledged - {0}) - named
        if missing or not named <= self.sent:
            faults.append(f"messages {sorted(named)}, acknowledged {sorted(self.acknowledged)}")
        swept = client.post("/v1/admin/maintenance", {"dryRun": False})
        there = {f.name for f in (self.daemon.state / "blobs").rglob("*") if f.is_file()}
        wanted = {hashlib.sha256(media(number)).hexdigest() for number in named}
        if there != wanted:
            faults.append(f"{len(there)} blobs, {len(wanted)} are named; {swept.json}")
        return faults


class Snapshots(Case):
    """A snapshot that is replaced: the last one that was acknowledged is there, or one that was sent behind it."""
    config = Blobs.config
    points = ("blob.stored", "blob.stored:3", "blob.touched", "blob.unnamed", "journal.synced:3", "checkpoint.exchanged")
    KEY = "agent:pics:x:snap"

    def __init__(self, *named):
        super().__init__(*named)
        self.sent, self.acknowledged = [], 0

    def put(self, value):
        self.sent.append(value)
        try:
            reply = self.daemon.client().put(S(self.KEY, "pics", "snapshots", "toolSchemas"), [value * 2_000])
            assert reply.status == 200, reply
            self.acknowledged = len(self.sent)
            self.daemon.client().post("/v1/admin/maintenance", {"dryRun": False})
        except GONE:
            pass

    def prepare(self):
        assert self.daemon.client().post("/v1/agents/pics/sessions", {"key": self.KEY}).status == 201
        self.put("a")
        super().prepare()

    def drive(self):
        for value in "babcbb":
            self.put(value)
        try:
            self.daemon.checkpoint()
        except GONE:
            pass

    def check(self):
        client = self.me.client
        client.post("/v1/admin/maintenance", {"dryRun": False})
        reply = client.get(S(self.KEY, "pics", "snapshots", "toolSchemas"))
        may_be = {value * 2_000 for value in self.sent[self.acknowledged - 1:]}
        there = {f.name for f in (self.daemon.state / "blobs").rglob("*") if f.is_file()}
        if reply.status != 200 or reply.json[0] not in may_be or there != {reply.etag.strip('"')}:
            return [f"{reply.status}, {len(there)} blobs: {reply.raw[:100]}"]
        return []


CASES = (Blobs, Snapshots)
