"""kill -9 while an index is made and while it follows: afterwards each message is found once."""

import contextlib
import http.client
import os
import random
import shutil
import threading
import urllib.parse

from harness.case import Case, S
from harness.sessiond import eventually
from texts import a_text

KILLS = int(os.environ.get("SESSIOND_SEARCH_KILLS", "8"))
KEYS = [f"agent:{agent}:slack:direct:u{n}" for agent in ("main", "other") for n in range(8)]
GONE = (OSError, http.client.HTTPException)


def agent_of(key):
    return key.split(":")[1]


class Kills(Case):
    runs = {"release"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.chance = random.Random(5)
        for key in KEYS:
            cls.api.post(f"/v1/agents/{agent_of(key)}/sessions", {"key": key})
            cls.say(key, 200)
        for key in KEYS[::4]:  # an archive, a fork and a topic each
            cls.api.post(S(key, agent_of(key), "fork"), {})
            cls.api.post(S(key, agent_of(key), "reset"), {})
            cls.say(key, 50)
            cls.say(key, 20, "?topic=aside")

    @classmethod
    def say(cls, key, count, topic="", api=None):
        entries = [{"role": "user", "text": "needle " + a_text(cls.chance)} for _ in range(count)]
        reply = (api or cls.api).post(S(key, agent_of(key), "messages") + topic, {"entries": entries})
        assert reply.status == 201, reply

    def said(self):
        """How many messages there are, of people and in archives."""
        count = 0
        for agent in ("main", "other"):
            for row in self.ok(self.api.get(f"/v1/agents/{agent}/sessions?limit=200"), 200)["data"]:
                files = [""] + [f"?topic={one['topic']}" for one in self.ok(self.api.get(S(row["key"], agent, "topics")), 200)["data"]]
                records = self.ok(self.api.get(S(row["key"], agent, "archives")), 200)["data"]
                paths = [S(row["key"], agent, "messages") + file for file in files]
                paths += [S(record["sessionId"], agent, "messages") + f"?archive={name}" for record in records for name in record["archivedAs"]]
                for path in paths:
                    last = self.ok(self.api.get(path + ("&" if "?" in path else "?") + "order=desc&limit=1"), 200)["data"]
                    count += last[0]["seq"] + 1 if last else 0
        return count

    def found(self):
        seen, cursor = [], {}
        while True:
            query = urllib.parse.urlencode({"q": "needle", "archived": "any", "limit": 100, **cursor})
            page = self.ok(self.api.get("/v1/search?" + query), 200)
            self.assertFalse(page["partial"])
            seen += [(hit["key"], hit["sessionId"], hit.get("topic"), hit.get("archive"), hit["seq"]) for hit in page["data"]]
            if not page["page"]["hasMore"]:
                return seen
            cursor = {"cursor": page["page"]["next"]}

    def metrics(self):
        lines = self.api.get("/metrics").raw.decode().splitlines()
        return {line.split()[0].removeprefix("sessiond_search_"): float(line.split()[1]) for line in lines if line.startswith("sessiond_search_")}

    def is_followed(self):
        now = self.metrics()
        return now["whole"] and not now["lag_events"] or None

    def die(self, rows):
        """When the index has so many rows, beside somebody who appends."""
        api = self.daemon.client()

        def append():
            with contextlib.suppress(*GONE, AssertionError):
                while True:
                    self.say(self.chance.choice(KEYS), 1, api=api)

        writer = threading.Thread(target=append)
        writer.start()
        def metrics():
            now = self.metrics()
            return now if now["rows"] >= rows or now["whole"] else None

        midway = not eventually(metrics, timeout=30, every=0.001, what=f"{rows} rows")["whole"]
        self.daemon.kill9()
        writer.join()
        return midway

    def start(self):
        self.daemon.start()
        type(self).api = self.daemon.client()

    def test_each_is_found_once(self):
        midway = 0
        for kill in range(KILLS):
            said = self.said()
            anew = kill % 4 < 3
            if anew:
                self.daemon.stop()
                shutil.rmtree(self.daemon.state / "search")
                self.start()
            midway += self.die(self.chance.randrange(said) if anew else 0)
            self.start()
            if kill % 3 == 0:  # once more, into what the first one left
                midway += self.die(self.chance.randrange(said))
                self.start()
            eventually(self.is_followed, timeout=60, what="a whole index")
            said, found = self.said(), self.found()
            self.assertEqual((len(set(found)), len(found)), (said, said), f"after {kill + 1} kills")
        print(f"kills: {KILLS}, {midway} while an index was made; messages: {said}, each found once", flush=True)
