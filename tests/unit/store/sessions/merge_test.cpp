#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "store/sessions/sessions_file.hpp"

using namespace sessiond;
using namespace sessiond::sessions;

namespace {

std::vector<NamedEntry> store_text(std::string_view text) {
  std::vector<std::string> oddities;
  auto entries = parse_store(text, oddities);
  REQUIRE(entries);
  return std::move(*entries);
}

std::string merged(std::string_view base, std::string_view ours, std::string_view theirs) {
  return json::apply(ours, merge_entry(base, ours, theirs));
}

}  // namespace

TEST_CASE("diff: created, updated field by field, deleted") {
  const auto change = diff_stores(store_text(R"({"a":{"x":1,"y":2,"rev":5},"b":{"n":1},"c":{}})"),
                                  store_text(R"({"d":{"z":1},"c":{},"a":{"y":3,"w":[1],"updatedAt":77}})"));
  REQUIRE(change.created.size() == 1);
  CHECK(change.created[0].key == "d");
  REQUIRE(change.updated.size() == 1);
  CHECK(change.updated[0].key == "a");
  CHECK(change.updated[0].edit.set == std::vector<json::Edit::Set>{{"y", "3"}, {"w", "[1]"}, {"updatedAt", "77"}});
  CHECK(change.updated[0].edit.unset == std::vector<std::string>{"x"});  // rev is ours: its loss is no change
  CHECK(change.updated[0].updated_at == 77);
  CHECK(*change.updated[0].base == R"({"x":1,"y":2,"rev":5})");
  CHECK(change.deleted == std::vector<std::string>{"b"});
}

TEST_CASE("diff: order, layout, duplicates and rev change nothing") {
  CHECK(diff_stores(store_text(R"({"a":{"x":1,"y":{"z":[1,2]}},"b":{}})"),
                    store_text(R"({"b":{},"a":{"y":{ "z" : [1, 2] },"x":1,"rev":9}})"))
            .empty());
  CHECK(diff_stores(store_text(R"({"a":{"x":1}})"), store_text(R"({"a":{"x":0,"x":1}})")).empty());
  CHECK(diff_stores({}, {}).empty());
}

TEST_CASE("diff: entries that are no objects are no sessions") {
  CHECK(diff_stores(store_text(R"({"a":{},"b":null,"c":1})"), store_text(R"({"a":null,"b":{},"c":2,"d":3})")).deleted ==
        std::vector<std::string>{"a"});
  CHECK(diff_stores(store_text(R"({"a":{},"b":null})"), store_text(R"({"a":{},"b":{}})")).created.size() == 1);
  CHECK(diff_stores(store_text(R"({"b":null})"), store_text("{}")).empty());
}

TEST_CASE("diff finds its way through any reordering") {
  std::mt19937 random(7);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<NamedEntry> base;
    std::vector<NamedEntry> theirs;
    std::size_t created = 0;
    std::size_t updated = 0;
    std::size_t deleted = 0;
    for (int key = 0; key < 20; ++key) {
      const auto entry = [&](int n) {
        return std::make_shared<const std::string>("{\"n\":" + std::to_string(n) + "}");
      };
      const std::string name = std::to_string(key);
      switch (random() % 5) {
        case 0:
          theirs.push_back({name, entry(1)});
          ++created;
          break;
        case 1:
          base.push_back({name, entry(1)});
          ++deleted;
          break;
        case 2:
          base.push_back({name, entry(1)});
          theirs.push_back({name, entry(2)});
          ++updated;
          break;
        default:
          base.push_back({name, entry(1)});
          theirs.push_back({name, entry(1)});
          break;
      }
    }
    if (turn % 2 == 0) std::shuffle(theirs.begin(), theirs.end(), random);
    const auto change = diff_stores(base, theirs);
    CHECK(change.created.size() == created);
    CHECK(change.updated.size() == updated);
    CHECK(change.deleted.size() == deleted);
  }
}

