"""Agents that other programs make, change and remove, and that leave memory and come back."""

import json
import os
import threading
import time

from harness.case import Case, S, uid
from harness.sessiond import eventually
from test_foreign import Writer, appended, header, line

runs = {"asan", "tsan"}


class Agents(Case):
    """Agents that come, go and rest."""

    config = {"store": {"cacheTtlMs": 1000}}

    def loaded(self, daemon):
        text = daemon.client().get("/metrics").raw.decode()
        return int(float([row for row in text.splitlines() if row.startswith("sessiond_agents ")][0].split()[1]))

    def test_all_is_watched(self):
        self.new(f"agent:a{uid()}:x")  # its folder is made later
        self.daemon.checkpoint()
        self.assertIsNone(self.ok(self.api.get("/readyz"), 200)["unwatched"])
        self.assertFalse([row for row in self.daemon.stderr if "not_watched" in row])

    def test_an_agent_that_another_program_makes(self):
        stream = self.api.stream("/v1/events")
        self.addCleanup(stream.close)
        stream.wait_type("stream.hello")
        other = Writer(self)
        dir_ = self.daemon.agent_dir("made-elsewhere")
        other.write(dir_ / "s1.jsonl", header("s1") + line("hello"))
        other.write(dir_ / "sessions.json", json.dumps({"agent:made-elsewhere:x": {"sessionId": "s1", "updatedAt": 5}}))
        stream.wait_for(lambda e: e.data.get("agent") == "made-elsewhere", 10)  # before it, a read may be cacheTtlMs old
        self.assertEqual(self.texts("agent:made-elsewhere:x", "made-elsewhere"), ["hello"])
        other.write(dir_ / "s1.jsonl", line("and more"))
        stream.wait_for(lambda e: e.type == "message.appended" and e.data["agent"] == "made-elsewhere"
                        and e.data["data"]["message"]["seq"] == 1, 10)

    def test_a_resting_agent_leaves_memory_and_is_still_followed(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 500}})
        api = daemon.client()
        key = self.new("agent:rest:x", api=api, label="l")["key"]
        self.say(key, "0", "rest", api)
        eventually(lambda: self.loaded(daemon) == 0, 15, what="the agent out of memory")
        with api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            session_id = json.loads((daemon.agent_dir("rest") / "sessions.json").read_bytes())[key]["sessionId"]
            Writer(self).write(daemon.agent_dir("rest") / f"{session_id}.jsonl", line("1"))
            stream.wait_for(lambda e: e.type == "message.appended" and e.data["source"] == "external", 10)
            self.assertEqual(appended(stream, key), [(1, "1", "external")])
        self.assertEqual(self.texts(key, "rest", api), ["0", "1"])
        self.assertEqual(self.ok(api.get(S(key, "rest")))["label"], "l")
        self.assertEqual(self.say(key, "2", "rest", api)["firstSeq"], 2)
        eventually(lambda: self.loaded(daemon) == 0, 15, what="the agent out of memory again")

    def test_agents_that_leave_memory_while_all_is_checkpointed(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 1}})
        api = daemon.client()
        keys = {f"r{i}": self.new(f"agent:r{i}:x", api=api)["key"] for i in range(20)}
        busy = self.new("agent:busy:x", api=api)["key"]
        stop = threading.Event()

        def write(api):
            while not stop.is_set():
                self.say(busy, "x", "busy", api)

        def read(api):
            while not stop.is_set():
                for agent, key in keys.items():
                    self.ok(api.get(S(key, agent)), 200)

        others = [threading.Thread(target=call, args=[api.clone()]) for call in (write, write, write, read)]
        for other in others:
            other.start()
        try:
            end = time.monotonic() + 6
            while time.monotonic() < end:
                daemon.checkpoint()
        finally:
            stop.set()
            for other in others:
                other.join()

    def test_many_sessions_that_another_program_makes_at_once(self):
        made = {f"agent:many:{n}": {"sessionId": f"many-{n}", "updatedAt": 5} for n in range(1000)}

        def replace(store):
            path = self.daemon.agent_dir("many") / "sessions.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name("t.tmp").write_text(json.dumps(store))
            os.replace(path.with_name("t.tmp"), path)

        def told(stream):
            return [key for e in stream.durable if e.type == "store.external_change" and e.data["agent"] == "many"
                    for key in e.data["data"]["changed"]]

        with self.api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            replace(made)
            stream.wait_until(lambda s: len(told(s)) >= 1000, 20, "all of them")
            self.assertEqual(told(stream), list(made))
            self.assertEqual(self.ok(self.api.get(S("agent:many:999", "many")))["sessionId"], "many-999")
            self.daemon.checkpoint()
            store = self.daemon.sessions_json("many")
            self.assertEqual(list(store), list(made))
            for n in range(500):
                del store[f"agent:many:{n}"]
                store[f"agent:many:{n + 500}"]["label"] = "x"
            replace(store)
            stream.wait_until(lambda s: len(told(s)) >= 2000, 20, "all that was changed")
        self.problem(self.api.get(S("agent:many:0", "many")), 404)
        self.assertEqual(self.ok(self.api.get(S("agent:many:999", "many")))["label"], "x")
        self.daemon.checkpoint()
        self.assertEqual(len(self.daemon.sessions_json("many")), 500)

    def test_who_writes_what_he_read_before_the_agent_left_memory(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 300}})
        api = daemon.client()
        key, other = (self.new(f"agent:rest:{name}", api=api, label="old")["key"] for name in "ab")
        daemon.checkpoint()
        read = daemon.sessions_json("rest")
        self.ok(api.patch(S(key, "rest"), {"label": "new"}), 200)
        later = self.new("agent:rest:later", api=api)["key"]
        daemon.checkpoint()
        eventually(lambda: self.loaded(daemon) == 0, 15, what="the agent out of memory")
        read[key]["x-theirs"] = 1
        read[other]["label"] = "theirs"
        path = daemon.agent_dir("rest") / "sessions.json"
        path.with_name("t.tmp").write_text(json.dumps(read))
        os.replace(path.with_name("t.tmp"), path)
        eventually(lambda: self.ok(api.get(S(other, "rest"), cache_control="no-cache"))["label"] == "theirs", 10,
                   what="what they changed")
        for name in (key, later):
            self.assertEqual(api.get(S(name, "rest")).status, 200, name)
        self.assertEqual(self.ok(api.get(S(key, "rest")))["label"], "new")
        eventually(lambda: daemon.sessions_json("rest")[key].get("x-theirs") == 1
                   and daemon.sessions_json("rest")[key]["label"] == "new" and later in daemon.sessions_json("rest"), 10,
                   what="both changes in the file")

    def test_a_folder_that_is_removed_or_replaced(self):
        daemon = self.spawn({"store": {"cacheTtlMs": 500}})
        api = daemon.client()
        key = self.new("agent:gone:x", api=api)["key"]
        self.say(key, "0", "gone", api)
        daemon.checkpoint()
        folder = daemon.agent_dir("gone")
        folder.rename(folder.with_name("elsewhere"))
        self.ok(api.get(S(key, "gone"), cache_control="no-cache"))  # a store that vanished is no deletion
        folder.with_name("elsewhere").rename(folder.with_name("again")) if folder.exists() else \
            folder.with_name("elsewhere").rename(folder)
        self.assertEqual(self.say(key, "1", "gone", api)["lastSeq"] in (0, 1), True)
        with api.stream("/v1/events") as stream:
            stream.wait_type("stream.hello")
            store = daemon.sessions_json("gone")
            store["agent:gone:new"] = {"sessionId": uid(), "updatedAt": int(time.time() * 1000)}
            (folder / "t.tmp").write_text(json.dumps(store))
            os.replace(folder / "t.tmp", folder / "sessions.json")
            stream.wait_for(lambda e: e.type == "session.created" and e.data["key"] == "agent:gone:new", 10)
        self.assertTrue(daemon.alive)
