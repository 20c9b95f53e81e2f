"""web/examples: the bridges to Slack and Discord as a user would start them, with the platforms' own client libraries.

Bolt and discord.js talk to stand-ins of their platforms (tests/standins), the runner to a mock of OpenAI's API.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import unittest

from harness.case import Case, S
from harness.npm import install
from harness.sessiond import REPO, eventually
from standins.discord import Discord
from standins.slack import Slack

runs = {"release"}

EXAMPLES = REPO / "web/examples"
MOCK_MODEL = """
streaming: {chunkSize: 6, chunkIntervalMs: 5}
rules:
  - path: /v1/chat/completions
    match: "@"
    response:
      status: 200
      content: >-
        {"id":"1","model":"m","choices":[{"message":
        {"role":"assistant","content":"You said: {{jmes request body.messages[-1].content}}"}}]}
  - path: /v1/chat/completions
    match: contains(body.messages[-1].content, 'forbidden')
    response: {status: 401, content: '{"error":{"message":"Incorrect API key provided.","code":"invalid_api_key"}}'}
"""


class Lines(unittest.TestCase):
    def test_each_example_is_short_enough_to_be_read(self):
        examples = [*EXAMPLES.glob("*.mjs"), *EXAMPLES.glob("*.py")]
        self.assertEqual(len(examples), 4)
        for example in examples:
            self.assertLess(len(example.read_text(encoding="utf-8").splitlines()), 150, example.name)


@unittest.skipUnless(shutil.which("node") and shutil.which("npm"), "Node or npm is not installed")
class Bridge:
    """The tests of both bridges."""

    platform_class = script = person = channel = runner_command = None

    @classmethod
    def setUpClass(cls):
        cls.installed = install(EXAMPLES)  # each test has a daemon of its own

    def setUp(self):
        super().setUp()
        self.owner = self.spawn({"runs": {"onInbound": True}})
        self.owner.config["listen"]["tcp"] = f"127.0.0.1:{self.owner.port}"  # of its next lives too
        self.owner.config_file.write_text(json.dumps(self.owner.config))
        self.api = self.owner.client()
        self.platform = self.platform_class()
        self.addCleanup(self.platform.close)
        self.token = self.owner.token("bridge", channel=self.platform.channel, permissions=["approve"])
        self.runner = self.owner.client(self.owner.token("runner"))
        self.bridge = self.start_bridge()

    def start(self, command, **env):
        """A program; its standard error is a list that grows."""
        process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, **env})
        process.said = []

        def keep(pipe):
            for line in pipe:
                process.said.append(line)
            pipe.close()

        for pipe in (process.stdout, process.stderr):
            threading.Thread(target=keep, args=(pipe,), daemon=True).start()
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_bridge(self, lease=60_000):
        """A bridge that claims, so that nothing is an event only, and to which the platform talks."""
        before = self.adoptions()
        self.platform.sockets.clear()  # of a bridge that was killed
        bridge = self.start(["node", self.installed / self.script], SESSIOND_URL=f"http://127.0.0.1:{self.owner.port}", SESSIOND_TOKEN=self.token,
                            LEASE_MS=str(lease), **self.platform.env())
        self.wait(lambda: self.platform.sockets and (before or self.adoptions()), "the bridge", bridge)
        return bridge

    def adoptions(self):
        path = self.owner.state / "journal/adoptions"
        return path.read_text() if path.exists() else ""

    def wait(self, condition, what, bridge=None):
        bridge = bridge or self.bridge

        def met():
            self.assertIsNone(bridge.poll(), "the bridge ended: " + "".join(bridge.said))
            return condition()

        self.assertTrue(eventually(met, 60, what=f"{what}: {''.join(bridge.said)}"))

    def chat(self, key):
        return self.messages(key, query="view=chat&limit=200&order=asc")

    def key(self, peer):
        kind = "direct" if peer == self.person else "channel"
        return f"agent:main:{self.platform.channel}:{kind}:{peer.lower()}"

    def has(self, peer, count=1):
        """Waits until the conversation has so many messages; these."""
        path = S(self.key(peer), "main", "messages") + "?view=chat&limit=200&order=asc"
        self.wait(lambda: len((self.api.get(path).json or {}).get("data", [])) >= count, f"{count} messages of {peer}")
        return self.chat(self.key(peer))

    def claim_run(self):
        claimed = []

        def claims():
            claimed.append(self.runner.post("/v1/agents/main/runs/claim", {"waitMs": 1000}))
            return self.ok(claimed[-1], 200, 204)

        self.wait(claims, "a run")
        return claimed[-1].json

    def finish(self, run, *texts):
        entries = [{"role": "assistant", "text": text} for text in texts]
        path = S(run["key"], "main", "runs", run["runId"], "finish")
        return self.ok(self.runner.post(path, {"fence": run["lease"]["fence"], "status": "done", "entries": entries}), 200)["deliveries"]

    def delivery(self, planned):
        return self.ok(self.api.get("/v1/deliveries/" + planned["deliveryId"]), 200)

    def settled(self, planned, status="sent"):
        self.wait(lambda: self.delivery(planned)["status"] == status, f"a delivery that is {status}")
        return self.delivery(planned)

    def seen(self):
        """What the bot has said, as people see it."""
        return [self.platform.text(message) for message in self.platform.messages.values()]

    # -- the tests -----------------------------------------------------------------------------------------------------

    def test_a_message_is_answered_once_by_a_runner_and_a_model(self):
        mock = install(REPO / "tests/standins")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        config = self.owner.state / "mock.yaml"
        config.write_text(MOCK_MODEL)
        model = self.start(["node", mock / "node_modules/@dwmkerr/mock-llm/dist/main.js", "--config", config], HOST="127.0.0.1", PORT=str(port))
        eventually(lambda: any("running on" in line for line in model.said), 60, what="the model's server")
        self.start([*self.runner_command], SESSIOND_URL=f"http://127.0.0.1:{self.owner.port}", SESSIOND_TOKEN=self.runner.token,
                   OPENAI_BASE_URL=f"http://127.0.0.1:{port}/v1", OPENAI_API_KEY="k")
        self.platform.say(self.person, "hello", 1)
        self.platform.say(self.person, "hello", 1)  # platforms deliver again
        self.wait(self.seen, "the answer")
        self.assertEqual(self.seen(), ["You said: hello"])
        self.assertEqual(len(self.platform.sends), 1)
        self.assertEqual([row["text"] for row in self.has(self.person, 2)], ["hello", "You said: hello"])
        self.platform.say(self.person, "forbidden", 2)
        self.wait(lambda: self.ok(self.api.get(S(self.key(self.person), "main")), 200).get("status") == "failed", "the end of the run")
        self.platform.say(self.person, "and again", 3)
        self.wait(lambda: len(self.platform.sends) == 2, "the next answer")
        self.assertEqual(self.seen()[1:], ["You said: and again"])

    def test_in_a_channel_the_bot_answers_when_it_is_mentioned(self):
        self.platform.say(self.channel, "just talk", 1)
        self.platform.say(self.channel, "what is up?", 2, mention=True)
        rows = self.has(self.channel, 2)
        self.assertEqual([row["text"] for row in rows], ["just talk", "what is up?"])
        self.assertEqual(self.messages(self.key(self.channel))[1]["platformMessageId"], self.platform.id(2))
        delivery, = self.finish(self.claim_run(), "the sky")
        self.settled(delivery)
        self.assertEqual(self.platform.sends[0]["channel"], self.channel)

    def test_killed_between_send_and_ack_it_sends_again_with_the_same_id(self):
        self.bridge.kill()
        self.bridge.wait()
        self.bridge = self.start_bridge(lease=2000)
        self.platform.say(self.person, "hello", 1)
        run = self.claim_run()
        self.platform.go.clear()
        delivery, = self.finish(run, "an answer")
        self.assertTrue(self.platform.held.wait(60))
        self.bridge.kill()
        self.bridge.wait()
        self.platform.go.set()
        self.assertNotEqual(self.delivery(delivery)["status"], "sent")
        self.bridge = self.start_bridge()
        sent = self.settled(delivery)
        self.assertEqual([self.platform.given_id(body) for body in self.platform.sends], [delivery["deliveryId"]] * 2)
        self.assertEqual(self.seen(), ["an answer"])
        self.assertEqual(sent["attempt"], 2)
        self.assertTrue(sent["platformMessageId"])

    def test_what_people_do_to_a_message_later(self):
        self.platform.say(self.person, "helo", 1)
        self.has(self.person)
        self.platform.edit(self.person, "hello", 1)
        self.platform.react(self.person, "wave", 1)
        self.platform.react(self.person, "eyes", 1)
        self.platform.react(self.person, "eyes", 1, removed=True)
        self.platform.edit(self.person, "never told", 77)  # of before the daemon's time
        self.platform.say(self.person, "oops", 2)
        self.platform.delete(self.person, 2)
        self.wait(lambda: len(self.has(self.person, 2)) == 2 and self.chat(self.key(self.person))[1].get("deleted"), "the deletion")
        first, second = self.chat(self.key(self.person))
        self.assertEqual((first["text"], first["edited"], first["reactions"]), ("hello", True, [{"emoji": "wave", "count": 1}]))
        self.assertNotIn("text", second)

    def test_stop_stops_the_run(self):
        self.platform.say(self.person, "count to a million", 1)
        run = self.claim_run()
        self.platform.say(self.person, "Stop", 2)
        path = S(self.key(self.person), "main", "runs", run["runId"])
        self.wait(lambda: self.ok(self.api.get(path), 200)["status"] in ("aborting", "interrupted"), "the abort")

    def test_a_button_answers_whether_a_tool_may_be_used(self):
        self.platform.say(self.person, "clean up", 1)
        run = self.claim_run()
        path = S(run["key"], "main", "approvals")
        question = {"runId": run["runId"], "fence": run["lease"]["fence"], "tool": "bash", "args": {"command": "rm -r <x>"}}
        asked = self.ok(self.runner.post(path, question), 201)
        self.wait(lambda: self.platform.messages, "the question")
        question, = self.platform.messages.values()
        self.assertIn("May I use bash?", self.platform.text(question))
        self.platform.press(question, "allow")
        self.wait(self.platform.updates, "the question's end")
        answer = self.ok(self.runner.get(f"{path}/{asked['id']}"), 200)
        self.assertEqual((answer["decision"], answer["source"]), ("allow", "answer"))
        self.assertTrue(self.platform.updates()[0].endswith("(allow)"), self.platform.updates())

    def test_a_long_answer_comes_in_parts_and_in_order(self):
        self.platform.say(self.person, "a poem", 1)
        text = "".join(f"line {n} of a poem\n" for n in range(500))
        first, second = self.finish(self.claim_run(), text, "the end")
        sent = self.settled(first)
        self.settled(second)
        said = [self.platform.text(body) for body in self.platform.sends]
        self.assertEqual("".join(said), text + "the end")
        self.assertEqual(len(sent["parts"]), len(said) - 1)
        self.assertEqual(len({self.platform.given_id(body) for body in self.platform.sends}), len(said))

    def test_the_daemon_dies_and_comes_back(self):
        self.platform.say(self.person, "one", 1)
        self.has(self.person)
        self.owner.kill9()
        self.platform.say(self.person, "two", 2)
        self.owner.start()
        self.api, self.runner = self.owner.client(), self.owner.client(self.runner.token)
        self.assertEqual([row["text"] for row in self.has(self.person, 2)], ["one", "two"])
        delivery, = self.finish(self.claim_run(), "here I am")
        self.settled(delivery)
        self.assertEqual(self.seen(), ["here I am"])

    def test_the_platform_is_away_and_comes_back(self):
        self.platform.say(self.person, "one", 1)
        self.has(self.person)
        self.platform.drop()
        self.platform.say(self.person, "two", 2)
        self.assertEqual([row["text"] for row in self.has(self.person, 2)], ["one", "two"])

    def test_a_platform_that_refuses(self):
        """For now: it is sent again. For ever: it has failed, and the next one is sent."""
        self.platform.say(self.person, "hello", 1)
        self.platform.refusals += [self.platform.limited, self.platform.gone]
        first, second = self.finish(self.claim_run(), "never seen", "seen")
        self.assertEqual(self.settled(first, "failed")["error"]["code"], {"slack": "channel_not_found", "discord": "10003"}[self.platform.channel])
        self.settled(second)
        self.assertEqual(self.seen(), ["seen"])


class SlackBridge(Bridge, Case):
    platform_class, script, person, channel = Slack, "slack.mjs", "U1", "C1"
    runner_command = (sys.executable, EXAMPLES / "runner.py")

    def test_a_thread_is_a_conversation_of_its_own(self):
        self.platform.say("C1", "hello", 2, thread=1, mention=True)
        run = self.claim_run()
        self.assertIn(":thread:", run["key"])
        self.settled(self.finish(run, "a < b & c")[0])
        self.assertEqual((self.platform.sends[0]["thread_ts"], self.platform.sends[0]["text"]), (Slack.id(1), "a &lt; b &amp; c"))

    def test_an_event_is_acked_when_the_daemon_has_it(self):
        envelope = self.platform.say(self.person, "one", 1)
        self.wait(lambda: envelope in self.platform.acked, "the ack")
        self.assertEqual(len(self.has(self.person)), 1)
        self.owner.kill9()
        lost = self.platform.say(self.person, "two", 2)
        self.bridge.kill()
        self.bridge.wait()
        self.assertNotIn(lost, self.platform.acked)
        self.owner.start()
        self.api = self.owner.client()
        self.bridge = self.start_bridge()
        self.assertEqual([row["text"] for row in self.has(self.person, 2)], ["one", "two"])


class DiscordBridge(Bridge, Case):
    platform_class, script, person, channel = Discord, "discord.mjs", "101", "601"
    runner_command = ("node", EXAMPLES / "runner.mjs")

    def test_the_bot_types_when_a_run_begins(self):
        self.platform.say(self.channel, "hello", 1, mention=True)
        self.claim_run()
        self.wait(lambda: any(path.endswith("/channels/601/typing") for _, path, _ in self.platform.calls), "typing")