TEST_CASE("merge: what only one side changed is taken from it") {
  CHECK(merged(R"({"a":1,"b":1,"c":1})", R"({"a":2,"b":1,"c":1})", R"({"a":1,"b":2})") == R"({"a":2,"b":2})");
  CHECK(merged(R"({"a":1})", R"({"a":1,"mine":1})", R"({"a":1,"their":1})") == R"({"a":1,"mine":1,"their":1})");
  CHECK(merge_entry(R"({"a":1})", R"({"a":2})", R"({"a":1})").empty());
  CHECK(merge_entry(R"({"a":1})", R"({"a":2})", R"({ "a" : 2 })").empty());
}

TEST_CASE("merge: what both changed goes to the later updatedAt, ours on a tie") {
  const std::string_view base = R"({"label":"0","updatedAt":10})";
  CHECK(merged(base, R"({"label":"us","updatedAt":20})", R"({"label":"them","updatedAt":30})") ==
        R"({"label":"them","updatedAt":30})");
  CHECK(merged(base, R"({"label":"us","updatedAt":30})", R"({"label":"them","updatedAt":20})") ==
        R"({"label":"us","updatedAt":30})");
  CHECK(merged(base, R"({"label":"us","updatedAt":20})", R"({"label":"them","updatedAt":20})") ==
        R"({"label":"us","updatedAt":20})");
  CHECK(merged(base, R"({"updatedAt":20})", R"({"label":"them","updatedAt":30})") ==
        R"({"updatedAt":30,"label":"them"})");
  CHECK(merged(base, R"({"label":"us","updatedAt":20})", R"({"updatedAt":30})") == R"({"updatedAt":30})");
  CHECK(merged(R"({"label":"0"})", R"({"label":"us"})", R"({"label":"them"})") == R"({"label":"us"})");
}

TEST_CASE("merge: a session is never half theirs and half ours") {
  const std::string_view base = R"({"sessionId":"s0","sessionFile":"s0.jsonl","totalTokens":10,"updatedAt":10})";
  SUBCASE("they reset while we counted, and are later") {
    CHECK(merged(base, R"({"sessionId":"s0","sessionFile":"s0.jsonl","totalTokens":99,"updatedAt":20})",
                 R"({"sessionId":"s1","totalTokens":0,"updatedAt":30})") ==
          R"({"sessionId":"s1","totalTokens":0,"updatedAt":30})");
  }
  SUBCASE("they counted while we reset, and are earlier") {
    CHECK(
        merged(base, R"({"sessionId":"s2","totalTokens":0,"updatedAt":40})",
               R"({"sessionId":"s0","sessionFile":"s0.jsonl","totalTokens":50,"compactionCount":1,"updatedAt":30})") ==
        R"({"sessionId":"s2","totalTokens":0,"updatedAt":40})");
  }
  SUBCASE("only they changed it: all of it comes") {
    CHECK(merged(base, R"({"sessionId":"s0","sessionFile":"s0.jsonl","totalTokens":10,"updatedAt":50,"label":"x"})",
                 R"({"sessionId":"s1","updatedAt":30})") == R"({"sessionId":"s1","updatedAt":50,"label":"x"})");
  }
}

TEST_CASE("merge: an address is never half theirs and half ours") {
  const std::string_view base = R"({"lastChannel":"slack","lastTo":"U1","updatedAt":1})";
  CHECK(merged(base, R"({"lastChannel":"slack","lastTo":"U1","lastThreadId":"7","updatedAt":2})",
               R"({"lastChannel":"telegram","lastTo":"42","updatedAt":3})") ==
        R"({"lastChannel":"telegram","lastTo":"42","updatedAt":3})");
  CHECK(merged(base, R"({"lastChannel":"discord","lastTo":"D","updatedAt":5})",
               R"({"lastChannel":"slack","lastTo":"U1","deliveryContext":{"to":"U1"},"updatedAt":3})") ==
        R"({"lastChannel":"discord","lastTo":"D","updatedAt":5})");
}

TEST_CASE("merge: rev stays ours") {
  CHECK(merged(R"({"rev":1,"a":1})", R"({"rev":2,"a":1})", R"({"a":2,"updatedAt":9})") ==
        R"({"rev":2,"a":2,"updatedAt":9})");
}

