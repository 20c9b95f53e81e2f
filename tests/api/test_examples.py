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

runs = {"release"}


class Model(http.server.BaseHTTPRequestHandler):
    """Answers POST /chat/completions word by word, as OpenAI does with stream:true. A word `wait` is said when `go` is set."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        if self.server.refusals:
            self.send_response(self.server.refusals.pop(0))
            self.send_header("Content-Length", "0")
            return self.end_headers()
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


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # the runner was killed


class Unreliable(http.server.BaseHTTPRequestHandler):
    """A way to the daemon on which each path that ends in a name of `faults` fails in these ways, one call after another."""

    def _any(self):
        fault = next((faults.pop(0) for end, faults in self.server.faults.items() if faults and self.path.endswith(end)), None)
        if fault == "not sent":
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        headers = {name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers}
        status, answer = 503, b"{}"
        if fault != "busy":
            reply = self.server.daemon.anonymous().request(self.command, self.path, body, headers)
            status, answer = reply.status, reply.raw
        if fault == "no reply":
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = _any

    def log_message(self, *_):
        pass


class Runner(Case):
    command = (sys.executable, str(REPO / "web/examples/runner.py"))

    def setUp(self):
        super().setUp()
        self.model = self.serve(Model)
        self.model.asked, self.model.refusals, self.model.go = [], [], threading.Event()
        self.agent = "a" + uid(6)

    def serve(self, handler):
        server = Server(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def runner(self, port=None, lease=2000):
        env = {**os.environ, "SESSIOND_URL": f"http://127.0.0.1:{port or self.daemon.port}", "SESSIOND_TOKEN": self.daemon.token("runner"),
               "OPENAI_BASE_URL": f"http://127.0.0.1:{self.model.server_address[1]}", "OPENAI_API_KEY": "k", "MODEL": "m",
               "LEASE_MS": str(lease)}
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

    def test_a_runner_that_slept_through_its_lease_says_no_more(self):
        first = self.runner()
        key = self.post("u6", "wait")["sessionKey"]
        eventually(lambda: self.model.asked, 60, what="the model being asked")
        first.send_signal(signal.SIGSTOP)
        self.runner()
        self.assertTrue(eventually(lambda: self.runs(key)[0][1] == 2 and len(self.model.asked) == 2, 60, what="the second attempt"))
        first.send_signal(signal.SIGCONT)
        self.model.go.set()
        self.assertTrue(eventually(lambda: self.runs(key)[0][0] == "done", 60, what="the answer"))
        self.assertEqual(self.said(key).count(("assistant", "You said: wait")), 1)
        self.post("u6", "hello")
        self.assertTrue(eventually(lambda: self.said(key)[-1] == ("assistant", "You said: hello"), 60, what="the next answer"))
        self.assertIsNone(first.poll())

    def runs(self, key):
        runs = self.ok(self.api.get(S(key, self.agent, "runs")), 200)["data"]
        return [(run["status"], run["attempt"], run.get("error", {}).get("code")) for run in runs]

    def test_a_conversation_that_cannot_be_sent_is_shorter_the_next_time(self):
        self.daemon = self.spawn({"context": {"viewBytes": 65_536}})
        self.api = self.daemon.client()
        self.runner()
        key = self.post("u7", "x" * 70_000)["sessionKey"]
        self.assertTrue(eventually(lambda: self.runs(key)[0][0] == "failed", 60, what="the end"))
        self.assertEqual(self.runs(key), [("failed", 1, "context_length")])
        context = self.ok(self.api.get(S(key, self.agent, "context")), 200)
        self.assertIn(context["due"]["reason"], ("blocked", "window_full"))
        self.assertTrue(self.ok(self.api.get(S(key, self.agent, "messages") + "?view=llm&maxBytes=100000"), 200)["aggressive"])

    def test_calls_that_are_lost_on_the_way_come_again(self):
        way = self.serve(Unreliable)
        way.daemon = self.daemon
        way.faults = {"/events": ["not sent", "no reply", "busy"], "/finish": ["not sent", "busy", "no reply"]}
        self.runner(way.server_address[1], lease=30_000)
        key = self.post("u4", "hello")["sessionKey"]
        self.assertTrue(eventually(lambda: self.runs(key)[0][0] == "done", 60, what="the end"))
        self.assertEqual(self.runs(key), [("done", 1, None)])
        self.assertEqual(self.said(key), [("user", "hello"), ("assistant", "You said: hello")])
        self.assertEqual(way.faults, {"/events": [], "/finish": []})
        self.post("u4", "and again")
        self.assertTrue(eventually(lambda: len(self.said(key)) == 4, 60, what="a second answer"))

    def test_a_model_that_is_busy_is_asked_again_and_one_that_refuses_fails_the_run(self):
        self.model.refusals = [500, 429]
        self.runner()
        key = self.post("u5", "hello")["sessionKey"]
        self.assertTrue(eventually(lambda: len(self.said(key)) == 2, 60, what="an answer"))
        self.assertEqual((len(self.model.asked), self.runs(key)), (3, [("done", 1, None)]))
        self.model.refusals = [401]
        self.post("u5", "again")
        self.assertTrue(eventually(lambda: self.runs(key)[0][0] == "failed", 60, what="the end"))
        self.assertEqual(self.runs(key)[0], ("failed", 1, "provider_error"))
        self.model.refusals = [500, 500, 500]
        self.post("u5", "once more")
        self.assertTrue(eventually(lambda: len(self.runs(key)) == 3 and self.runs(key)[0][0] == "failed", 60, what="the end"))
        self.assertEqual(self.runs(key)[0], ("failed", 1, "provider_error"))


@unittest.skipUnless(shutil.which("node"), "Node is not installed")
class NodeRunner(Runner):
    command = ("node", str(REPO / "web/examples/runner.mjs"))
