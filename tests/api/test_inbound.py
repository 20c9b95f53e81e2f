"""POST /v1/inbound: one durable commit from a platform's event to a session, its metadata and its message."""

import json
import time

from harness.case import Case, S, text_of, uid

runs = {"asan", "release", "tsan"}

HOUR = 3600 * 1000


class Keys(Case):
    def test_by_chat_type(self):
        peer = "U0" + uid(6).upper()
        table = [
            ({"chatType": "direct", "peer": peer}, f"agent:main:slack:direct:{peer.lower()}"),
            ({"chatType": "dm", "peer": peer}, f"agent:main:slack:direct:{peer.lower()}"),
            ({"chatType": "group", "peer": "-100" + peer, "channel": "Telegram"},
             f"agent:main:telegram:group:-100{peer.lower()}"),
            ({"chatType": "channel", "peer": peer}, f"agent:main:slack:channel:{peer.lower()}"),
            ({"chatType": "channel", "peer": peer, "agent": "Codex"}, f"agent:codex:slack:channel:{peer.lower()}"),
            ({"chatType": "channel", "peer": peer, "threadId": "1700000001.000100"},
             f"agent:main:slack:channel:{peer.lower()}:thread:1700000001.000100"),
            ({"chatType": "group", "peer": peer, "threadId": 7}, f"agent:main:slack:group:{peer.lower()}:thread:7"),
        ]
        for body, key in table:
            with self.subTest(key):
                agent = key.split(":")[1]
                with self.api.stream("/v1/events?keyPrefix=" + key) as stream:
                    stream.wait_type("stream.hello")
                    got = self.inbound(**body)
                    self.assertEqual(got["sessionKey"], key)
                    event = stream.wait_type("message.appended").data
                    self.assertEqual((event["key"], event["agent"], event["channel"]),
                                     (key, agent, body.get("channel", "slack").lower()))
                session = self.ok(self.api.get(S(key, agent)), 200)
                self.assertEqual(session["sessionId"], got["sessionId"])
                self.assertEqual(session["deliveryContext"]["to"], body["peer"])
                if "threadId" in body:
                    self.assertEqual((session["deliveryContext"]["threadId"], session["lastThreadId"]),
                                     (body["threadId"],) * 2)

    def test_the_answer(self):
        got = self.inbound(chatType="direct", peer="U" + uid(), text="hello")
        self.assertEqual((got["created"], got["reset"], got["topic"], got["activate"], got["send"]["action"]),
                         (True, None, None, True, "allow"))
        self.assertEventId(got["asOf"])
        message = self.messages(got["sessionKey"])[0]
        self.assertEqual((message["seq"], message["id"], message["role"], text_of(message)),
                         (got["seq"], got["messageId"], "user", "hello"))

    def test_second_message(self):
        peer = "U" + uid()
        first, second = self.inbound(peer=peer), self.inbound(peer=peer)
        self.assertEqual((second["sessionKey"], second["sessionId"], second["created"], second["seq"]),
                         (first["sessionKey"], first["sessionId"], False, first["seq"] + 1))

    def test_topic_selects_a_transcript(self):
        peer = "G" + uid()
        plain = self.inbound(chatType="group", peer=peer, text="plain")
        topic = self.inbound(chatType="group", peer=peer, topic="42", text="in the topic")
        self.assertEqual((topic["sessionKey"], topic["sessionId"], topic["topic"]),
                         (plain["sessionKey"], plain["sessionId"], "42"))
        self.assertEqual(self.texts(plain["sessionKey"]), ["plain"])
        self.assertEqual(self.texts(plain["sessionKey"], query="topic=42"), ["in the topic"])
        both = self.inbound(chatType="group", peer=peer, topic="42", threadId="9", text="both")
        self.assertTrue(both["sessionKey"].endswith(":thread:9"))
        self.assertEqual(self.texts(both["sessionKey"], query="topic=42"), ["both"])

    def test_threads_inherit(self):
        daemon = self.spawn({"session": {"threads": "inherit"}})
        api = daemon.client()
        got = self.inbound(api, chatType="channel", peer="c1", threadId="17.5")
        self.assertEqual(got["sessionKey"], "agent:main:slack:channel:c1")
        self.assertEqual(api.get(S(got["sessionKey"])).json["lastThreadId"], "17.5")

    def test_scopes_of_direct_messages(self):
        links = {"alice": ["slack:U01", "telegram:4711"]}
        table = {
            "main": ["agent:main:main"] * 4,
            "per-peer": ["agent:main:direct:alice", "agent:main:direct:alice", "agent:main:direct:u02",
                         "agent:main:direct:u02"],
            "per-channel-peer": ["agent:main:slack:direct:alice", "agent:main:telegram:direct:alice",
                                 "agent:main:slack:direct:u02",
                                 "agent:main:telegram:direct:u02"],
            "per-account-channel-peer": ["agent:main:slack:work:direct:alice", "agent:main:telegram:work:direct:alice",
                                         "agent:main:slack:work:direct:u02", "agent:main:telegram:work:direct:u02"],
        }
        for scope, keys in table.items():
            with self.subTest(scope):
                api = self.spawn({"session": {"dmScope": scope, "identityLinks": links}}).client()
                got = [self.inbound(api, channel=channel, peer=peer, accountId="work")["sessionKey"]
                       for channel, peer in (("slack", "U01"), ("telegram", "4711"), ("slack", "U02"),
                                             ("telegram", "U02"))]
                self.assertEqual(got, keys)
                # Groups are never folded into a direct session.
                self.assertEqual(self.inbound(api, chatType="group", peer="U01")["sessionKey"],
                                 "agent:main:slack:group:u01")

    def test_main_key(self):
        api = self.spawn({"session": {"dmScope": "main", "mainKey": "home"}}).client()
        self.assertEqual(self.inbound(api)["sessionKey"], "agent:main:home")

    def test_an_old_dm_key_is_the_same_session(self):
        self.ok(self.api.put(S("agent:main:telegram:dm:99"), {"label": "from an old tree"}), 201)
        got = self.inbound(channel="telegram", peer="99")
        self.assertFalse(got["created"])
        self.assertEqual(self.api.get(S("agent:main:telegram:direct:99")).json["label"], "from an old tree")
        daemon = self.spawn(start=False)
        daemon.agent_dir().mkdir(parents=True)
        (daemon.agent_dir() / "sessions.json").write_text('{"agent:main:telegram:dm:99":{"sessionId":"d","updatedAt":1}}')
        api = daemon.start().client()
        got = self.inbound(api, channel="telegram", peer="99")
        self.assertEqual((got["created"], got["sessionKey"]), (False, "agent:main:telegram:dm:99"), "it stays in its spelling")
        for kind in ("dm", "direct"):
            self.ok(api.get(S(f"agent:main:telegram:{kind}:99")), 200)
        self.assertTrue(self.inbound(api, channel="telegram", peer="99", agent="codex")["created"])


