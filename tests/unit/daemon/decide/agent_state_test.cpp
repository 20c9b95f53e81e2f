#include "daemon/decide/agent_state.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

std::vector<std::string> keys(const auto& sessions) {
  std::vector<std::string> out;
  for (const Session* session : sessions) out.push_back(session->key());
  return out;
}
using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("lookups: exact, dm alias, case, session id") {
  World world;
  world.store("agent:main:slack:direct:U1", R"({"sessionId":"id-1"})");
  world.store("agent:main:slack:dm:u2", R"({"sessionId":"id-2"})");
  world.store("Global", R"({"sessionId":"id-3"})");
  struct Case {
    std::string_view wanted, id;
  };
  for (const Case& one : std::vector<Case>{{"agent:main:slack:direct:U1", "id-1"},
                                           {"agent:main:slack:dm:U1", "id-1"},
                                           {"AGENT:main:slack:direct:u1", "id-1"},
                                           {"agent:main:slack:dm:u1", "id-1"},
                                           {"agent:main:slack:direct:u2", "id-2"},
                                           {"agent:main:Slack:Direct:U2", "id-2"},
                                           {"global", "id-3"},
                                           {"id-2", "id-2"}}) {
    CAPTURE(one.wanted);
    CHECK(world.session(one.wanted).session_id == one.id);
  }
  CHECK(world.state.find("ID-2") == nullptr);  // session ids have a case
  CHECK(world.state.find_key("id-2") == nullptr);
  CHECK(world.state.find("") == nullptr);
  CHECK(world.state.find("agent:main:slack:group:u2") == nullptr);
  CHECK(world.state.mutable_session("global") == nullptr);  // exactly
}

TEST_CASE("the exact key wins over the alias, a key over a session id") {
  World world;
  world.store("agent:main:slack:direct:u", R"({"sessionId":"a"})");
  world.store("agent:main:slack:dm:u", R"({"sessionId":"b"})");
  world.store("a", R"({"sessionId":"c"})");
  world.store("A", R"({"sessionId":"d"})");
  CHECK(world.session("agent:main:slack:direct:u").session_id == "a");
  CHECK(world.session("agent:main:slack:dm:u").session_id == "b");
  CHECK(world.session("a").session_id == "c");
  CHECK(world.session("A").session_id == "d");
}

TEST_CASE("orders follow every kind of edit") {
  World world;
  AgentState& state = world.state;
  world.store("b", R"({"sessionId":"1","updatedAt":2})");
  world.store("a", R"({"sessionId":"2","updatedAt":2})");
  world.store("c", R"({"sessionId":"3","updatedAt":1})");
  CHECK(keys(state.by_updated()) == Keys{"c", "a", "b"});  // of equal times by key
  state.edit(*state.mutable_session("c"), edit_of(R"({"updatedAt":3,"messageCount":1})"));
  CHECK(keys(state.by_updated()) == Keys{"a", "b", "c"});
  state.edit(*state.mutable_session("a"), edit_of(R"({"updatedAt":9,"label":"x","sessionId":"new"})"));
  CHECK(keys(state.by_updated()) == Keys{"b", "c", "a"});
  CHECK(world.session("new").key() == "a");
  CHECK(state.find("2") == nullptr);
  state.edit(*state.mutable_session("a"), edit_of(R"({"updatedAt":null})"));
  CHECK(keys(state.by_updated()) == Keys{"a", "b", "c"});
  state.erase(world.session("b"));
  CHECK(keys(state.by_updated()) == Keys{"a", "c"});
  CHECK(state.size() == 2);
  CHECK(state.find("1") == nullptr);
  world.store("a", R"({"sessionId":"again","updatedAt":7})");  // replaces
  CHECK(state.size() == 2);
  CHECK(keys(state.by_updated()) == Keys{"c", "a"});
  CHECK(state.find("new") == nullptr);
  CHECK(state.by_name().begin()->second == state.find("again"));
}

TEST_CASE("children, eldest first, and as they move") {
  World world;
  AgentState& state = world.state;
  world.store("p", R"({"sessionId":"1"})");
  world.store("y", R"({"spawnedBy":"p","createdAt":2})");
  world.store("x", R"({"spawnedBy":"p","createdAt":2})");
  world.store("z", R"({"spawnedBy":"p","createdAt":1})");
  CHECK(keys(state.children("p")) == Keys{"z", "x", "y"});
  state.edit(*state.mutable_session("z"), edit_of(R"({"spawnedBy":"q"})"));
  state.erase(world.session("x"));
  CHECK(keys(state.children("p")) == Keys{"y"});
  CHECK(keys(state.children("q")) == Keys{"z"});
  CHECK(state.children("nobody").empty());
}

