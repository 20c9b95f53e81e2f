#include "daemon/stream/filter.hpp"

#include <doctest/doctest.h>

using namespace sessiond;

namespace {

using Query = std::vector<std::pair<std::string, std::string>>;

Result<EventFilter> parse(Query query) {
  Request request;
  request.query = std::move(query);
  return EventFilter::parse(request);
}

EventFilter filter(Query query) {
  auto parsed = parse(std::move(query));
  REQUIRE_MESSAGE(parsed.has_value(), parsed.error().detail);
  return std::move(*parsed);
}

Envelope of(EventType type) { return {.seq = 1, .type = type, .agent = "main", .key = "agent:main:main"}; }

const Envelope message{.seq = 1,
                       .type = EventType::message_appended,
                       .agent = "main",
                       .key = "agent:main:slack:direct:U1",
                       .channel = "slack",
                       .topic = "t1"};
const Envelope of_agent{.seq = 2, .type = EventType::lock_evicted, .agent = "main"};
const Envelope of_store{.seq = 3, .type = EventType::token_created};

}  // namespace

TEST_CASE("types: names, globs, lists") {
  const auto types = [](std::string text, EventType type) { return filter({{"types", text}}).matches(of(type)); };
  CHECK(types("*", EventType::token_revoked));
  CHECK(types("", EventType::token_revoked));
  CHECK(types("message.appended", EventType::message_appended));
  CHECK(!types("message.appended", EventType::session_created));
  CHECK(types("message.*", EventType::message_appended));
  CHECK(!types("message.*", EventType::session_created));
  CHECK(types("message.*, session.*", EventType::session_deleted));
  CHECK(types("*.created", EventType::token_created));
  CHECK(types("*.created", EventType::session_created));
  CHECK(!types("*.created", EventType::session_updated));
  CHECK(types("s*r*.e*l_*", EventType::store_external_change));
  CHECK(types("**", EventType::store_external_change));
  CHECK(!types("run.*", EventType::message_appended));
  CHECK(!types("compaction.started", EventType::message_appended));
  CHECK(types("run.*,*.appended", EventType::message_appended));
}

TEST_CASE("types that nothing can match are refused, naming the parameter") {
  for (const char* text : {"mesage.*", "message", "message.*,nope", "message.*,", ",", "Message.Appended", "text.gamma",
                           "session.created*x", "message.?ppended"}) {
    CAPTURE(text);
    const auto parsed = parse({{"types", text}});
    REQUIRE(!parsed);
    CHECK(parsed.error().code == Code::validation_failed);
    REQUIRE(parsed.error().errors.size() == 1);
    CHECK(parsed.error().errors[0].pointer == "?types");
    CHECK(parsed.error().detail.find("types") != std::string::npos);
  }
}

TEST_CASE("agent, channel, topic") {
  CHECK(filter({{"agent", "Main"}}).matches(message));
  CHECK(filter({{"agent", "main"}}).matches(of_agent));
  CHECK(!filter({{"agent", "main"}}).matches(of_store));
  CHECK(!filter({{"agent", "mai"}}).matches(message));
  CHECK(parse({{"agent", "\x01"}}).has_value() == false);
  CHECK(filter({{"channel", " SLACK "}}).matches(message));
  CHECK(!filter({{"channel", "slac"}}).matches(message));
  CHECK(!filter({{"channel", "slack"}}).matches(of_agent));
  CHECK(filter({{"topic", "t1"}}).matches(message));
  CHECK(!filter({{"topic", "T1"}}).matches(message));
  CHECK(!filter({{"topic", "t1"}}).matches(of_agent));
  CHECK(filter({{"topic", ""}, {"channel", ""}, {"agent", ""}, {"keyPrefix", ""}}).matches(of_store));
}

TEST_CASE("keyPrefix: of the key or of what follows the agent, in any case and either spelling of direct") {
  for (const char* prefix : {"agent:main:", "AGENT:main:slack:direct:u1", "slack:", "Slack:D",
                             "slack:dm:", "slack:dm:U1", "agent:main:slack:dm:u"}) {
    CAPTURE(prefix);
    CHECK(filter({{"keyPrefix", prefix}}).matches(message));
  }
  for (const char* prefix :
       {"main:slack", "agent:other:", "slack:group:", "slack:dm:U2", "slack:direct:U11", "direct:", "dm:"}) {
    CAPTURE(prefix);
    CHECK(!filter({{"keyPrefix", prefix}}).matches(message));
  }
  CHECK(!filter({{"keyPrefix", "agent:"}}).matches(of_agent));
  const Envelope per_peer{.type = EventType::message_appended, .agent = "main", .key = "agent:main:direct:u1"};
  CHECK(filter({{"keyPrefix", "direct:u"}}).matches(per_peer));
  CHECK(filter({{"keyPrefix", "dm:u"}}).matches(per_peer));
}

TEST_CASE("who sees what") {
  const auto sees_all = [](const Principal& who) {
    return std::vector<bool>{sees(who, message), sees(who, of_agent), sees(who, of_store)};
  };
  using Seen = std::vector<bool>;
  CHECK(sees_all({.id = "a"}) == Seen{true, true, true});
  CHECK(sees_all({.id = "a", .agents = {"main", "x"}}) == Seen{true, true, false});
  CHECK(sees_all({.id = "a", .agents = {"other"}}) == Seen{false, false, false});
  CHECK(sees_all({.id = "a", .key_prefix = "agent:main:slack:"}) == Seen{true, false, false});
  CHECK(sees_all({.id = "a", .key_prefix = "agent:main:slack:dm:"}) == Seen{true, false, false});
  CHECK(sees_all({.id = "a", .key_prefix = "agent:main:x"}) == Seen{false, false, false});
  CHECK(sees_all({.id = "a", .channel = "slack"}) == Seen{true, false, false});
  CHECK(sees_all({.id = "a", .channel = "irc"}) == Seen{false, false, false});
}

TEST_CASE("a view is the path, the query and the token together") {
  const StreamView view{.scope = {.agent = "main", .key = message.key},
                        .filter = filter({{"types", "message.*"}}),
                        .principal = {.id = "a", .agents = {"main"}}};
  CHECK(view.shows(message));
  Envelope other = message;
  other.key += "2";
  CHECK(!view.shows(other));
  other = message;
  other.agent = "x";
  CHECK(!view.shows(other));
  other = message;
  other.type = EventType::session_updated;
  CHECK(!view.shows(other));
  CHECK(!view.shows(of_agent));
}

TEST_CASE("what was asked for, as hello shows it") {
  CHECK(filter({}).json({}) == "{}");
  CHECK(filter({{"types", "message.*, run.*"}, {"keyPrefix", "a\"b"}, {"channel", "slack"}, {"topic", "t"}}).json({}) ==
        R"({"types":["message.*","run.*"],"keyPrefix":"a\"b","channel":"slack","topic":"t"})");
  CHECK(filter({{"agent", "other"}}).json({.agent = "main", .key = "k"}) == R"({"agent":"main","key":"k"})");
}
