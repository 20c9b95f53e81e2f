#include "policy/maintenance.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sessiond;
using namespace sessiond::policy;

namespace {

// "a:age archive0:disk c:count": what is selected with the reasons, in order.
std::string told(const StoredAgent& agent, const Selection& selection) {
  std::string out;
  for (const auto& [kind, index, reason] : selection.items) {
    if (!out.empty()) out += " ";
    if (kind == Selection::Kind::session) out += agent.sessions[index].key;
    if (kind == Selection::Kind::archive) out += "archive" + std::to_string(index);
    if (kind == Selection::Kind::orphan) out += "orphan" + std::to_string(index);
    out.append(":").append(name(reason));
  }
  return out;
}

StoredAgent three() { return {.sessions = {{"c", 300, 30}, {"a", 100, 10}, {"b", 200, 20}}}; }

}  // namespace

TEST_CASE("without limits nothing is selected") {
  StoredAgent agent = three();
  agent.store_bytes = 1ULL << 60U;
  agent.archives = {{.ended = 1, .bytes = 1ULL << 50U}};
  agent.orphans = {{.written = 1}};
  const Selection none = select_for_pruning(agent, {}, 1LL << 60U);
  CHECK(none.items.empty());
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

TEST_CASE("by disk: the oldest, down to the high water") {
  StoredAgent agent = three();
  agent.store_bytes = 40;
  const auto under = [&agent](std::uint64_t most) {
    return select_for_pruning(agent, {.max_disk_bytes = most, .high_water = 0.8}, 1000);
  };
  CHECK(told(agent, under(100)) == "");              // 100 is not above 100
  CHECK(told(agent, under(99)) == "a:disk b:disk");  // 100, 90, 70: the first that is not above 79
  agent.sessions[1].protected_by = "main";
  CHECK(told(agent, under(99)) == "b:disk c:disk");
  const Selection all = under(0);
  CHECK(told(agent, all) == "b:disk c:disk");
  CHECK(all.kept == std::vector<std::size_t>{1});
}

TEST_CASE("nothing is selected twice: the first reason counts") {
  const StoredAgent agent = three();
  const Selection selection =
      select_for_pruning(agent, {.prune_after_ms = 750, .max_entries = 1, .max_disk_bytes = 0}, 1000);
  CHECK(told(agent, selection) == "a:age b:age c:disk");
  CHECK(told(agent, select_for_pruning(agent, {.prune_after_ms = 850, .max_entries = 1, .max_disk_bytes = 0}, 1000)) ==
        "a:age b:count c:disk");
}

TEST_CASE("by disk: archives go before any session") {
  StoredAgent agent = three();
  agent.archives = {{.ended = 500, .bytes = 20}, {.ended = 400, .bytes = 20}};
  const auto under = [&agent](std::uint64_t most) {
    return told(agent, select_for_pruning(agent, {.max_disk_bytes = most, .high_water = 0.8}, 1000));
  };
  CHECK(under(100) == "");
  CHECK(under(99) == "archive1:disk archive0:disk");  // 100, 80, 60: 79 are wanted
  CHECK(under(60) == "archive1:disk archive0:disk a:disk b:disk");
}

TEST_CASE("by disk: a session that becomes an archive spares a newer one") {
  const StoredAgent agent = three();  // 60 bytes
  const RetentionLimits limits{.prune_after_ms = 850, .max_disk_bytes = 59, .high_water = 0.9};
  CHECK(told(agent, select_for_pruning(agent, limits, 1000)) == "a:age");
}

TEST_CASE("archives and orphans by age, the oldest first; what went for space does not go twice") {
  StoredAgent agent = three();
  agent.archives = {{.ended = 700, .bytes = 5}, {.ended = 500, .bytes = 5}, {.ended = 600, .bytes = 5}};
  agent.orphans = {{.written = 150}, {.written = 50}, {.written = 950}};
  CHECK(told(agent, select_for_pruning(agent, {.archive_retention_ms = 300}, 1000)) ==
        "archive1:archive archive2:archive");
  CHECK(told(agent, select_for_pruning(agent, {.prune_after_ms = 800}, 1000)) == "a:age orphan1:orphan orphan0:orphan");
  const RetentionLimits both{
      .max_disk_bytes = 74, .high_water = 1.0, .archive_retention_ms = 300};  // 75 bytes are used
  CHECK(told(agent, select_for_pruning(agent, both, 1000)) == "archive1:disk archive2:archive");
}