TEST_CASE("which file a transcript is") {
  const auto file = [](std::string key, std::string_view entry, std::optional<std::string> topic = {}) {
    return AgentState::file_of(Session(std::move(key), raw(entry)), topic);
  };
  CHECK(file("k", R"({"sessionId":"s"})") == "s.jsonl");
  CHECK(file("k", R"({"sessionId":"s"})", "4 2") == "s-topic-4%202.jsonl");
  CHECK(file("agent:main:telegram:group:g:topic:42", R"({"sessionId":"s"})") == "s-topic-42.jsonl");
  CHECK(file("agent:main:telegram:group:g:topic:42", R"({"sessionId":"s"})", "42") == "s-topic-42.jsonl");
  CHECK(file("agent:main:telegram:group:g:topic:42", R"({"sessionId":"s"})", "43") == "s-topic-43.jsonl");
  CHECK(file("k", R"({"sessionId":"s","sessionFile":"/far/away/old.jsonl"})") == "old.jsonl");
  CHECK(file("k", R"({"sessionId":"s","sessionFile":"/far/away/old.jsonl"})", "t") == "s-topic-t.jsonl");
  CHECK(file("agent:main:telegram:group:g:topic:42", R"({"sessionId":"s","sessionFile":"o.jsonl"})") == "o.jsonl");
  // A thread that OpenClaw made has its own file, a topic's.
  const std::string thread = "agent:main:slack:channel:c1:thread:17.5";
  CHECK(file(thread, R"({"sessionId":"s"})") == "s.jsonl");
  CHECK(file(thread, R"({"sessionId":"s","sessionFile":"/x/s-topic-17.5.jsonl"})") == "s-topic-17.5.jsonl");
  CHECK(file(thread, R"({"sessionId":"s","sessionFile":"/x/s-topic-17.5.jsonl"})", "17.5") == "s-topic-17.5.jsonl");
  CHECK(file(thread, R"({"sessionId":"s","sessionFile":"/x/s-topic-17.5.jsonl"})", "other") == "s-topic-other.jsonl");
  const std::string channel = "agent:main:discord:channel:998877";
  CHECK(file(channel, R"({"sessionId":"s","sessionFile":"/x/s-topic-998877.jsonl"})") == "s-topic-998877.jsonl");
  CHECK(file(channel, R"({"sessionId":"s","sessionFile":"/x/s-topic-8877.jsonl"})") == "s.jsonl");
  CHECK(file("agent:main:main:thread:123:7", R"({"sessionId":"s","sessionFile":"s-topic-7.jsonl"})") ==
        "s-topic-7.jsonl");
  CHECK(file("agent:main:x:thread:ab", R"({"sessionId":"s","sessionFile":"s-topic-Ab.jsonl"})") == "s-topic-Ab.jsonl");
  for (const std::string_view others : {"s-topic-18.jsonl", "t-topic-17.5.jsonl", "s-topic-.jsonl"}) {
    CAPTURE(others);
    CHECK(file(thread, R"({"sessionId":"s","sessionFile":")" + std::string(others) + "\"}") == "s.jsonl");
  }
  for (const std::string_view bad :
       {"/etc/passwd", "..", "../.jsonl", "a/", "x\\u0000.jsonl", "sessions.json", "a b.jsonl"}) {
    CAPTURE(bad);
    CHECK(file("k", R"({"sessionId":"s","sessionFile":")" + std::string(bad) + "\"}") == "s.jsonl");
  }
}

TEST_CASE("two sessions of one session id, as foreign stores have it: the other is found when one goes") {
  World world;
  world.store("a", R"({"sessionId":"same"})");
  world.store("b", R"({"sessionId":"same"})");
  world.state.erase(world.session("a"));
  CHECK(world.state.find("same") != nullptr);
}

TEST_CASE("two keys that differ in case: the other is found when one goes") {
  World world;
  world.store("Abc", R"({"sessionId":"1"})");
  world.store("abC", R"({"sessionId":"2"})");
  world.state.erase(world.session("Abc"));
  CHECK(world.state.find("ABC") != nullptr);
}
