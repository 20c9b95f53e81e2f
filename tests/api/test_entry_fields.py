"""Every field of an entry: written, stored, refused when of a wrong type, and served as a foreign program wrote it."""

from harness.case import Case, S, json, uid
from harness.sessiond import Daemon

PARENT = "agent:main:parent"
TIME = 1795298400000
TEXTS = """sessionFile sdkSessionId channel lastChannel lastTo lastAccountId groupId subject groupChannel space displayName
    providerOverride modelOverride authProfileOverride execHost execSecurity execAsk execNode thinkingLevel verboseLevel reasoningLevel
    elevatedLevel modelProvider model lastHeartbeatText label deliveryContext.channel deliveryContext.to deliveryContext.accountId
    origin.label origin.provider origin.surface origin.from origin.to origin.accountId"""
COUNTS = """authProfileOverrideCompactionCount queueDebounceMs queueCap contextTokens memoryFlushCompactionCount
    inputTokens outputTokens totalTokens compactionCount"""


def all_of(names, right, wrong):
    return [(name, right, wrong) for name in names.split()]


FIELDS = [  # field, a right value, values of a wrong type
    *all_of(TEXTS, "text", [7, True, {}, []]),
    *all_of(COUNTS, 3, ["3", -1, 1.5]),
    *all_of("updatedAt memoryFlushAt lastHeartbeatSentAt", TIME, ["x", -1, 1.5]),
    *all_of("groupActivationNeedsSystemIntro systemSent abortedLastRun", True, ["true", 1, 0]),
    *all_of("lastThreadId deliveryContext.threadId origin.threadId", 17.5, [True, {}, [], 2**53 + 1, -(2**53) - 2, -0.0]),
    *all_of("lastThreadId deliveryContext.threadId origin.threadId", "t42", []),
    *all_of("chatType origin.chatType", "group", ["x", 7]),
    ("label", "l" * 200, ["l" * 201]),
    ("sessionId", "9f8e7d6c-0000-4000-8000-000000000001", [7, "../x"]),
    ("spawnedBy", PARENT, [7, {}]),
    ("claudeCliSessionId", "cli-1", [7, []]),
    ("cliSessionIds", {"codex-cli": "c-1"}, ["x", 7, {"a": 7}]),
    ("deliveryContext", {"channel": "slack", "to": "u1"}, ["x", 7]),
    ("origin", {"label": "l"}, ["x", 7, []]),
    ("sendPolicy", "deny", ["maybe", True]),
    ("groupActivation", "always", ["x", 1]),
    ("authProfileOverrideSource", "user", ["x", 7]),
    ("responseUsage", "tokens", ["x", 7]),
    ("ttsAuto", "tagged", ["sometimes", True]),
    ("queueMode", "collect", ["x", 7]),
    ("queueDrop", "summarize", ["x", 7]),
    ("skillsSnapshot", {"prompt": "p"}, ["x", []]),
    ("systemPromptReport", {"chars": 1}, [7, []]),
]
# Of these PATCH and create are refused altogether and PUT takes them; a child is created with its parent.
IMPORTED = {"sessionId", "updatedAt", "spawnedBy", "inputTokens", "outputTokens", "totalTokens", "compactionCount"}
OWN = {"sessionId", "updatedAt"}  # where another program wrote a wrong one, the daemon shows its own


def entry(name, value):
    outer, _, inner = name.partition(".")
    return {outer: {inner: value}} if inner else {outer: value}


def of(name, session):
    outer, _, inner = name.partition(".")
    found = session.get(outer)
    return found.get(inner) if inner and isinstance(found, dict) else found


class EntryFields(Case):
    @classmethod
    def setUpClass(cls):
        """The daemon finds the store of an agent in which each wrong value lies."""
        cls.foreign = {f"agent:theirs:x:{uid()}": (name, value) for name, _, wrong in FIELDS for value in wrong}
        cls.written = {key: {"sessionId": "s-" + uid(), "updatedAt": 1, **entry(name, value)} for key, (name, value) in cls.foreign.items()}
        daemon = Daemon()
        daemon.agent_dir("theirs").mkdir(parents=True)
        (daemon.agent_dir("theirs") / "sessions.json").write_text(json.dumps(cls.written))
        cls.begin(daemon)

    def refused(self, reply, pointer):
        """422 at the field, or at a member of it."""
        for error in self.problem(reply, 422).get("errors", []):
            self.assertTrue(error["pointer"].startswith(pointer), error)

    def test_a_right_value_is_kept_and_a_wrong_one_is_refused_by_each_way(self):
        create = lambda value: self.api.post("/v1/agents/main/sessions", {"entry": value})  # noqa: E731
        kept = {self.new(PARENT)["key"]: ("label", None)}
        for name, right, wrong in FIELDS:
            with self.subTest(name):
                key, pointer, write = self.new()["key"], "/" + name.replace(".", "/"), self.api.patch
                if name in IMPORTED:
                    self.invalid(self.api.patch(S(key), entry(name, right)), pointer)
                    if name != "spawnedBy":
                        self.invalid(create(entry(name, right)), "/entry" + pointer)
                    key, write = key + "-imported", self.api.put
                self.ok(write(S(key), entry(name, right)), 200, 201)
                for value in wrong:
                    self.refused(write(S(key), entry(name, value)), pointer)
                    self.refused(create(entry(name, value)), "/entry" + pointer)
                self.assertEqual(of(name, self.ok(self.api.get(S(key)), 200)), right, "a refusal changes nothing")
                kept[key] = (name, right)
        stored = self.daemon.sessions_json()
        for key, (name, right) in kept.items():
            with self.subTest(name, stored=right):
                self.assertEqual(of(name, stored[key]), right)

    def test_what_a_foreign_program_wrote_is_served_as_it_lies_and_stays(self):
        for key, (name, value) in self.foreign.items():
            with self.subTest(name, value=value):
                shown = of(name, self.ok(self.api.get(S(key, "theirs")), 200))
                if name not in OWN:
                    self.assertEqual(shown, value)
                self.ok(self.api.patch(S(key, "theirs"), {"x-touched": True}), 200)
        stored = self.daemon.sessions_json("theirs")
        for key, (name, value) in self.foreign.items():
            if name != "updatedAt":
                with self.subTest(name, value=value):
                    self.assertEqual(of(name, stored[key]), of(name, self.written[key]))
