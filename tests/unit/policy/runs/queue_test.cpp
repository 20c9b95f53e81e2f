#include "policy/runs/queue.hpp"

#include <doctest/doctest.h>

#include "policy/overflow.hpp"

using namespace sessiond;
using namespace sessiond::runs;

namespace {

QueueRules rules_of(std::string_view entry) { return queue_rules(json::Index(entry)); }

}  // namespace

TEST_CASE("the rules of an entry") {
  CHECK(rules_of("{}") ==
        QueueRules{.mode = QueueMode::collect, .debounce_ms = 1000, .cap = 20, .drop = QueueDrop::summarize});
  CHECK(rules_of(R"({"queueMode":"interrupt","queueDebounceMs":0,"queueCap":0,"queueDrop":"new"})") ==
        QueueRules{.mode = QueueMode::interrupt, .debounce_ms = 0, .cap = 0, .drop = QueueDrop::newest});
  CHECK(rules_of(R"({"queueMode":null,"queueDebounceMs":-1,"queueCap":"5","queueDrop":"OLD"})") == QueueRules{});
  CHECK(rules_of(R"({"queueDebounceMs":9007199254740992,"queueCap":9007199254740992})") ==
        QueueRules{.debounce_ms = longest_debounce_ms, .cap = most_waiting});
  struct Case {
    std::string spelling;
    QueueMode mode;
  };
  for (const Case& one : {Case{"steer", QueueMode::steer}, Case{"followup", QueueMode::followup},
                          Case{"collect", QueueMode::collect}, Case{"steer-backlog", QueueMode::steer_backlog},
                          Case{"steer+backlog", QueueMode::steer_backlog}, Case{"queue", QueueMode::followup},
                          Case{"interrupt", QueueMode::interrupt}, Case{"reject", QueueMode::collect}}) {
    CAPTURE(one.spelling);
    CHECK(rules_of("{\"queueMode\":\"" + one.spelling + "\"}").mode == one.mode);
  }
  CHECK(rules_of(R"({"queueDrop":"old"})").drop == QueueDrop::oldest);
  CHECK(rules_of(R"({"queueDrop":"summarize"})").drop == QueueDrop::summarize);
}

TEST_CASE("whenBusy") {
  CHECK(mode_when_busy("reject") == QueueMode::reject);
  CHECK(mode_when_busy("queue") == QueueMode::followup);
  CHECK(mode_when_busy("steer") == QueueMode::steer);
  CHECK(mode_when_busy("interrupt") == QueueMode::interrupt);
  for (const char* other : {"", "collect", "followup", "steer-backlog", "Queue"}) CHECK_FALSE(mode_when_busy(other));
}

TEST_CASE("what is done with an input while a run is active") {
  struct Case {
    QueueMode mode;
    BusyStep same, other;  // by address
  };
  for (const Case& one : {Case{QueueMode::reject, BusyStep::refuse, BusyStep::refuse},
                          Case{QueueMode::collect, BusyStep::collect, BusyStep::collect},
                          Case{QueueMode::followup, BusyStep::wait, BusyStep::wait},
                          Case{QueueMode::steer, BusyStep::steer, BusyStep::wait},
                          Case{QueueMode::steer_backlog, BusyStep::steer_and_wait, BusyStep::wait},
                          Case{QueueMode::interrupt, BusyStep::interrupt, BusyStep::interrupt}}) {
    CHECK(when_busy(one.mode, true) == one.same);
    CHECK(when_busy(one.mode, false) == one.other);
  }
  CHECK(debounce_of({.debounce_ms = 1500}, QueueMode::collect) == 1500);
  for (const QueueMode mode : {QueueMode::followup, QueueMode::steer, QueueMode::steer_backlog, QueueMode::interrupt})
    CHECK(debounce_of({.debounce_ms = 1500}, mode) == 0);
}

TEST_CASE("inputs with one address") {
  CHECK(is_same({}, {}));
  CHECK(is_same({.reply_to = "null"}, {}));
  CHECK(is_same({R"({"channel":"slack","to":"u","threadId":1})", "t"},
                {R"({"to":"u","threadId":1.0,"channel":"slack"})", "t"}));
  CHECK_FALSE(is_same({R"({"to":"u"})", "t"}, {R"({"to":"u"})", ""}));
  CHECK_FALSE(is_same({R"({"to":"u"})", "t"}, {R"({"to":"v"})", "t"}));
  CHECK_FALSE(is_same({R"({"to":"u"})", "t"}, {"", "t"}));
  CHECK_FALSE(is_same({"null", "t"}, {R"({"to":"u"})", "t"}));
}

TEST_CASE("what joins a waiting run") {
  const Address here{R"({"to":"u"})", "t"}, there{R"({"to":"v"})", "t"};
  const WaitingRun collected{.origin = Origin::queued, .mode = QueueMode::collect, .address = here};
  CHECK(joins(collected, QueueMode::collect, here));
  CHECK_FALSE(joins(collected, QueueMode::collect, there));
  CHECK_FALSE(joins(collected, QueueMode::followup, here));
  CHECK_FALSE(joins({.mode = QueueMode::followup, .address = here}, QueueMode::collect, here));
  for (const Origin origin : {Origin::retry, Origin::interrupt, Origin::steer_leftover})
    CHECK_FALSE(joins({.origin = origin, .mode = QueueMode::collect, .address = here}, QueueMode::collect, here));
}

