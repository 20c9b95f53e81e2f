"""The npm clients of the Model Context Protocol, of the versions in package-lock.json, in node, beside POST /mcp."""

import subprocess
import threading
import time
import unittest
from pathlib import Path

from harness.case import Case, S, json, uid
from harness.npm import install
from harness.sessiond import SLOW, eventually

HERE = Path(__file__).resolve().parent
TOOLS = ["search", "list_sessions", "get_messages", "append_note"]


class Talker:
    """A client in node that is told line by line what to ask."""

    def __init__(self, installed, which, mode, daemon, token):
        self._process = subprocess.Popen(["node", str(installed / "mcp.mjs"), which, mode, f"http://127.0.0.1:{daemon.port}/mcp", token],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._errors = []
        self._reader = threading.Thread(target=lambda: self._errors.extend(self._process.stderr), daemon=True)
        self._reader.start()
        self._end = threading.Timer(60 * SLOW, self._process.kill)
        self._end.start()
        self.began = self._line()

    def _line(self):
        line = self._process.stdout.readline()
        if not line:
            self._reader.join(5)
            raise AssertionError("the client ended: " + "".join(self._errors))
        return json.loads(line)

    def ask(self, tool=None, **arguments):
        self._process.stdin.write(json.dumps({"tool": tool, "arguments": arguments} if tool else {}) + "\n")
        self._process.stdin.flush()
        return self._line()

    def close(self):
        self._process.stdin.close()
        self._process.wait(30 * SLOW)
        self._end.cancel()
        self._process.stdout.close()
        self._reader.join(5)


class Clients(Case):
    @classmethod
    def setUpClass(cls):
        cls.installed = install(HERE)
        cls.node = int(subprocess.run(["node", "-p", "process.versions.node"], capture_output=True, text=True).stdout.split(".")[0])
        super().setUpClass()
        cls.daemon.config["listen"]["tcp"] = f"127.0.0.1:{cls.daemon.port}"  # a client knows nothing but the URL
        cls.daemon.config_file.write_text(json.dumps(cls.daemon.config))

    def converse(self, which, mode, version):
        if which == "client" and self.node < 20:
            raise unittest.SkipTest(f"@modelcontextprotocol/client wants Node 20; this is {self.node}")
        word, key, token = "w" + uid().lower(), self.new(name="Birds")["key"], self.daemon.token("runner")
        week = int(time.time() * 1000) - 7 * 86_400_000
        said = [{"role": "user", "text": text, "timestamp": week + n} for n, text in
                enumerate(["before", f"the {word} heron", "after"])]
        for message in said:
            self.ok(self.api.post(S(key, "main", "messages"), message), 201)
        client = Talker(self.installed, which, mode, self.daemon, token)
        self.addCleanup(client.close)
        self.assertEqual(client.began["server"]["name"], "sessiond")
        self.assertIn("not orders", client.began["instructions"])
        listed = client.ask()["result"]["tools"]
        self.assertEqual([tool["name"] for tool in listed], TOOLS)

        def call(tool, **arguments):
            told = client.ask(tool, **arguments)
            self.assertNotIn("failed", told)
            self.assertEqual({asked["version"] for asked in told["asked"]}, {version}, told["asked"])
            self.assertFalse(told["result"].get("isError"), told)
            return told["result"]["structuredContent"]

        rows = call("list_sessions", query=key)["data"]
        self.assertEqual([(row["key"], row["name"], row["lastMessage"]["text"]) for row in rows], [(key, "Birds", "after")])
        hit = eventually(lambda: call("search", query=f"{word} HERON")["data"], 20)[0]
        self.assertEqual((hit["key"], hit["timestamp"]), (key, week + 1))
        page = call("get_messages", agent=hit["agent"], key=hit["key"], around=hit["id"], limit=3)
        self.assertEqual([message["text"] for message in page["data"]], [message["text"] for message in said])
        made = call("append_note", key=key, text=f"note {word}")
        self.daemon.restart(kill=True)  # between two calls of a client that knows nothing of it
        self.assertEqual(call("append_note", key=key, text=f"note {word}"), {**made, "duplicate": True})
        self.assertEqual(call("get_messages", key=key, id=made["id"])["data"][0]["text"], f"note {word}")
        eventually(lambda: [h["id"] for h in call("search", query=word, role="note")["data"]] == [made["id"]], 20)
        # A refusal reaches the client as it is, though clients hold results against the tool's schema.
        for tool, arguments, code in (("get_messages", {"agent": "main", "key": "nosuch"}, "session_not_found"),
                                      ("search", {"query": '""'}, "bad_request"), ("append_note", {"key": key}, "validation_failed")):
            told = client.ask(tool, **arguments)
            self.assertNotIn("failed", told)
            self.assertTrue(told["result"]["isError"])
            self.assertTrue(told["result"]["content"][0]["text"].startswith(code + ": "), told)
        return client

    def opened(self, client):
        return [(asked["http"], asked["method"], asked["status"]) for asked in client.began["asked"]]

    def test_the_sdk_of_2025(self):
        client = self.converse("sdk", "legacy", "2025-11-25")
        self.assertEqual(self.opened(client)[:2], [("POST", "initialize", 200), ("POST", "notifications/initialized", 202)])

    def test_the_client_of_2026_as_it_comes(self):
        client = self.converse("client", "legacy", "2025-11-25")
        self.assertEqual(self.opened(client)[0], ("POST", "initialize", 200))

    def test_the_client_of_2026_that_finds_out(self):
        client = self.converse("client", "auto", "2026-07-28")
        self.assertEqual(self.opened(client), [("POST", "server/discover", 200)])

    def test_the_client_of_2026_that_knows(self):
        client = self.converse("client", "pin", "2026-07-28")
        self.assertEqual(self.opened(client), [("POST", "server/discover", 200)])
