#include "policy/maintenance.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sessiond;
using namespace sessiond::policy;

namespace {

// "a:age c:count": the selected sessions with their reasons, in order.
std::string told(const StoredAgent& agent, const Selection& selection) {
  std::string out;
  for (const auto& [index, reason] : selection.sessions)
    out.append(out.empty() ? "" : " ").append(agent.sessions[index].key).append(":").append(name(reason));
  return out;
}

std::string archives(const StoredAgent& agent, const Selection& selection) {
  std::string out;
  for (const auto& [index, reason] : selection.archives)
    out.append(out.empty() ? "" : " ").append(agent.archives[index].name).append(":").append(name(reason));
  return out;
}

StoredAgent three() { return {.sessions = {{"c", 300, 30}, {"a", 100, 10}, {"b", 200, 20}}}; }

}  // namespace

TEST_CASE("without limits nothing is selected") {
  StoredAgent agent = three();
  agent.archives = {{"x", 0, 1'000'000}};
  agent.orphans = {{"o", 0, 1'000'000}};
  agent.store_bytes = 1ULL << 60U;
  const Selection none = select_for_pruning(agent, {}, 1LL << 60U);
  CHECK(none.sessions.empty());
  CHECK(none.archives.empty());
  CHECK(none.orphans.empty());
  CHECK(none.kept.empty());
}

TEST_CASE("by age: strictly older, the oldest first") {
  const StoredAgent agent = three();
  const auto at = [&agent](std::int64_t now) {
    return told(agent, select_for_pruning(agent, {.prune_after_ms = 100}, now));
  };
  CHECK(at(200) == "");
  CHECK(at(201) == "a:age");
  CHECK(at(301) == "a:age b:age");
  CHECK(at(50) == "");
}

TEST_CASE("by count: equal times go by key, protected sessions count and stay") {
  StoredAgent agent = three();
  CHECK(told(agent, select_for_pruning(agent, {.max_entries = 3}, 1000)) == "");
  CHECK(told(agent, select_for_pruning(agent, {.max_entries = 1}, 1000)) == "a:count b:count");
  CHECK(told(agent, select_for_pruning(agent, {.prune_after_ms = 850, .max_entries = 1}, 1000)) == "a:age b:count");
  agent.sessions[1].protected_by = "pinned";
  const Selection selection = select_for_pruning(agent, {.max_entries = 2}, 1000);
  CHECK(told(agent, selection) == "b:count");
  CHECK(selection.kept == std::vector<std::size_t>{1});
  CHECK(told(agent, select_for_pruning(agent, {.max_entries = 0}, 1000)) == "b:count c:count");
  agent.sessions = {{"b", 1}, {"a", 1}, {"c", 1}};
  CHECK(told(agent, select_for_pruning(agent, {.max_entries = 1}, 1000)) == "a:count b:count");
}

TEST_CASE("by disk: archives first, then sessions, down to the high water") {
  StoredAgent agent = three();
  agent.archives = {{"new", 900, 10}, {"old", 100, 10}};
  agent.store_bytes = 20;
  const auto under = [&agent](std::uint64_t most) {
    return select_for_pruning(agent, {.max_disk_bytes = most, .high_water = 0.5}, 1000);
  };
  CHECK(under(100).sessions.empty());  // 100 is not above 100
  CHECK(under(100).archives.empty());
  CHECK(archives(agent, under(99)) == "old:disk new:disk");
  CHECK(told(agent, under(99)) == "a:disk b:disk c:disk");  // 80, 70, 50, 20: the first that is not above 49
  agent.sessions[1].protected_by = "main";
  CHECK(told(agent, under(99)) == "b:disk c:disk");
  const Selection all = select_for_pruning(agent, {.max_disk_bytes = 0}, 1000);
  CHECK(told(agent, all) == "b:disk c:disk");
  CHECK(all.kept == std::vector<std::size_t>{1});
}

TEST_CASE("archives and orphans by age, nothing twice") {
  StoredAgent agent = three();
  agent.archives = {{"new", 900, 10}, {"old", 100, 10}};
  agent.orphans = {{"o1", 100, 5}, {"o2", 990, 5}};
  const Selection selection = select_for_pruning(
      agent, {.prune_after_ms = 500, .max_entries = 0, .max_disk_bytes = 0, .archive_retention_ms = 500}, 1000);
  CHECK(told(agent, selection) == "a:age b:age c:age");
  CHECK(archives(agent, selection) == "old:archive new:disk");
  CHECK(selection.orphans == std::vector<std::size_t>{0});
}
