#include "daemon/decide/commands.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

constexpr const char* direct = "agent:main:slack:direct:u1";
constexpr const char* group = "agent:main:slack:group:g1";
constexpr std::int64_t minute = 60'000;

Inbound from_user(std::string text = "hi") {
  return {.channel = "Slack", .chat_type = "dm", .peer = "U1", .text = std::move(text)};
}
Inbound in_group(std::string text = "hi") {
  return {.channel = "slack",
          .chat_type = "group",
          .peer = "G1",
          .from = {.id = "U1", .json = R"("U1")"},
          .text = std::move(text)};
}
std::vector<std::string> types(const Decision& decision) {
  std::vector<std::string> out;
  for (const journal::Event& event : decision.events) out.emplace_back(journal::name(event.envelope.type));
  return out;
}
using Types = std::vector<std::string>;

}  // namespace

TEST_CASE("the first message makes the session, the second is only appended") {
  World world;
  const Decision first = world.run(from_user());
  CHECK(first.status == 201);
  CHECK(types(first) == Types{"session.created", "message.appended"});
  CHECK(world.asked.empty());
  CHECK(at(first.body, "sessionKey") == "\"agent:main:slack:direct:u1\"");
  CHECK(at(first.body, "created") == "true");
  CHECK(at(first.body, "reset") == "null");
  CHECK(at(first.body, "topic") == "null");
  CHECK(at(first.body, "seq") == "0");
  CHECK(at(first.body, "activate") == "true");
  CHECK(at(first.body, "systemIntro") == "false");
  CHECK(at(at(first.body, "send"), "action") == "\"allow\"");
  CHECK(at(first.body, "asOf") == "\"0badcafe-2\"");
  CHECK(at(first.events[0].data, "reason") == "\"inbound\"");
  CHECK(first.events[1].envelope.channel == "slack");
  CHECK(first.events[1].envelope.chat_type == "direct");
  const std::string file = world.session(direct).session_id + ".jsonl";
  CHECK(at(world.entries(file).at(0), "id") == at(first.body, "messageId"));
  CHECK(world.field(direct, "deliveryContext") == R"({"channel":"slack","to":"U1"})");
  CHECK(world.field(direct, "lastTo") == "\"U1\"");
  CHECK(at(world.field(direct, "origin"), "from") == "\"U1\"");

  world.now += 5;
  const Decision second = world.run(from_user("again"));
  CHECK(types(second) == Types{"message.appended"});
  CHECK(at(second.body, "created") == "false");
  CHECK(at(second.body, "seq") == "1");
  CHECK(world.session(direct).rev == 1);
}

TEST_CASE("metadata: origin once, what is new later") {
  World world;
  Inbound message = in_group();
  message.names.subject = "Lunch";
  message.account_id = "acc";
  message.names.label = "Label";
  world.run(message);
  CHECK(world.field(group, "displayName") == "\"Lunch\"");
  CHECK(world.field(group, "subject") == "\"Lunch\"");
  CHECK(world.field(group, "groupId") == "\"G1\"");
  CHECK(world.field(group, "lastAccountId") == "\"acc\"");
  const std::string origin = world.field(group, "origin");
  CHECK(at(origin, "label") == "\"Label\"");
  message.names.subject = "Dinner";
  message.names.label = "Other";
  message.thread_id = "7";
  world.rules.routing.threads = policy::ThreadScope::inherit;
  const Decision second = world.run(message);
  CHECK(types(second) == Types{"session.updated", "message.appended"});
  CHECK(world.field(group, "origin") == origin);
  CHECK(world.field(group, "displayName") == "\"Lunch\"");
  CHECK(world.field(group, "subject") == "\"Dinner\"");
  CHECK(world.field(group, "lastThreadId") == "7");
  CHECK(types(world.run(message)) == Types{"message.appended"});
  message.names.display_name = "Named";
  world.run(message);
  CHECK(world.field(group, "displayName") == "\"Named\"");
}

