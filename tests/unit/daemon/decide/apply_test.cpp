#include "daemon/decide/apply.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

std::string entry_of(const AgentState& state, std::string_view of = main_key) {
  const Session* session = state.find_key(of);
  return session == nullptr ? "none" : *session->entry();
}

void put(AgentState& state, std::string_view entry) { state.insert(std::string(main_key), raw(entry)); }

}  // namespace

TEST_CASE("live events say what is") {
  AgentState state("main");
  apply(state, event_of(4, 10, journal::EventType::session_created, main_key,
                        R"({"entry":{"sessionId":"s1","updatedAt":10}})"));
  CHECK(entry_of(state) == R"({"sessionId":"s1","updatedAt":10,"rev":4})");
  CHECK(state.dirty.contains(std::string(main_key)));
  state.dirty.clear();
  apply(state,
        event_of(5, 11, journal::EventType::session_updated, main_key, R"({"set":{"label":"x"},"unset":["nope"]})"));
  CHECK(entry_of(state) == R"({"sessionId":"s1","updatedAt":10,"rev":5,"label":"x"})");
  apply(state, event_of(6, 12, journal::EventType::message_appended, main_key,
                        R"({"set":{"updatedAt":12,"messageCount":1},"message":{"seq":0}})"));
  CHECK(entry_of(state) == R"({"sessionId":"s1","updatedAt":12,"rev":5,"label":"x","messageCount":1})");
  CHECK(state.find_key(main_key)->last_seq == 6);
  apply(state, event_of(7, 13, journal::EventType::session_archived, main_key,
                        R"({"archivedAs":[],"set":{"archivedAt":13}})"));
  CHECK(state.find_key(main_key)->archived_at == 13);
  apply(state, event_of(8, 14, journal::EventType::session_unarchived, main_key, R"({"unset":["archivedAt"]})"));
  CHECK_FALSE(state.find_key(main_key)->archived_at);
  CHECK(state.find_key(main_key)->rev == 8);
  apply(state, event_of(9, 15, journal::EventType::session_deleted, main_key, "{}"));
  CHECK(state.size() == 0);
  CHECK(state.dirty.contains(std::string(main_key)));
  CHECK(state.last_seq == 9);
}

TEST_CASE("only session.created makes an absent entry") {
  for (const journal::EventType type :
       {journal::EventType::session_updated, journal::EventType::session_reset, journal::EventType::session_archived,
        journal::EventType::session_unarchived, journal::EventType::session_deleted,
        journal::EventType::message_appended, journal::EventType::topic_deleted, journal::EventType::policy_denied,
        journal::EventType::store_external_change}) {
    for (const Replay replay : {Replay::no, Replay::yes}) {
      CAPTURE(journal::name(type));
      AgentState state("main");
      apply(state, event_of(3, 1, type, main_key, R"({"set":{"sessionId":"x","updatedAt":1},"unset":[]})"), replay);
      CHECK(state.size() == 0);
      CHECK(state.last_seq == 3);
    }
  }
}

TEST_CASE("replay: what the store has already is left alone") {
  struct Case {
    std::string_view what, entry;
    std::uint64_t seq;
    journal::EventType type;
    std::string_view data;
    bool applied;
  };
  const std::vector<Case> cases{
      {"older rev", R"({"rev":4,"updatedAt":9})", 5, journal::EventType::session_updated, R"({"set":{"n":1}})", true},
      {"same rev", R"({"rev":5,"updatedAt":9})", 5, journal::EventType::session_updated, R"({"set":{"n":1}})", false},
      {"newer rev", R"({"rev":6,"updatedAt":1})", 5, journal::EventType::session_updated, R"({"set":{"n":1}})", false},
      {"no rev, older", R"({"updatedAt":9})", 5, journal::EventType::session_updated,
       R"({"set":{"n":1,"updatedAt":10}})", true},
      {"no rev, newer", R"({"updatedAt":11})", 5, journal::EventType::session_updated,
       R"({"set":{"n":1,"updatedAt":10}})", false},
      {"no rev, the event's time counts", R"({"updatedAt":51})", 5, journal::EventType::session_updated,
       R"({"set":{"n":1}})", false},
      {"no rev, no updatedAt", R"({"x":1})", 5, journal::EventType::session_updated, R"({"set":{"n":1}})", true},
      {"message, older", R"({"rev":2,"updatedAt":9})", 5, journal::EventType::message_appended,
       R"({"set":{"updatedAt":10,"messageCount":2}})", true},
      {"message, newer", R"({"rev":2,"updatedAt":11})", 5, journal::EventType::message_appended,
       R"({"set":{"updatedAt":10,"messageCount":2}})", false},
      {"reset, newer rev", R"({"rev":9,"sessionId":"new"})", 5, journal::EventType::session_reset,
       R"({"previousSessionId":"s0","set":{"sessionId":"old"}})", false},
      {"archived, older rev", R"({"rev":1})", 5, journal::EventType::session_archived, R"({"set":{"archivedAt":2}})",
       true},
  };
  for (const Case& one : cases) {
    CAPTURE(one.what);
    AgentState state("main");
    put(state, one.entry);
    apply(state, event_of(one.seq, 50, one.type, main_key, one.data), Replay::yes);
    CHECK((entry_of(state) != one.entry) == one.applied);
    AgentState live("main");
    put(live, one.entry);
    apply(live, event_of(one.seq, 50, one.type, main_key, one.data));
    CHECK(entry_of(live) != one.entry);  // live events are never judged
  }
}

