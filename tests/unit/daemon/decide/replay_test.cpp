// Whatever was done, its events alone give the same sessions again: from nothing, twice, and over a checkpoint that
// holds a part of them already.
#include <cstdlib>
#include <random>
#include <string>

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

enum class Clock : std::uint8_t {
  forward,  // every command has a millisecond of its own
  wild,     // stands still, jumps back and ahead
};

class Life {
 public:
  Life(std::uint32_t seed, Clock clock) : random_(seed), clock_(clock) {
    world.rules.resets.base = {.mode = policy::ResetRule::Mode::idle, .idle_minutes = 60};
    world.rules.spawn_count = 3;
    base_ = snapshot();
  }

  void step() {
    tick();
    switch (upto(14)) {
      case 0:
        return run(CreateSession{.key = any(names_), .reuse = upto(2) == 0, .entry = entry()});
      case 1:
        return put();
      case 2:
      case 3:
        return run(PatchSession{.target = target(), .patch = any(patches_)});
      case 4:
        return run(DeleteSession{.target = target(), .missing_ok = true});
      case 5:
        return run(ResetSession{.target = target(), .keep_metadata = upto(2) == 0});
      case 6:
        return run(ArchiveSession{.target = target(), .archived = upto(3) == 0});
      case 7:
        return run(SpawnSession{.target = target(), .entry = entry()});
      case 8:
        return run(DeleteTopic{.target = target(), .topic = any(topics_)});
      case 9:
      case 10:
        return append();
      case 11:
      case 12:
        return inbound();
      case 13:
        return run(Outbound{.target = target(), .topic = topic(), .text = "out", .mirror_only = upto(2) == 0});
      default:
        return external();
    }
  }

  World world;
  bool old_ids_return = false;  // clients bring session ids that were there before, other programs write them back

 private:
  std::uint32_t upto(std::uint32_t most) { return static_cast<std::uint32_t>(random_() % (most + 1)); }
  template <class T>
  const T& any(const std::vector<T>& from) {
    return from[random_() % from.size()];
  }
  std::string any_key() {
    std::vector<std::string> keys(names_.begin(), names_.end());
    for (const auto& [key, session] : world.state.by_name()) keys.emplace_back(key);
    return any(keys);
  }
  Target target() { return {.key = any_key()}; }
  std::optional<std::string> topic() { return upto(2) == 0 ? std::optional(any(topics_)) : std::nullopt; }
  std::string session_id() { return "id-" + std::to_string(old_ids_return ? upto(5) : ++made_); }
  json::Edit entry() { return edit_of(any(entries_)); }

  void tick() {
    world.now += clock_ == Clock::forward ? 1 : static_cast<std::int64_t>(upto(4)) * static_cast<std::int64_t>(upto(1));
    if (upto(40) == 0) world.now += 61LL * 60'000;
    if (clock_ == Clock::wild && upto(20) == 0) world.now -= 3;
  }

  template <class Command>
  void run(const Command& command) {
    auto decision = world.ask(command);
    if (decision) world.commit(std::move(*decision));
  }

  void put() {
    json::Edit whole = entry();
    if (upto(1) == 0) whole.put_string("sessionId", session_id());
    if (upto(3) == 0) whole.put_int("messageCount", upto(9));
    if (clock_ == Clock::wild && upto(3) == 0) whole.put_int("updatedAt", world.now + 50 - upto(100));
    run(PutSession{.target = target(), .entry = std::move(whole)});
  }

  void append() {
    AppendMessages command{.target = target(), .append = {.topic = topic()}};
    for (std::uint32_t count = upto(2) + 1; count > 0; --count)
      command.append.entries.push_back(*transcripts::parse_entry(any(messages_), ""));
    if (upto(3) == 0) command.append.entries.front().id = any(entry_ids_);
    run(command);
  }

  void inbound() {
    const bool direct = upto(1) == 0;
    run(Inbound{.channel = "slack",
                .chat_type = direct ? "direct" : "group",
                .peer = direct ? "u1" : "g1",
                .names = {.subject = upto(5) == 0 ? "S" : ""},
                .topic = topic(),
                .text = any(texts_)});
  }

  std::vector<sessions::NamedEntry> snapshot() const {
    std::vector<sessions::NamedEntry> out;
    for (const auto& [key, session] : world.state.by_name()) out.push_back({std::string(key), session->entry()});
    return out;
  }

  // Another program read the store a while ago and writes it back, changed.
  void external() {
    std::vector<sessions::NamedEntry> theirs;
    for (const sessions::NamedEntry& one : base_) {
      if (upto(8) == 0) continue;
      json::Edit edit = upto(2) == 0 ? entry() : json::Edit{};
      if (!edit.empty()) {
        edit.put_int("updatedAt", world.now);
        if (!old_ids_return)  // it is merged together with sessionId
          std::erase_if(edit.set, [](const auto& member) { return member.name == "sdkSessionId"; });
        if (upto(4) == 0) edit.put_string("sessionId", session_id());
        if (upto(4) == 0) edit.remove("rev");
      }
      theirs.push_back({one.key, raw(json::apply(*one.entry, edit))});
    }
    if (upto(3) == 0)
      theirs.push_back(
          {"Foreign " + std::to_string(upto(2)), raw(R"({"sessionId":")" + session_id() + R"(","updatedAt":1})")});
    const Context context = world.context("external");
    world.commit(decide_foreign_change(world.state, sessions::diff_stores(base_, theirs), context, false));
    base_ = snapshot();
    world.state.dirty.clear();
  }

