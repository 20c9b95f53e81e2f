#include "daemon/ledger/last_use.hpp"

#include <doctest/doctest.h>

using sessiond::ledger::LastUse;

TEST_CASE("the longest unused go first, a few at a time, and those in use stay") {
  using Files = std::vector<std::pair<std::string, std::string>>;
  LastUse uses;
  uses.touch("a", "1", 10);
  uses.touch("b", "1", 11);
  uses.touch("a", "2", 12);
  uses.touch("a", "1", 13);
  CHECK(uses.take_idle(10, 9).empty());
  CHECK(uses.take_idle(13, 2) == Files{{"b", "1"}, {"a", "2"}});
  CHECK(uses.take_idle(12, 9).empty());
  uses.touch("b", "1", 14);
  CHECK(uses.take_idle(20, 9) == Files{{"a", "1"}, {"b", "1"}});
  CHECK(uses.take_idle(20, 9).empty());
}
