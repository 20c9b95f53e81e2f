#include "daemon/decide/token_counters.hpp"

#include "tests/unit/daemon/decide/world.hpp"

namespace sessiond::decide {
namespace {

struct CountingWorld : World {
  explicit CountingWorld(bool shared) {
    rules.shared = shared;
    run(CreateSession{.key = main_key, .session_id = "s"});
  }
  void reply(std::string_view usage, const std::optional<std::string>& topic = {}) {
    add(R"({"type":"message","message":{"role":"assistant","content":[],"usage":)" + std::string(usage) + "}}", topic);
  }
  void compact() { add(R"({"type":"compaction","summary":"s"})"); }
  void add(const std::string& entry, const std::optional<std::string>& topic = {}) {
    AppendMessages command{.target = {.key = main_key}};
    command.append.topic = topic;
    command.append.entries.push_back(*transcripts::parse_entry(entry, ""));
    run(command);
  }
  std::string entry() { return *session(main_key).entry(); }
};

constexpr std::string_view usage = R"({"input":50,"output":10,"cacheRead":900,"cacheWrite":40})";

json::Edit fitted(std::string_view entry, bool shared, std::optional<std::int64_t> last_prompt = {}) {
  json::Edit edit = edit_of(entry);
  fit_tokens(edit, shared, last_prompt);
  return edit_of(json::apply("{}", edit));
}

}  // namespace

TEST_CASE("totalTokens is the sum in mode own") {
  CountingWorld world(false);
  world.reply(usage);
  world.reply(usage);
  CHECK(at(world.entry(), "totalTokens") == "2000");
  CHECK(at(world.entry(), "usageTotals") == R"({"input":100,"output":20,"total":2000})");
  CHECK(at(world.entry(), "totalTokensFresh") == "-");
}

TEST_CASE("totalTokens is the size of the present context in mode shared") {
  CountingWorld world(true);
  world.reply(usage);
  world.reply(R"({"input":60,"output":7,"cacheRead":940})");
  CHECK(at(world.entry(), "totalTokens") == "1000");
  CHECK(at(world.entry(), "totalTokensFresh") == "true");
  CHECK(at(world.entry(), "usageTotals") == R"({"input":110,"output":17,"total":2007})");
  world.reply(R"({"input":0,"output":0})");  // of a message that no model wrote
  CHECK(at(world.entry(), "totalTokens") == "1000");
  world.reply(usage, "t1");  // another transcript
  CHECK(at(world.entry(), "totalTokens") == "1000");
  CHECK(at(world.entry(), "usageTotals") == R"({"input":160,"output":27,"total":3007})");
  world.compact();
  CHECK(at(world.entry(), "totalTokensFresh") == "false");
  world.reply(usage);
  CHECK(at(world.entry(), "totalTokensFresh") == "true");
  CHECK(at(world.entry(), "totalTokens") == "990");
}

TEST_CASE("sums that reach 2^53 are the same after a restart") {
  for (const bool shared : {false, true}) {
    CountingWorld world(shared);
    world.reply(R"({"input":9007199254740991,"output":4611686018427387904})");
    world.reply(usage);
    const std::string entry = world.entry();
    World replayed;
    for (const std::string& event : world.log) apply(replayed.state, decode(*journal::parse_event(event)), Replay::yes);
    CHECK(*replayed.session(main_key).entry() == entry);
    CHECK(replayed.session(main_key).usage_totals == world.session(main_key).usage_totals);
  }
}

TEST_CASE("a reset leaves the size of the context unknown, and no sums") {
  CountingWorld world(true);
  world.reply(usage);
  world.run(ResetSession{.target = {.key = main_key}});
  CHECK(at(world.entry(), "totalTokensFresh") == "false");
  CHECK(at(world.entry(), "usageTotals") == "-");
  world.reply(usage);
  CHECK(at(world.entry(), "usageTotals") == R"({"input":50,"output":10,"total":1000})");
  world.run(ClearSession{.target = {.key = main_key}});
  CHECK(at(world.entry(), "totalTokensFresh") == "false");
  CHECK(at(world.entry(), "usageTotals") == R"({"input":0,"output":0,"total":0})");
}

TEST_CASE("sums outlive a change of the mode and back") {
  CountingWorld world(false);
  world.reply(usage);
  world.rules.shared = true;
  world.add(R"({"role":"user","text":"q"})");
  CHECK(at(world.entry(), "totalTokens") == "1000");
  CHECK(at(world.entry(), "totalTokensFresh") == "false");
  world.reply(usage);
  CHECK(at(world.entry(), "totalTokens") == "990");
  CHECK(at(world.entry(), "totalTokensFresh") == "true");
  world.rules.shared = false;
  world.reply(usage);
  CHECK(at(world.entry(), "totalTokens") == "3000");
  CHECK(at(world.entry(), "totalTokensFresh") == "-");
  CHECK(at(world.entry(), "usageTotals") == R"({"input":150,"output":30,"total":3000})");
}

TEST_CASE("the sums of an entry from before usageTotals are its counters, unless these are of a context") {
  World world;
  world.store(main_key, R"({"sessionId":"s","inputTokens":1,"outputTokens":2,"totalTokens":3})");
  CHECK(at(session_json("main", world.session(main_key)), "usageTotals") == R"({"input":1,"output":2,"total":3})");
  world.store("agent:main:b", R"({"sessionId":"b","inputTokens":1,"totalTokens":9,"totalTokensFresh":true})");
  CHECK(at(session_json("main", world.session("agent:main:b")), "usageTotals") == "-");
  CHECK(totals_of(world.session("agent:main:b")) == policy::UsageTotals{});
}

TEST_CASE("sums that another program has spoilt are shown as the next reply counts on") {
  World world;
  const auto shown = [&world](const std::string& totals) {
    world.store(main_key, R"({"sessionId":"s","inputTokens":1,"totalTokens":9,"usageTotals":)" + totals +
                              R"(,"totalTokensFresh":true,"label":"l"})");
    const std::string text = session_json("main", world.session(main_key));
    CHECK(at(text, "label") == R"("l")");
    CHECK(totals_of(world.session(main_key)) ==
          policy::read_totals(at(text, "usageTotals")).value_or(policy::UsageTotals{}));
    return at(text, "usageTotals");
  };
  CHECK(shown(R"({"input":9007199254740992,"output":4,"total":9007199254740993})") ==
        R"({"input":0,"output":4,"total":4})");
  CHECK(shown(R"({"input":-1,"output":"x","total":1e300})") == R"({"input":0,"output":0,"total":0})");
  CHECK(shown("9007199254740992") == "-");
  CHECK(shown("null") == "-");
  CHECK(shown(R"({"input":1,"total":2,"more":3})") == R"({"input":1,"total":2,"more":3})");
  world.store(main_key, R"({"sessionId":"s","inputTokens":1,"totalTokens":9,"usageTotals":7})");
  CHECK(at(session_json("main", world.session(main_key)), "usageTotals") == R"({"input":1,"output":0,"total":9})");
}

TEST_CASE("an entry of the other mode gets the members of this one") {
  const std::string own = R"({"inputTokens":1,"outputTokens":2,"totalTokens":3})";
  CHECK(fitted(own, false) == edit_of(own));
  CHECK(fitted(own, true) == edit_of(R"({"inputTokens":1,"outputTokens":2,"totalTokens":3,)"
                                     R"("usageTotals":{"input":1,"output":2,"total":3},"totalTokensFresh":false})"));
  CHECK(fitted(own, true, 7) == edit_of(R"({"inputTokens":1,"outputTokens":2,"totalTokens":7,)"
                                        R"("usageTotals":{"input":1,"output":2,"total":3},"totalTokensFresh":true})"));
  const std::string shared =
      R"({"totalTokens":3,"usageTotals":{"input":5,"output":6,"total":11},"totalTokensFresh":true})";
  CHECK(fitted(shared, true, 7) == edit_of(shared));
  CHECK(fitted(shared, false) == edit_of(R"({"totalTokens":11,"usageTotals":{"input":5,"output":6,"total":11}})"));
}

}  // namespace sessiond::decide