class Metadata(Case):
    def session(self, got):
        return self.ok(self.api.get(S(got["sessionKey"])), 200)

    def test_group_fields_and_delivery(self):
        peer = "C0" + uid(6).upper()
        got = self.inbound(chatType="channel", peer=peer, accountId="work", subject="Planning", space="T1",
                           groupChannel="#general",
                           displayName="Our room", surface="slack", **{"from": "U7"})
        session = self.session(got)
        self.assertEqual({n: session[n] for n in ("channel", "chatType", "subject", "space", "groupChannel",
                                                  "displayName")},
                         {"channel": "slack", "chatType": "channel", "subject": "Planning", "space": "T1",
                          "groupChannel": "#general",
                          "displayName": "Our room"})
        self.assertEqual(session["deliveryContext"], {"channel": "slack", "to": peer, "accountId": "work"})
        self.assertEqual((session["lastChannel"], session["lastTo"], session["lastAccountId"]), ("slack", peer, "work"))
        self.assertEqual(session["groupId"].lower(), peer.lower())
        self.assertGreater(session["lastInteractionAt"], 1_600_000_000_000)

    def test_origin_is_set_once(self):
        peer = "G" + uid()
        got = self.inbound(chatType="group", peer=peer, label="First", surface="web", provider="slack", accountId="a1",
                           **{"from": "U1"})
        origin = self.session(got)["origin"]
        self.assertEqual({n: origin.get(n) for n in ("label", "provider", "surface", "chatType", "from", "accountId")},
                         {"label": "First", "provider": "slack", "surface": "web", "chatType": "group", "from": "U1",
                          "accountId": "a1"})
        self.inbound(chatType="group", peer=peer, label="Second", surface="mobile", accountId="a2", **{"from": "U2"})
        session = self.session(got)
        self.assertEqual(session["origin"], origin)
        self.assertEqual(session["lastAccountId"], "a2", "delivery follows the newest message")

    def test_display_name_is_computed_when_absent(self):
        name = uid()
        session = self.session(self.inbound(chatType="group", peer="G" + name, subject="Familie & Freunde",
                                            channel="telegram"))
        self.assertTrue(session["displayName"])
        named = self.inbound(chatType="group", peer="G" + name, displayName="Given", channel="telegram")
        self.assertEqual(self.session(named)["displayName"], "Given")
        self.inbound(chatType="group", peer="G" + name, subject="Other", channel="telegram")
        self.assertEqual(self.session(named)["displayName"], "Given")

    def test_content_and_attachments_and_own_id(self):
        name = f"1700000001.{uid()}"
        parts = [{"type": "text", "text": "see"}, {"type": "image", "source": {"url": "https://x/a.png"}}]
        got = self.inbound(content=parts, messageId=name, **{"from": "U1"})
        message = self.ok(self.api.get(S(got["sessionKey"], "main", "messages", got["messageId"])), 200)
        self.assertEqual(message["content"], parts)
        got = self.inbound(text="file", attachments=[{"name": "a.pdf", "url": "https://x/a.pdf"}])
        self.assertIn("a.pdf", str(self.messages(got["sessionKey"])))

    def test_events_of_one_commit(self):
        key = "agent:main:slack:group:e" + uid()
        with self.api.stream("/v1/events?keyPrefix=" + key) as stream:
            stream.wait_type("stream.hello")
            got = self.inbound(chatType="group", peer=key.rsplit(":", 1)[1], topic="t")
            appended = stream.wait_type("message.appended").data
            stream.wait_seq(int(got["asOf"].split("-")[1]))
        self.assertEqual(stream.durable[0].type, "session.created")
        self.assertEqual(stream.durable[0].data["data"]["reason"], "inbound")
        self.assertEqual(stream.durable[0].data["data"]["entry"]["sessionId"], got["sessionId"])
        self.assertEqual((appended["topic"], appended["sessionId"], appended["chatType"], appended["source"]),
                         ("t", got["sessionId"], "group", "api"))
        self.assertEqual((appended["data"]["message"]["id"], appended["data"]["message"]["seq"]),
                         (got["messageId"], got["seq"]))
        self.assertEqual(got["asOf"], stream.durable[-1].id, "asOf is the commit's last event")

    def test_faults(self):
        post = lambda body: self.api.post("/v1/inbound", body)
        self.problem(post({}), 422, "validation_failed")
        fine = {"channel": "slack", "chatType": "direct", "peer": "U1", "text": "x"}
        for name in fine:
            self.invalid(post({n: v for n, v in fine.items() if n != name}), "/" + name)
        self.problem(post({**fine, "content": []}), 422, "validation_failed")
        self.invalid(post({**fine, "chatType": "crowd"}), "/chatType")
        self.invalid(post({**fine, "peer": ""}), "/peer")
        self.invalid(post({**fine, "peer": 4711}), "/peer")
        self.invalid(post({**fine, "channle": "slack"}), "/channle")
        self.invalid(post({**fine, "mentioned": "yes"}), "/mentioned")
        self.invalid(post({**fine, "threadId": {}}), "/threadId")
        for rounded in (2**53 + 1, -(2**53) - 1, 1.5, -0.0, 1000.0, float(2**53)):  # programs that read numbers as doubles take it for another one
            self.invalid(post({**fine, "threadId": rounded}), "/threadId")
        self.problem(post({**fine, "topic": "x" * 200}), 422, "validation_failed", "invalid_id")
        self.problem(post({**fine, "peer": "x" * 600}), 422, "validation_failed", "invalid_id")