TEST_CASE("the order at the head") {
  const std::vector<Origin> made{Origin::queued,    Origin::interrupt, Origin::steer_leftover, Origin::queued,
                                 Origin::interrupt, Origin::retry,     Origin::steer_leftover};
  std::vector<Origin> origins;
  std::vector<int> order;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(place_in_queue(origins, made[i]));
    origins.insert(origins.begin() + at, made[i]);
    order.insert(order.begin() + at, static_cast<int>(i));
  }
  CHECK(order == std::vector<int>{5, 1, 4, 2, 6, 0, 3});
}

TEST_CASE("how much may wait") {
  const auto with = [](std::int64_t cap, QueueDrop drop) { return QueueRules{.cap = cap, .drop = drop}; };
  constexpr Admission taken{}, refused{.refused = true};
  struct Case {
    QueueRules rules;
    std::int64_t waiting, arriving;
    Admission admission;
  };
  for (const Case& one : {
           Case{{}, 0, 1, taken},
           Case{{}, 19, 1, taken},
           Case{{}, 20, 1, {.dropped = 1, .counted = true}},
           Case{with(2, QueueDrop::oldest), 1, 1, taken},
           Case{with(2, QueueDrop::oldest), 2, 1, {.dropped = 1}},
           Case{with(2, QueueDrop::newest), 2, 1, refused},
           Case{with(2, QueueDrop::newest), 1, 2, refused},
           Case{with(2, QueueDrop::summarize), 2, 1, {.dropped = 1, .counted = true}},
           Case{with(2, QueueDrop::summarize), 2, 2, {.dropped = 2, .counted = true}},
           Case{with(2, QueueDrop::oldest), 1, 2, {.dropped = 1}},
           Case{with(2, QueueDrop::oldest), 0, 3, refused},                             // they go together
           Case{with(2, QueueDrop::summarize), 5, 1, {.dropped = 4, .counted = true}},  // the cap was lowered
           Case{with(0, QueueDrop::oldest), 0, 1, refused},
           Case{with(0, QueueDrop::summarize), 0, 1, refused},
           Case{with(0, QueueDrop::newest), 0, 1, refused},
       }) {
    CAPTURE(one.waiting);
    CAPTURE(one.arriving);
    CHECK(admit(one.rules, one.waiting, one.arriving) == one.admission);
  }
}

TEST_CASE("five inputs and a cap of two, as the contract's check has them") {
  for (const QueueDrop drop : {QueueDrop::oldest, QueueDrop::newest, QueueDrop::summarize}) {
    const QueueRules rules{.mode = QueueMode::followup, .cap = 2, .drop = drop};
    std::vector<std::string> waiting;
    Overflow overflow;
    int refused = 0;
    for (const char* input : {"one", "two", "three", "four", "five"}) {
      const Admission admission = admit(rules, static_cast<std::int64_t>(waiting.size()));
      if (admission.refused) {
        ++refused;
        continue;
      }
      for (std::int64_t i = 0; i < admission.dropped; ++i) {
        if (admission.counted) overflow.add(waiting.front());
        waiting.erase(waiting.begin());
      }
      waiting.emplace_back(input);
    }
    if (drop == QueueDrop::newest) {
      CHECK(waiting == std::vector<std::string>{"one", "two"});
      CHECK(refused == 3);
    } else {
      CHECK(waiting == std::vector<std::string>{"four", "five"});
    }
    if (drop == QueueDrop::summarize) {
      CHECK(overflow.text() == "[Queue overflow] Dropped 3 messages.\n- one\n- two\n- three");
    } else {
      CHECK(overflow.dropped == 0);
    }
  }
}

TEST_CASE("the line of a dropped input") {
  const auto repeated = [](std::string_view part, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += part;
    return out;
  };
  CHECK(policy::overflow_line("") == "");
  CHECK(policy::overflow_line("a\nb\r\nc") == "a b  c");
  for (const char* part : {"a", "é", "日", "😀", "\xff"}) {
    CAPTURE(part);
    CHECK(policy::overflow_line(repeated(part, 140)) == repeated(part, 140));
    CHECK(policy::overflow_line(repeated(part, 141)) == repeated(part, 140));
  }
}

TEST_CASE("an overflow tells messages as people left them") {
  Overflow overflow;
  overflow.add("one", "a");
  overflow.add("two", "b");
  overflow.add("three");
  overflow.edit("a", "first\nline");
  overflow.edit("z", "nothing");
  overflow.forget("b");
  overflow.forget("z");
  CHECK(overflow.text() == "[Queue overflow] Dropped 2 messages.\n- first line\n- three");
}

TEST_CASE("an overflow tells all, and shows the last hundred") {
  Overflow overflow;
  for (int i = 1; i <= 250; ++i) overflow.add(std::to_string(i));
  CHECK(overflow.dropped == 250);
  CHECK(overflow.lines.size() == Overflow::most_lines);
  CHECK(overflow.text().starts_with("[Queue overflow] Dropped 250 messages.\n- 151\n- 152\n"));
  CHECK(overflow.text().ends_with("\n- 250"));
}
