#include "policy/runs/caps.hpp"

#include <doctest/doctest.h>

using namespace sessiond::runs;

TEST_CASE("turnCap") {
  struct Case {
    std::string_view raw;
    Cap cap;
  };
  for (const Case& one : {Case{"", 50}, Case{"0", 50}, Case{"null", 50}, Case{"1", 1}, Case{"3", 3}, Case{"3.0", 3},
                          Case{"1e3", 1000}, Case{"9007199254740992", 9007199254740992}, Case{R"("unlimited")", {}}}) {
    CAPTURE(one.raw);
    CHECK(turn_cap(one.raw) == one.cap);
    if (!one.raw.empty()) CHECK_FALSE(turn_cap_fault(one.raw));
  }
  for (const char* raw :
       {"-1", "1.5", "9007199254740993", "1e400", "true", "\"5\"", "\"Unlimited\"", "\"\"", "[]", "{}"}) {
    CAPTURE(raw);
    CHECK(turn_cap_fault(raw));
    CHECK(turn_cap(raw) == Cap(50));  // a foreign program's
  }
  CHECK(turn_cap("", 7) == Cap(7));
  CHECK(turn_cap("0", 7) == Cap(7));
  CHECK(turn_cap("0", Cap{}) == Cap{});
  CHECK(turn_cap("9", Cap{}) == Cap(9));
}

TEST_CASE("maxSteps") {
  CHECK(max_steps("") == Cap(10));
  CHECK(max_steps("null") == Cap(10));
  CHECK(max_steps("0") == Cap{});
  CHECK(max_steps("1") == Cap(1));
  CHECK(max_steps("25") == Cap(25));
  CHECK(max_steps("", Cap{}) == Cap{});
  CHECK(max_steps("0", 4) == Cap{});
  for (const char* raw : {"null", "0", "1", "25"}) CHECK_FALSE(max_steps_fault(raw));
  for (const char* raw : {"-1", "1.5", "1e400", "\"unlimited\"", "\"5\"", "true", "[]"}) {
    CHECK(max_steps_fault(raw));
    CHECK(max_steps(raw) == Cap(10));
  }
}

TEST_CASE("a cap is reached by as many as it says") {
  CHECK_FALSE(is_reached(50, 49));
  CHECK(is_reached(50, 50));
  CHECK(is_reached(10, 11));
  CHECK_FALSE(is_reached({}, 1'000'000));
}

TEST_CASE("which runs are turns") {
  CHECK(counts_as_turn("done", 1));
  CHECK(counts_as_turn("failed", 3));
  CHECK_FALSE(counts_as_turn("done", 0));
  CHECK_FALSE(counts_as_turn("failed", 0));
  for (const char* status : {"interrupted", "dropped", "expired", "running"}) CHECK_FALSE(counts_as_turn(status, 3));
}