class Resets(Case):
    def test_a_trigger_alone(self):
        peer = "U" + uid()
        first = self.inbound(peer=peer, text="old talk")
        got = self.inbound(peer=peer, text="  /new ")
        self.assertEqual((got["reset"], got["seq"], got["messageId"], got["created"]),
                         ({"reason": "trigger", "previousSessionId": first["sessionId"]}, None, None, False))
        self.assertNotEqual(got["sessionId"], first["sessionId"])
        self.assertEqual(self.messages(got["sessionKey"]), [])
        self.assertEqual(self.texts(first["sessionId"]), ["old talk"])

    def test_text_after_the_trigger_becomes_the_message(self):
        peer = "U" + uid()
        self.inbound(peer=peer, text="old talk")
        for trigger in ("/reset", "/new", "/RESET"):
            got = self.inbound(peer=peer, text=trigger + " and now:  this")
            self.assertEqual(got["reset"]["reason"], "trigger")
            self.assertEqual(self.texts(got["sessionKey"]), ["and now:  this"])

    def test_no_trigger(self):
        peer = "U" + uid()
        first = self.inbound(peer=peer)
        for text in ("/newspaper", "say /new", "new", "/renew"):
            self.assertIsNone(self.inbound(peer=peer, text=text)["reset"], text)
        self.assertEqual(self.inbound(peer=peer)["sessionId"], first["sessionId"])

    def test_own_triggers(self):
        api = self.spawn({"session": {"resetTriggers": ["vergiss alles"]}}).client()
        self.inbound(api, peer="u")
        self.assertIsNone(self.inbound(api, peer="u", text="/new")["reset"])
        self.assertEqual(self.inbound(api, peer="u", text="vergiss alles")["reset"]["reason"], "trigger")

    def test_idle(self):
        api = self.spawn({"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}).client()
        now = int(time.time() * 1000)
        for key, age, reset in (("agent:main:slack:direct:fresh", HOUR // 2, False),
                                ("agent:main:slack:direct:stale", 2 * HOUR, True)):
            entry = {"sessionId": "old-" + uid(), "updatedAt": now - age, "lastInteractionAt": now - age,
                     "sessionStartedAt": now - age, "label": "kept"}
            self.ok(api.put(S(key), entry), 201)
            got = self.inbound(api, peer=key.rsplit(":", 1)[1], text="good morning")
            self.assertEqual(got["reset"], {"reason": "idle", "previousSessionId": entry["sessionId"]}
                             if reset else None)
            self.assertEqual(self.texts(key, api=api), ["good morning"])
            self.assertEqual(api.get(S(key)).json["label"], "kept")

    def test_daily(self):
        api = self.spawn({"session": {"reset": {"mode": "daily", "atHour": 4}}}).client()
        then = int(time.time() * 1000) - 30 * HOUR
        self.ok(api.put(S("agent:main:slack:direct:u"),
                        {"sessionId": "old-1", "updatedAt": then, "lastInteractionAt": then, "sessionStartedAt": then}),
                        201)
        self.assertEqual(self.inbound(api, peer="u")["reset"], {"reason": "daily", "previousSessionId": "old-1"})
        self.assertIsNone(self.inbound(api, peer="u")["reset"])

    def test_by_type(self):
        api = self.spawn({"session": {"resetByType": {"group": {"mode": "idle", "idleMinutes": 60}}}}).client()
        then = int(time.time() * 1000) - 2 * HOUR
        for kind in ("group", "direct"):
            self.ok(api.put(S(f"agent:main:slack:{kind}:x"),
                            {"updatedAt": then, "lastInteractionAt": then, "sessionStartedAt": then}), 201)
        self.assertEqual(self.inbound(api, chatType="group", peer="x")["reset"]["reason"], "idle")
        self.assertIsNone(self.inbound(api, chatType="direct", peer="x")["reset"])


class Activation(Case):
    def test_direct_always(self):
        self.assertTrue(self.inbound(mentioned=False)["activate"])

    def test_groups_by_mention_unless_always(self):
        peer = "G" + uid()
        say = lambda **more: self.inbound(chatType="group", peer=peer, **more)
        self.assertFalse(say()["activate"])
        self.assertFalse(say(mentioned=False)["activate"])
        self.assertTrue(say(mentioned=True)["activate"])
        key = say()["sessionKey"]
        self.ok(self.api.patch(S(key), {"groupActivation": "always"}), 200)
        self.assertTrue(say()["activate"])
        self.ok(self.api.patch(S(key), {"groupActivation": "mention"}), 200)
        self.assertFalse(say()["activate"])
        self.assertTrue(say(activate=True)["activate"], "the bridge may say so itself")

    def test_the_second_telling_that_addresses_the_agent_activates_a_message_once(self):
        daemon = self.spawn({"runs": {"onInbound": True}})
        peer = "G" + uid()

        def tell(status=200, **more):
            return self.inbound(api=daemon.client(), status=status, chatType="group", peer=peer, messageId="m1", text="@bot hi", **more)

        first = tell(201)
        self.assertEqual((first["activate"], first["run"]), (False, None))
        self.assertEqual((tell()["activate"], tell()["duplicate"]), (False, True))
        daemon.restart(kill=True)
        second = tell(mentioned=True)
        self.assertEqual([second[name] for name in ("activate", "duplicate", "messageId", "seq")], [True, True, first["messageId"], first["seq"]])
        daemon.restart(kill=True)
        for more in ({"mentioned": True}, {}):
            self.assertEqual(tell(**more), {**second, "asOf": second["asOf"]})
        key, api = first["sessionKey"], daemon.client()
        run = self.ok(api.post("/v1/agents/main/runs/claim", {"waitMs": 5000}), 200)
        self.assertEqual((run["runId"], run["input"]), (second["run"]["runId"], [first["messageId"]]))
        self.assertEqual(self.ok(api.get("/v1/sessions?needs=answer"), 200)["data"][0]["key"], key)
        self.assertEqual(self.texts(key, api=api), ["@bot hi"])

    def test_what_another_person_says_under_the_same_id_activates_nobody_elses_message(self):
        body = {"chatType": "group", "peer": "G" + uid(), "messageId": "m1"}
        self.inbound(**body, **{"from": {"id": "1"}}, text="first")
        again = self.inbound(status=200, **body, **{"from": {"id": "2"}}, text="first", mentioned=True)
        self.assertEqual((again["activate"], again["run"]), (False, None))

    def test_both_tellings_in_one_request_in_any_order_begin_one_run(self):
        daemon = self.spawn({"runs": {"onInbound": True}})
        for order in ((False, True), (True, False), (False, True, True)):
            peer = "G" + uid()
            body = {"channel": "slack", "chatType": "group", "peer": peer, "messageId": "m1", "text": "@bot hi"}
            results = self.ok(daemon.client().post("/v1/inbound", [{**body, "mentioned": mentioned} for mentioned in order]), 200)["results"]
            self.assertEqual(len({json.dumps(result["run"]) for result in results if result["activate"]}), 1, results)
            runs = self.ok(daemon.client().get(S(results[0]["sessionKey"], "main", "runs")), 200)["data"]
            self.assertEqual(len(runs), 1, order)

    def test_a_second_telling_activates_nothing_that_is_deleted_or_archived(self):
        daemon = self.spawn({"runs": {"onInbound": True}})
        api = daemon.client()
        for what in ("deleted", "reset", "fromMe"):
            peer = "G" + uid()
            tell = lambda status=200, **more: self.inbound(api=api, status=status, chatType="group", peer=peer, messageId="m1", text="hi", **more)  # noqa: E731, B023
            key = tell(201)["sessionKey"]
            if what == "deleted":
                self.ok(api.post("/v1/inbound/deletes", {"channel": "slack", "peer": peer, "messageId": "m1"}), 201)
            if what == "reset":
                self.ok(api.post(S(key, "main", "reset"), {}), 200)
            told = tell(mentioned=True, fromMe=what == "fromMe")
            self.assertEqual((told["activate"], told["run"], told["duplicate"]), (False, None, True), what)
            self.assertEqual(self.ok(api.get(S(key, "main", "runs")), 200)["data"], [])

    def test_system_intro_once_per_session(self):
        peer = "G" + uid()
        say = lambda **more: self.inbound(chatType="group", peer=peer, mentioned=True, **more)
        self.assertEqual([say()["systemIntro"] for _ in range(3)], [True, False, False])
        self.assertEqual([say(text="/new x")["systemIntro"], say()["systemIntro"]], [True, False])


class Triggers(Case):
    """Resets by what is said, in whichever form it comes."""

    def test_a_trigger_in_content_resets(self):
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        part = lambda text: {"type": "text", "text": text}  # noqa: E731
        table = [  # content, what is left of it
            ("/new", None),
            ("/new tell me", "tell me"),
            ([part("/new")], None),
            ([part("/reset and go")], [part("and go")]),
            ([part("/new one"), part("two")], [part("one\ntwo")]),
            ([image, part("/new")], [image]),
            ([image, part("/new look"), part("here")], [image, part("look\nhere")]),
        ]
        for content, left in table:
            with self.subTest(str(content)):
                peer = "U" + uid()
                first = self.inbound(peer=peer)
                got = self.inbound(peer=peer, content=content)
                self.assertEqual(got["reset"], {"reason": "trigger", "previousSessionId": first["sessionId"]})
                self.assertEqual([m["content"] for m in self.messages(got["sessionKey"])], [left] if left else [])
        for content in ("/newest", [part("see /new")], [image, part("say")], [image]):
            peer = "U" + uid()
            self.inbound(peer=peer)
            got = self.inbound(peer=peer, content=content)
            self.assertIsNone(got["reset"], content)
            self.assertEqual(self.messages(got["sessionKey"])[-1]["content"], content)

    def test_a_trigger_behind_a_mention_resets(self):
        for text in ("<@U1> /new", "@bot /new hi"):
            peer = "C" + uid()
            self.inbound(chatType="channel", peer=peer)
            self.assertIsNone(self.inbound(chatType="channel", peer=peer, text=text)["reset"], "nobody was mentioned")
            got = self.inbound(chatType="channel", peer=peer, text=text, mentioned=True)
            self.assertEqual(got["reset"]["reason"], "trigger")
            self.assertEqual(self.texts(got["sessionKey"]), ["hi"] if "hi" in text else [])

    def test_a_trigger_may_name_the_agent_that_is_meant(self):
        for text, left in (("/new@my_bot", []), ("/new@my_bot hi", ["hi"])):
            peer = "C" + uid()
            self.inbound(chatType="group", peer=peer)
            self.assertIsNone(self.inbound(chatType="group", peer=peer, text=text)["reset"], "a command to another bot")
            for chat in ({"chatType": "group", "peer": peer, "mentioned": True}, {"chatType": "direct", "peer": peer}):
                self.inbound(**chat)
                got = self.inbound(**chat, text=text)
                self.assertEqual(got["reset"]["reason"], "trigger")
                self.assertEqual(self.texts(got["sessionKey"]), left)

    def test_a_trigger_alone_activates_nobody(self):
        for more in ({}, {"mentioned": True}, {"activate": True}, {"chatType": "group"}):
            got = self.inbound(peer="U" + uid(), text="/new", **more)
            self.assertEqual((got["activate"], got["seq"], got["systemIntro"]), (False, None, False), more)
        self.assertTrue(self.inbound(peer="U" + uid(), text="/new hello")["activate"])
        got = self.inbound(peer="U" + uid(), text="/new", attachments=[{"type": "image"}])
        self.assertEqual((got["activate"], got["seq"]), (True, 0))

    def test_nothing_said_is_refused(self):
        whole = {"channel": "slack", "chatType": "direct", "peer": "u" + uid()}
        for body in ({"text": ""}, {"text": "", "attachments": []}, {"attachments": []}):
            self.invalid(self.api.post("/v1/inbound", {**whole, **body}), "/text")
        for content in ("", []):
            self.invalid(self.api.post("/v1/inbound", {**whole, "content": content}), "/content")
        self.inbound(text="", attachments=[{"type": "image"}])
        key = self.new()["key"]
        self.invalid(self.api.post(S(key, "main", "messages"), {"role": "user", "text": ""}), "/text")
        for body in ({"text": ""}, {"text": "", "mediaUrls": []}):
            self.invalid(self.api.post(S(key, "main", "outbound"), body), "/text")
        self.ok(self.api.post(S(key, "main", "outbound"), {"text": "", "mediaUrls": ["https://x/a.png"]}), 201)


class Introduction(Case):
    def said(self, peer, api=None, **more):
        got = self.inbound(api, chatType="group", peer=peer, **more)
        return got["activate"], got["systemIntro"]

    def test_the_introduction_goes_with_the_first_message_that_activates(self):
        """Whatever ends the daemon between any two."""
        peer, mention = "G" + uid(), {"mentioned": True}
        for more, told in (({}, (False, False)), ({}, (False, False)), (mention, (True, True)), (mention, (True, False)),
                           ({"text": "/new", **mention}, (False, False)), ({}, (False, False)),
                           ({"activate": True}, (True, True)), (mention, (True, False)),
                           ({"text": "/new"}, (False, False)), ({}, (False, False)), (mention, (True, True)), (mention, (True, False))):
            self.assertEqual(self.said(peer, **more), told)
            self.daemon.restart(kill="mentioned" in more)

    def test_the_introduction_is_owed_again_after_a_reset_by_the_api_and_over_a_restart(self):
        daemon = self.spawn()
        api, peer = daemon.client(), "g" + uid()
        key = f"agent:main:slack:group:{peer}"
        self.assertEqual(self.said(peer, api, mentioned=True), (True, True))
        self.ok(api.post(S(key, "main", "reset"), {}), 200)
        self.assertTrue(api.get(S(key)).json["groupActivationNeedsSystemIntro"])
        self.assertEqual(self.said(peer, api), (False, False))
        daemon.restart(kill=True)
        self.assertEqual(self.said(peer, api, mentioned=True), (True, True))
        daemon.restart()
        self.assertEqual(self.said(peer, api, mentioned=True), (True, False))

    def test_a_session_made_by_the_api_owes_an_introduction(self):
        peer = "g" + uid()
        self.new(f"agent:main:slack:group:{peer}")
        self.assertEqual(self.said(peer), (False, False))
        self.assertEqual(self.said(peer, mentioned=True), (True, True))

    def test_with_the_first_message_at_once(self):
        self.assertEqual(self.said("G" + uid(), mentioned=True), (True, True))
        got = self.inbound(chatType="direct")
        self.assertEqual((got["activate"], got["systemIntro"]), (True, False))


class Redelivered(Case):
    runs = {"asan", "tsan"}

    def test_a_trigger_that_is_delivered_three_times_resets_once(self):
        for content in ({"text": "/new and this"}, {"content": [{"type": "text", "text": "/reset and this"}]}, {"text": "/new"},
                        {"content": "/reset", "topic": "t"}):
            with self.subTest(content):
                peer, event = "U" + uid(8), "slack:A:T:" + uid()
                before = self.inbound(peer=peer, text="before")
                body = {"channel": "slack", "chatType": "direct", "peer": peer, **content}
                first = self.once(lambda: self.api.post("/v1/inbound", body, idempotency_key=event))
                self.daemon.restart(kill="text" in content)
                self.once(lambda: self.api.post("/v1/inbound", body, idempotency_key=event), first)
                self.assertEqual(first.json["reset"], {"reason": "trigger", "previousSessionId": before["sessionId"]})
                history = self.ok(self.api.get(S(before["sessionKey"], "main", "history")))["data"]
                self.assertEqual([h["sessionId"] for h in history], [first.json["sessionId"], before["sessionId"]])
                alone = "and" not in str(content)
                self.assertEqual(self.texts(before["sessionKey"]), [] if alone else ["and this"])
                self.assertEqual((first.json["seq"] is None, first.json["activate"]), (alone, not alone))