TEST_CASE("replay: creations") {
  constexpr std::string_view data = R"({"entry":{"sessionId":"made","updatedAt":50}})";
  struct Case {
    std::string_view entry;
    bool applied;
  };
  for (const Case& one : std::vector<Case>{{R"({"rev":4})", true},
                                           {R"({"rev":5})", false},
                                           {R"({"rev":6})", false},
                                           {R"({"updatedAt":49})", true},
                                           {R"({"updatedAt":50})", false},
                                           {R"({"updatedAt":51})", false}}) {
    CAPTURE(one.entry);
    AgentState state("main");
    put(state, one.entry);
    apply(state, event_of(5, 50, journal::EventType::session_created, main_key, data), Replay::yes);
    CHECK(state.size() == 1);
    CHECK((entry_of(state) != one.entry) == one.applied);
  }
  AgentState other_case("main");
  other_case.insert("AGENT:main:main", raw(R"({"rev":9})"));  // another main_key, whatever lookups say
  apply(other_case, event_of(5, 50, journal::EventType::session_created, main_key, data), Replay::yes);
  CHECK(other_case.size() == 2);
}

TEST_CASE("replay: deletions") {
  for (const auto& [entry, left] : std::vector<std::pair<std::string, bool>>{{R"({"rev":4,"updatedAt":99})", false},
                                                                             {R"({"rev":6,"updatedAt":1})", true},
                                                                             {R"({"updatedAt":49})", false}}) {
    CAPTURE(entry);
    AgentState state("main");
    put(state, entry);
    apply(state, event_of(5, 50, journal::EventType::session_deleted, main_key, R"({"archivedAs":[]})"), Replay::yes);
    CHECK((state.size() == 1) == left);
  }
}

TEST_CASE("replay: an entry without rev that is newer than a deletion stays") {
  AgentState state("main");
  put(state, R"({"sessionId":"theirs","updatedAt":60})");
  apply(state, event_of(5, 50, journal::EventType::session_deleted, main_key, R"({"archivedAs":[]})"), Replay::yes);
  CHECK(state.size() == 1);
}

TEST_CASE("replay: a message from before the entry's rev is in the entry, also when no time passed") {
  AgentState state("main");
  put(state, R"({"sessionId":"new","updatedAt":50,"messageCount":0,"rev":6})");  // as the reset of seq 6 left it
  apply(state,
        event_of(5, 50, journal::EventType::message_appended, main_key, R"({"set":{"updatedAt":50,"messageCount":7}})",
                 "old"),
        Replay::yes);
  CHECK(state.find_key(main_key)->message_count == 0);
}

TEST_CASE("topics and transcripts come and go with their events") {
  AgentState state("main");
  put(state, R"({"sessionId":"s1"})");
  for (const std::string_view file : {"s1.jsonl", "s1-topic-a.jsonl", "s1-topic-b.jsonl"})
    state.transcripts.find_or_add(file).size = 9;
  for (int twice = 0; twice < 2; ++twice) {
    apply(state, event_of(2, 1, journal::EventType::topic_created, main_key, "{}", "s1", "a"));
    apply(state, event_of(3, 1, journal::EventType::topic_created, main_key, "{}", "s1", "b"));
  }
  CHECK(state.transcripts.topics("s1")->size() == 2);
  apply(state, event_of(4, 1, journal::EventType::topic_deleted, main_key, R"({"set":{"updatedAt":5},"unset":[]})",
                        "s1", "a"));
  CHECK(*state.transcripts.topics("s1") == std::set<std::string>{"b"});
  CHECK(state.transcripts.find("s1-topic-a.jsonl") == nullptr);
  CHECK(state.transcripts.find("s1-topic-b.jsonl") != nullptr);
  CHECK(state.find_key(main_key)->rev == 4);
  apply(state, event_of(5, 1, journal::EventType::session_deleted, main_key, "{}"));
  CHECK(state.transcripts.all().empty());
  CHECK(state.transcripts.topics("s1") == nullptr);
}

TEST_CASE("a reset forgets the old session's topics") {
  AgentState state("main");
  put(state, R"({"sessionId":"s1"})");
  apply(state, event_of(2, 1, journal::EventType::topic_created, main_key, "{}", "s1", "a"));
  apply(state, event_of(3, 1, journal::EventType::session_reset, main_key,
                        R"({"previousSessionId":"s1","set":{"sessionId":"s2"},"unset":["label"]})", "s2"));
  CHECK(state.transcripts.topics("s1") == nullptr);
  CHECK(state.find("s1") == nullptr);
  CHECK(state.find("s2") == state.find_key(main_key));
}

TEST_CASE("a reset forgets where the archived transcripts ended") {
  AgentState state("main");
  put(state, R"({"sessionId":"s1"})");
  state.transcripts.find_or_add("s1.jsonl").size = 9;
  apply(state, event_of(3, 1, journal::EventType::session_reset, main_key,
                        R"({"previousSessionId":"s1","archivedAs":["s1.jsonl.reset.x"],"set":{"sessionId":"s2"}})"));
  CHECK(state.transcripts.find("s1.jsonl") == nullptr);
}
