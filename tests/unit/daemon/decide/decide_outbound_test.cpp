#include "daemon/decide/commands.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

constexpr const char* channel_key = "agent:main:slack:channel:c1";

struct WithChannel : World {
  WithChannel() { run(CreateSession{.key = channel_key, .session_id = "s"}); }
  std::string stored() const { return at(entries("s.jsonl").back(), "message"); }
};

}  // namespace

TEST_CASE("what is sent is recorded and to be delivered") {
  WithChannel world;
  const Decision done =
      world.run(Outbound{.target = {.key = channel_key}, .text = "hello", .deliver = {.to = "c2"}, .message_id = "m1"});
  CHECK(done.status == 201);
  CHECK(at(done.body, "sessionId") == "\"s\"");
  CHECK(at(done.body, "seq") == "0");
  CHECK(at(done.body, "messageId") == "\"m1\"");
  CHECK(at(done.body, "deliver") == "true");
  CHECK(at(done.body, "asOf") == "\"0badcafe-2\"");
  REQUIRE(done.events.size() == 1);
  CHECK(at(done.events[0].data, "deliver") == "true");
  CHECK(at(done.events[0].data, "to") == "\"c2\"");
  CHECK(at(done.events[0].data, "mediaUrls") == "-");
  CHECK(at(world.stored(), "role") == "\"assistant\"");
  CHECK(at(world.stored(), "model") == "\"delivery-mirror\"");
  CHECK(at(world.stored(), "content") == R"([{"type":"text","text":"hello"}])");
  CHECK(world.session(channel_key).total_tokens.value_or(0) == 0);
}

TEST_CASE("mirrorOnly records what was sent already, whatever the policy says") {
  WithChannel world;
  world.rules.send_policy.default_action = policy::SendAction::deny;
  const Decision done = world.run(Outbound{.target = {.key = channel_key}, .text = "x", .mirror_only = true});
  CHECK(done.status == 201);
  CHECK(at(done.body, "deliver") == "false");
  CHECK(at(done.events.at(0).data, "deliver") == "-");
  CHECK(at(at(done.body, "send"), "action") == "\"deny\"");
}

TEST_CASE("a denial is an event and a problem") {
  WithChannel world;
  world.rules.send_policy.rules = {{.match = {.channel = "discord"}, .action = policy::SendAction::deny},
                                   {.match = {.channel = "slack"}, .action = policy::SendAction::deny}};
  const std::string text = std::string(199, 'x') + "é and more";
  const Decision done = world.run(Outbound{
      .target = {.key = channel_key}, .topic = "t", .text = text, .instance = "/v1/x", .request_id = "req\"1"});
  CHECK(done.status == 403);
  REQUIRE(done.events.size() == 1);
  CHECK(done.events[0].envelope.type == journal::EventType::policy_denied);
  CHECK(done.events[0].envelope.topic == "t");
  CHECK(at(done.events[0].data, "rule") == "1");
  CHECK(at(done.events[0].data, "source") == "\"rule\"");
  CHECK(at(done.events[0].data, "text") == json::quote(std::string(199, 'x')));  // no half characters
  CHECK(done.line_positions.empty());
  CHECK(json::check(done.body));
  CHECK(at(done.body, "code") == "\"policy_denied\"");
  CHECK(at(done.body, "status") == "403");
  CHECK(at(done.body, "rule") == "1");
  CHECK(at(done.body, "instance") == "\"/v1/x\"");
  CHECK(json::string_at(done.body, "requestId") == "req\"1");
  CHECK(at(done.body, "retryable") == "false");
  CHECK(world.session(channel_key).rev == 1);  // nothing of the entry moves
  CHECK_FALSE(world.files.contains("s.jsonl"));

  world.run(PatchSession{.target = {.key = channel_key}, .patch = R"({"sendPolicy":"allow"})"});
  const Decision allowed = world.run(Outbound{.target = {.key = channel_key}, .text = "x"});
  CHECK(at(at(allowed.body, "send"), "source") == "\"session\"");
  world.run(PatchSession{.target = {.key = channel_key}, .patch = R"({"sendPolicy":"deny"})"});
  CHECK(at(world.run(Outbound{.target = {.key = channel_key}}).events.at(0).data, "rule") == "null");
}

TEST_CASE("the policy asks whom the call names") {
  WithChannel world;
  world.rules.send_policy.rules = {{.match = {.to = "boss"}, .action = policy::SendAction::deny}};
  CHECK(world.run(Outbound{.target = {.key = channel_key}, .text = "x", .deliver = {.to = "BOSS"}}).status == 403);
  CHECK(world.run(Outbound{.target = {.key = channel_key}, .text = "x"}).status == 201);
}

TEST_CASE("media without text is told by its names") {
  struct Case {
    Outbound command;
    std::string_view content;
  };
  const Target target{.key = channel_key};
  const std::vector<Case> cases{
      {{.target = target, .media_urls = {"https://h/a/b.png?x=/y", "file:///c.pdf#p"}},
       R"([{"type":"text","text":"b.png, c.pdf"}])"},
      {{.target = target, .media_urls = {"https://h/dir/", "plain"}},
       R"([{"type":"text","text":"https://h/dir/, plain"}])"},
      {{.target = target, .text = "", .media_urls = {"/x.png"}}, R"([{"type":"text","text":"x.png"}])"},
      {{.target = target, .text = "see", .media_urls = {"/x.png"}},
       R"([{"type":"text","text":"see"},{"type":"text","text":"[media: x.png]"}])"},
      {{.target = target, .content = "[1]", .media_urls = {"/x.png"}},
       R"([1,{"type":"text","text":"[media: x.png]"}])"}};
  for (const Case& one : cases) {
    CAPTURE(one.content);
    WithChannel world;
    const Decision done = world.run(one.command);
    CHECK(at(world.stored(), "content") == one.content);
    CHECK(at(done.events.at(0).data, "mediaUrls") == json::array_of(one.command.media_urls));
    Outbound mirror = one.command;
    mirror.mirror_only = true;
    CHECK(at(world.run(mirror).events.at(0).data, "mediaUrls") == json::array_of(one.command.media_urls));
  }
}

TEST_CASE("outbound: the same message twice, another under its id, and no session") {
  WithChannel world;
  const Outbound command{.target = {.key = channel_key}, .text = "x", .message_id = "m"};
  world.run(command);
  CHECK(world.run(command).events.empty());
  Outbound other = command;
  other.text = "y";
  CHECK(world.refused(other).code == Code::entry_id_conflict);
  CHECK(world.refused(Outbound{.target = {.key = "nobody"}}).code == Code::session_not_found);
  world.run(ArchiveSession{.target = {.key = channel_key}});
  CHECK(world.refused(command).code == Code::session_archived);
}

TEST_CASE("a repeated message is answered with its own seq") {
  WithChannel world;
  const Outbound command{.target = {.key = channel_key}, .text = "x", .message_id = "m"};
  world.run(command);
  world.run(Outbound{.target = {.key = channel_key}, .text = "later"});
  CHECK(at(world.run(command).body, "seq") == "0");
}