  std::mt19937 random_;
  Clock clock_;
  std::uint32_t made_ = 0;
  std::vector<sessions::NamedEntry> base_;
  const std::vector<std::string> names_{"agent:main:main", "agent:main:slack:direct:u1", "agent:main:slack:group:g1",
                                        "agent:main:telegram:group:g:topic:7", "agent:main:x"};
  const std::vector<std::string> entry_ids_{"id-1", "id-2", "id-3"};
  const std::vector<std::string> topics_{"1", "two words"};
  const std::vector<std::string> texts_{"hi", "/new", "/reset and go", "é\"\\\n"};
  const std::vector<std::string> entries_{"{}", R"({"label":"L","n":1e400})", R"({"channel":"slack","x":{"y":[1]}})",
                                          R"({"lastChannel":"slack","lastTo":"u"})", R"({"sdkSessionId":"q"})"};
  const std::vector<std::string> patches_{R"({"label":null})",
                                          R"({"label":"M","x":{"y":null,"z":1}})",
                                          "{}",
                                          R"({"deliveryContext":{"channel":"discord","to":"z"}})",
                                          R"({"spawnedBy":"agent:main:x"})",
                                          R"({"s":"\ud800"})"};
  const std::vector<std::string> messages_{
      R"({"role":"user","text":"a"})", R"({"type":"compaction","summary":"s"})",
      R"({"type":"message","message":{"role":"assistant","content":"c","usage":{"input":3,"output":4}}})",
      R"({"type":"message","message":{"role":"user","content":"c","id":"clash"}})"};
};

void replay(AgentState& state, const std::vector<std::string>& log, std::size_t from, std::size_t to) {
  for (std::size_t index = from; index < to; ++index) {
    auto event = journal::parse_event(log[index]);
    REQUIRE(event);
    apply(state, decode(*std::move(event)), Replay::yes);
  }
}

// As a checkpoint leaves it: the entries, in the order in which they were made.
AgentState loaded(const AgentState& from) {
  std::vector<const Session*> sessions;
  for (const auto& [key, session] : from.by_name()) sessions.push_back(session);
  std::ranges::sort(sessions, {}, &Session::order);
  AgentState state("main");
  for (const Session* session : sessions) state.insert(session->key(), session->entry());
  return state;
}

// All events over what a part of them left, in memory and as a checkpoint would have held it.
bool same_however_replayed(const std::vector<std::string>& log, const std::string& wanted, const std::string& sessions,
                           std::mt19937& random) {
  bool same = true;
  for (int round = 0; round < 8; ++round) {
    const std::size_t held = round == 0 ? log.size() : random() % (log.size() + 1);
    AgentState twice("main");
    replay(twice, log, 0, held);
    const AgentState before = loaded(twice);
    replay(twice, log, 0, log.size());
    same = same && picture(twice) == wanted;
    AgentState file = loaded(before);  // a checkpoint whose seq is not known to the last event
    replay(file, log, random() % (held + 1), log.size());
    same = same && picture(file, false) == sessions;
  }
  return same;
}

constexpr int steps = 150;

// The number of random lives a test goes through. `make soak` sets more: each takes seconds under a sanitizer.
std::uint32_t lives() {
  const char* set = std::getenv("SESSIOND_TEST_LIVES");
  return set == nullptr ? 4 : static_cast<std::uint32_t>(std::stoul(set));
}

}  // namespace

TEST_CASE("events alone give the same state") {
  for (const Clock clock : {Clock::forward, Clock::wild}) {
    for (std::uint32_t seed = 1; seed <= lives(); ++seed) {
      CAPTURE(seed);
      Life life(seed, clock);
      for (int step = 0; step < steps; ++step) life.step();
      REQUIRE(life.world.log.size() > 60);
      AgentState again("main");
      replay(again, life.world.log, 0, life.world.log.size());
      REQUIRE(picture(again) == picture(life.world.state));
      AgentState live("main");
      for (const auto& text : life.world.log) apply(live, decode(*journal::parse_event(text)));
      REQUIRE(picture(live) == picture(life.world.state));
    }
  }
}

TEST_CASE("replaying what is there already changes nothing") {
  for (std::uint32_t seed = 1; seed <= lives(); ++seed) {
    CAPTURE(seed);
    Life life(seed, Clock::forward);
    for (int step = 0; step < steps; ++step) life.step();
    std::mt19937 random(seed);
    REQUIRE(same_however_replayed(life.world.log, picture(life.world.state), picture(life.world.state, false), random));
  }
}

TEST_CASE("nor when clocks stand still or go back") {
  for (std::uint32_t seed = 1; seed <= lives(); ++seed) {
    CAPTURE(seed);
    Life life(seed, Clock::wild);
    for (int step = 0; step < steps; ++step) life.step();
    std::mt19937 random(seed);
    REQUIRE(same_however_replayed(life.world.log, picture(life.world.state), picture(life.world.state, false), random));
  }
}

TEST_CASE("transcripts stay without a hole when an old session id comes again") {
  for (std::uint32_t seed = 1; seed <= 2 * lives(); ++seed) {
    Life life(seed, Clock::forward);
    life.old_ids_return = true;
    for (int step = 0; step < steps; ++step) life.step();
  }
}
