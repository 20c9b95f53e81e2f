"""web/examples: the runner as a user would start it, beside a stand-in for the model's server."""

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest

from harness.case import Case, S, uid
from harness.sessiond import REPO, eventually


class Model(http.server.BaseHTTPRequestHandler):
    """Answers POST /chat/completions word by word, as OpenAI does with stream:true. A word `wait` is said when `go` is set."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        question = body["messages"][-1]["content"]
        try:
            for word in ["You", " said:", " " + question]:
                self.say(word)
                if "wait" in question and not self.server.go.wait(20):
                    return
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass  # the runner has gone

    def say(self, word):
        self.wfile.write(b"data: " + json.dumps({"choices": [{"delta": {"content": word}}]}).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Runner(Case):
    command = (sys.executable, str(REPO / "web/examples/runner.py"))

    def setUp(self):
        super().setUp()
        self.model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        self.model.asked, self.model.go = [], threading.Event()
        threading.Thread(target=self.model.serve_forever, daemon=True).start()
        self.addCleanup(self.model.server_close)
        self.addCleanup(self.model.shutdown)
        self.agent = "a" + uid(6)

    def runner(self):
        env = {**os.environ, "SESSIOND_URL": f"http://127.0.0.1:{self.daemon.port}", "SESSIOND_TOKEN": self.daemon.token("runner"),
               "OPENAI_BASE_URL": f"http://127.0.0.1:{self.model.server_address[1]}", "OPENAI_API_KEY": "k", "MODEL": "m",
               "LEASE_MS": "2000"}
        process = subprocess.Popen([*self.command, self.agent], env=env,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def post(self, peer, text):
        return self.inbound(agent=self.agent, channel="slack", chatType="direct", peer=peer, text=text)

    def said(self, key):
        return [(m["role"], m["text"]) for m in self.messages(key, agent=self.agent, query="view=chat&limit=200&order=asc")]

    def test_a_question_is_answered(self):
        self.runner()
        key = self.post("u1", "hello")["sessionKey"]
        self.assertTrue(eventually(lambda: len(self.said(key)) == 2, 20, what="an answer"))
        self.assertEqual(self.said(key), [("user", "hello"), ("assistant", "You said: hello")])
        self.post("u1", "and again")
        self.assertTrue(eventually(lambda: len(self.said(key)) == 4, 20, what="a second answer"))
        self.assertEqual([m["content"] for m in self.model.asked[-1]["messages"]], ["hello", "You said: hello", "and again"])

    def test_a_person_stops_it_and_keeps_what_was_said(self):
        self.runner()
        key = self.post("u2", "wait")["sessionKey"]
        stream = self.api.stream(S(key, self.agent, "events"))
        self.addCleanup(stream.close)
        eventually(lambda: self.model.asked, 20, what="the model being asked")
        stream.wait_type("text.delta")
        self.ok(self.api.post(S(key, self.agent, "abort"), {}), 202)
        self.model.go.set()
        self.assertTrue(eventually(lambda: "activeRun" not in self.ok(self.api.get(S(key, self.agent)), 200), 20, what="the end"))
        self.assertEqual(self.ok(self.api.get(S(key, self.agent)), 200)["status"], "interrupted")
        self.assertTrue(self.said(key)[-1][1].startswith("You"))

    def test_a_runner_dies_and_another_one_answers(self):
        first = self.runner()
        key = self.post("u3", "wait")["sessionKey"]
        eventually(lambda: self.model.asked, 20, what="the model being asked")
        first.send_signal(signal.SIGKILL)
        self.model.go.set()
        self.runner()
        self.assertTrue(eventually(lambda: self.said(key)[-1] == ("assistant", "You said: wait"), 60, what="the answer"))
        runs = self.ok(self.api.get(S(key, self.agent, "runs")), 200)["data"]
        self.assertEqual([run["status"] for run in runs], ["done", "interrupted"])


@unittest.skipUnless(shutil.which("node"), "Node is not installed")
class NodeRunner(Runner):
    command = ("node", str(REPO / "web/examples/runner.mjs"))
