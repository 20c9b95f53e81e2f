#include "daemon/stream/filter.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::stream;

namespace {

using Query = std::vector<std::pair<std::string, std::string>>;

Result<EventFilter> parse(Query query) {
  http::Request request;
  request.query = std::move(query);
  return EventFilter::parse(request);
}

EventFilter filter(Query query) {
  auto parsed = parse(std::move(query));
  REQUIRE_MESSAGE(parsed.has_value(), parsed.error().detail);
  return std::move(*parsed);
}

journal::Envelope of(journal::EventType type) {
  return {.seq = 1, .type = type, .agent = "main", .key = "agent:main:main"};
}

const journal::Envelope message{.seq = 1,
                                .type = journal::EventType::message_appended,
                                .agent = "main",
                                .key = "agent:main:slack:direct:U1",
                                .channel = "slack",
                                .topic = "t1"};
const journal::Envelope of_agent{.seq = 2, .type = journal::EventType::lock_evicted, .agent = "main"};
const journal::Envelope of_store{.seq = 3, .type = journal::EventType::token_created};

}  // namespace

TEST_CASE("types: names, globs, lists") {
  const auto types = [](std::string text, journal::EventType type) {
    return filter({{"types", text}}).matches(of(type));
  };
  CHECK(types("*", journal::EventType::token_revoked));
  CHECK(types("", journal::EventType::token_revoked));
  CHECK(types("message.appended", journal::EventType::message_appended));
  CHECK(!types("message.appended", journal::EventType::session_created));
  CHECK(types("message.*", journal::EventType::message_appended));
  CHECK(!types("message.*", journal::EventType::session_created));
  CHECK(types("message.*, session.*", journal::EventType::session_deleted));
  CHECK(types("*.created", journal::EventType::token_created));
  CHECK(types("*.created", journal::EventType::session_created));
  CHECK(!types("*.created", journal::EventType::session_updated));
  CHECK(types("s*r*.e*l_*", journal::EventType::store_external_change));
  CHECK(types("**", journal::EventType::store_external_change));
  CHECK(!types("run.*", journal::EventType::message_appended));
  CHECK(!types("compaction.started", journal::EventType::message_appended));
  CHECK(types("run.*,*.appended", journal::EventType::message_appended));
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
  const journal::Envelope per_peer{
      .type = journal::EventType::message_appended, .agent = "main", .key = "agent:main:direct:u1"};
  CHECK(filter({{"keyPrefix", "direct:u"}}).matches(per_peer));
  CHECK(filter({{"keyPrefix", "dm:u"}}).matches(per_peer));
}

TEST_CASE("who sees what") {
  const auto sees_all = [](const auth::Principal& who) {
    const StreamView view{.principal = who};
    return std::vector<bool>{view.shows(message), view.shows(of_agent), view.shows(of_store)};
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

TEST_CASE("a token of one session sees its session, and those that events say descend from it") {
  const StreamView view{.principal = {.id = "a", .role = auth::Role::session, .agents = {"main"}, .key = message.key},
                        .lineage = "00112233aabbccdd"};
  CHECK(view.shows(message));
  CHECK(!view.shows(of_agent));
  CHECK(!view.shows(of_store));
  CHECK(!view.shows_all());
  journal::Envelope child = message;
  child.key = "agent:main:subagent:x";
  CHECK(!view.shows(child));
  child.lineage = "ffffffffffffffff 00112233aabbccdd";
  CHECK(view.shows(child));
  child.agent = "other";
  CHECK(!view.shows(child));
}

TEST_CASE("a session with the id of a purged one has what came behind the purge, and what is not stored") {
  StreamView view{.scope = {.agent = "main", .key = message.key, .after = 7},
                  .filter = filter({}),
                  .principal = {.id = "a", .agents = {"main"}}};
  journal::Envelope event = message;
  for (const auto& [seq, is_shown] : {std::pair{6U, false}, {7U, false}, {8U, true}, {0U, true}}) {
    CAPTURE(seq);
    event.seq = seq;
    CHECK(view.shows(event) == is_shown);
  }
  view.scope.after = 0;  // no session was purged
  CHECK(view.shows(event));
}

TEST_CASE("a view is the path, the query and the token together") {
  const StreamView view{.scope = {.agent = "main", .key = message.key},
                        .filter = filter({{"types", "message.*"}}),
                        .principal = {.id = "a", .agents = {"main"}}};
  CHECK(view.shows(message));
  journal::Envelope other = message;
  other.key += "2";
  CHECK(!view.shows(other));
  other = message;
  other.agent = "x";
  CHECK(!view.shows(other));
  other = message;
  other.type = journal::EventType::session_updated;
  CHECK(!view.shows(other));
  CHECK(!view.shows(of_agent));
}

TEST_CASE("what was asked for, as hello shows it") {
  CHECK(filter({}).json({}) == "{}");
  CHECK(filter({{"types", "message.*, run.*"}, {"keyPrefix", "a\"b"}, {"channel", "slack"}, {"topic", "t"}}).json({}) ==
        R"({"types":["message.*","run.*"],"keyPrefix":"a\"b","channel":"slack","topic":"t"})");
  CHECK(filter({{"agent", "other"}}).json({.agent = "main", .key = "k"}) == R"({"agent":"main","key":"k"})");
}