TEST_CASE("resets: trigger, idle, daily") {
  struct Case {
    std::string text;
    policy::ResetRule rule;
    std::int64_t later;
    std::string reason;
    std::string stored;  // text of the new session's first message; "-": none
  };
  const policy::ResetRule idle{.mode = policy::ResetRule::Mode::idle, .idle_minutes = 10};
  const policy::ResetRule daily{.mode = policy::ResetRule::Mode::daily, .at_hour = 23};
  const std::vector<Case> cases{{"/new", {}, 1, "trigger", "-"},
                                {" /RESET  do this ", {}, 1, "trigger", "do this"},
                                {"/newest", {}, 1, "", ""},
                                {"hello", idle, 10 * minute, "idle", "hello"},
                                {"hello", idle, 10 * minute - 1, "", ""},
                                {"/new hello", idle, 99 * minute, "trigger", "hello"},
                                {"hello", daily, 61 * minute, "daily", "hello"},
                                {"hello", daily, 59 * minute, "", ""}};
  for (const Case& one : cases) {
    CAPTURE(one.text);
    CAPTURE(one.later);
    World world;
    world.rules.resets.base = one.rule;
    world.run(from_user("first"));
    const std::string old = world.session(direct).session_id;
    world.now += one.later;
    const Decision done = world.run(from_user(one.text));
    const Session& session = world.session(direct);
    if (one.reason.empty()) {
      CHECK(at(done.body, "reset") == "null");
      CHECK(session.session_id == old);
      CHECK(world.entries(old + ".jsonl").size() == 2);
      continue;
    }
    CHECK(at(at(done.body, "reset"), "reason") == json::quote(one.reason));
    CHECK(at(at(done.body, "reset"), "previousSessionId") == json::quote(old));
    CHECK(at(done.body, "sessionId") == json::quote(session.session_id));
    CHECK(done.events.at(0).envelope.type == journal::EventType::session_reset);
    CHECK(done.through_checkpoint);
    CHECK(session.session_id != old);
    CHECK_FALSE(world.files.contains(old + ".jsonl"));
    const auto entries = world.entries(session.session_id + ".jsonl");
    if (one.stored == "-") {
      CHECK(at(done.body, "seq") == "null");
      CHECK(at(done.body, "messageId") == "null");
      CHECK(entries.empty());
      CHECK(session.message_count == 0);
    } else {
      CHECK(at(done.body, "seq") == "0");
      REQUIRE(entries.size() == 1);
      CHECK(entries[0].find("\"text\":" + json::quote(one.stored)) != std::string::npos);
      CHECK(session.message_count == 1);
    }
  }
}

TEST_CASE("rules by kind of chat, and a trigger that comes first") {
  World world;
  world.rules.resets.group = policy::ResetRule{.mode = policy::ResetRule::Mode::idle, .idle_minutes = 1};
  world.run(from_user());
  world.run(in_group());
  world.now += 2 * minute;
  CHECK(at(world.run(from_user()).body, "reset") == "null");
  CHECK(at(world.run(in_group()).body, "reset") != "null");
  World fresh;
  const Decision first = fresh.run(from_user("/new"));
  CHECK(types(first) == Types{"session.created"});
  CHECK(at(first.body, "created") == "true");
  CHECK(at(first.body, "seq") == "null");
}

TEST_CASE("a reset asks where the transcript ends, and appends to a new topic file") {
  World world;
  world.store(direct, R"({"sessionId":"old","updatedAt":1})");
  world.files["old.jsonl"] = "{\"type\":\"session\"}\n";
  Inbound message = from_user("/new x");
  message.topic = "t";
  const Decision done = world.run(message);
  REQUIRE(world.asked.size() == 1);
  CHECK(world.asked[0].what == Need::What::transcript_end);
  CHECK(types(done).back() == "message.appended");
  CHECK(at(done.body, "topic") == "\"t\"");
  CHECK(std::ranges::count(types(done), "topic.created") == 1);
  CHECK(world.entries(world.session(direct).session_id + "-topic-t.jsonl").size() == 1);
}