TEST_CASE("merge: odd entries") {
  CHECK(merge_entry("{}", "{}", "{}").empty());
  CHECK(merged("{}", "{}", R"({"n":12345678901234567890,"u":"\ud800"})") ==
        R"({"n":12345678901234567890,"u":"\ud800"})");
  CHECK(merged(R"({"updatedAt":"soon"})", R"({"updatedAt":"soon"})", R"({"updatedAt":null})") ==
        R"({"updatedAt":null})");
  CHECK(merge_entry("null", "{}", "{}").empty());
}

namespace {

using Fields = std::map<std::string, std::string>;

Fields fields_of(std::string_view entry) {
  Fields out;
  for (const json::Member& member : json::members(entry)) out[std::string(member.name)] = member.value;
  return out;
}

// The rule of merging (store/sessions/README.md), said once more in another way: every unit is taken whole, from
// whoever changed it.
Fields merged_by_units(const Fields& base, const Fields& ours, const Fields& theirs) {
  static const std::vector<std::vector<std::string>> units{
      {"sessionId", "sessionFile", "inputTokens", "totalTokens", "compactionCount", "sessionStartedAt"},
      {"channel", "lastChannel", "lastTo", "lastAccountId", "lastThreadId", "deliveryContext"},
      {"a"},
      {"b"},
      {"label"},
      {"updatedAt"}};
  const auto part = [](const Fields& whole, const std::vector<std::string>& unit) {
    Fields out;
    for (const auto& name : unit)
      if (whole.contains(name)) out[name] = whole.at(name);
    return out;
  };
  const auto time = [](const Fields& entry) {
    return entry.contains("updatedAt") ? std::stoll(entry.at("updatedAt")) : 0;
  };
  Fields out;
  for (const auto& unit : units) {
    const Fields before = part(base, unit);
    const Fields mine = part(ours, unit);
    const Fields other = part(theirs, unit);
    const bool both = mine != before && other != before;
    const Fields& taken = both ? (time(theirs) > time(ours) ? other : mine) : other != before ? other : mine;
    out.insert(taken.begin(), taken.end());
  }
  return out;
}

}  // namespace

TEST_CASE("merge: two writers at random, each merge is what the rule says and nothing of either is lost") {
  std::mt19937 random(20260122);
  const std::vector<std::string> names{"sessionId",       "sessionFile", "inputTokens", "totalTokens",
                                       "channel",         "lastChannel", "lastTo",      "lastThreadId",
                                       "deliveryContext", "a",           "b",           "label"};
  const auto below = [&random](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  for (int history = 0; history < 300; ++history) {
    std::string base = R"({"updatedAt":1})";
    std::string ours = base;
    std::string file = base;  // theirs, when it is not base
    std::uint64_t clock = 1;
    std::uint64_t last_of_ours = 0;  // of a field that only one of them writes
    std::uint64_t last_of_theirs = 0;
    const auto write = [&](std::string& entry, std::string_view own, std::uint64_t& last) {
      json::Edit edit;
      clock += below(2);  // ties as well
      for (std::uint32_t count = below(4); count > 0; --count) {
        const std::string& name = names[below(static_cast<std::uint32_t>(names.size()))];
        if (below(4) == 0) {
          edit.remove(name);
        } else {
          edit.put_int(name, static_cast<std::int64_t>(below(3)));
        }
      }
      edit.put_int(std::string(own), static_cast<std::int64_t>(++last));
      edit.put_int("updatedAt", static_cast<std::int64_t>(clock));
      entry = json::apply(entry, edit);
    };
    for (int step = 0; step < 30; ++step) {
      switch (below(3)) {
        case 0:
          write(ours, "x-ours", last_of_ours);
          break;
        case 1:
          write(file, "x-theirs", last_of_theirs);
          break;
        default: {
          Fields expected = merged_by_units(fields_of(base), fields_of(ours), fields_of(file));
          if (last_of_ours != 0) expected["x-ours"] = std::to_string(last_of_ours);
          if (last_of_theirs != 0) expected["x-theirs"] = std::to_string(last_of_theirs);
          CAPTURE(base);
          CAPTURE(ours);
          CAPTURE(file);
          ours = merged(base, ours, file);
          REQUIRE(fields_of(ours) == expected);
          base = file = ours;
        }
      }
    }
  }
}