TEST_CASE("activation and the introduction") {
  World world;
  const Decision first = world.run(in_group());
  CHECK(at(first.body, "activate") == "false");
  CHECK(at(first.body, "systemIntro") == "false");  // it goes with the first that activates
  CHECK(world.field(group, "groupActivationNeedsSystemIntro") == "true");
  Inbound mentioned = in_group();
  mentioned.mentioned = true;
  const Decision activated = world.run(mentioned);
  CHECK(at(activated.body, "activate") == "true");
  CHECK(at(activated.body, "systemIntro") == "true");
  CHECK(world.field(group, "groupActivationNeedsSystemIntro") == "-");
  CHECK(at(world.run(mentioned).body, "systemIntro") == "false");
  mentioned.activate = false;
  CHECK(at(world.run(mentioned).body, "activate") == "false");
  const Decision triggered = world.run(in_group("/new"));
  CHECK(at(triggered.body, "activate") == "false");  // nothing was said behind it
  CHECK(at(triggered.body, "systemIntro") == "false");
  CHECK(world.field(group, "groupActivationNeedsSystemIntro") == "true");
  world.run(PatchSession{.target = {.key = group},
                         .patch = R"({"groupActivation":"always","groupActivationNeedsSystemIntro":true})"});
  const Decision owed = world.run(in_group());
  CHECK(at(owed.body, "activate") == "true");
  CHECK(at(owed.body, "systemIntro") == "true");
  CHECK(world.field(group, "groupActivationNeedsSystemIntro") == "-");
  CHECK(at(world.run(in_group()).body, "systemIntro") == "false");
}

TEST_CASE("content, attachments, time and the platform's id stay with the message") {
  World world;
  Inbound message = in_group();
  message.text.reset();
  message.content = R"([{"type":"image","n":1e400}])";
  message.attachments = R"([{"url":"x"}])";
  message.message_id = "platform-1";
  message.timestamp = 1'000;
  const Decision done = world.run(message);
  const std::string line = world.entries(world.session(group).session_id + ".jsonl").at(0);
  const std::string stored = at(line, "message");
  CHECK(at(stored, "content") == R"([{"type":"image","n":1e400}])");
  CHECK(at(stored, "attachments") == R"([{"url":"x"}])");
  CHECK(at(stored, "from") == "\"U1\"");
  CHECK(at(stored, "platformMessageId") == "\"platform-1\"");
  CHECK(at(stored, "timestamp") == "1000");
  CHECK(at(line, "timestamp") == "\"1970-01-01T00:00:01.000Z\"");
  CHECK(world.session(group).updated_at == world.now);  // the bridge's clock moves nothing of ours
}

TEST_CASE("inbound: archived sessions, threads and faults") {
  World world;
  world.run(from_user());
  world.run(ArchiveSession{.target = {.key = direct}});
  CHECK(world.refused(from_user()).code == Code::session_archived);
  CHECK(world.refused(from_user("/new")).code == Code::session_archived);
  Inbound threaded = in_group();
  threaded.thread_id = "\"T9\"";
  CHECK(at(world.run(threaded).body, "sessionKey") == "\"agent:main:slack:group:g1:thread:t9\"");
  Inbound nobody = from_user();
  nobody.peer = " ";
  nobody.channel = "";
  CHECK(world.refused(nobody).errors.size() == 2);
}

TEST_CASE("a session in a foreign spelling is used as it is") {
  World world;
  world.store("agent:main:slack:dm:U1", R"({"sessionId":"theirs","updatedAt":1})");
  const Decision done = world.run(from_user());
  CHECK(at(done.body, "created") == "false");
  CHECK(at(done.body, "sessionKey") == "\"agent:main:slack:dm:U1\"");
  CHECK(world.state.size() == 1);
}
