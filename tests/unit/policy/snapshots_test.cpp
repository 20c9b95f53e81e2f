#include "policy/snapshots.hpp"

#include <doctest/doctest.h>

using namespace sessiond;

namespace {

const std::string known_hash(64, 'b');
std::string unknown_hash(std::string_view) { return known_hash; }
const std::string handle = R"({"$blob":")" + known_hash + R"(","bytes":2002})";

}  // namespace

TEST_CASE("large snapshots become handles, and what the rules refuse stays") {
  const std::string text = "\"" + std::string(2000, 'x') + "\"";
  json::Edit edit;
  edit.put("systemPrompt", text);
  edit.put("skillsSnapshot", text);  // must be an object
  edit.put("systemPromptReport", R"({"parts":[{"source":"moon","chars":1}],"x":)" + text + "}");
  edit.put("note", text);
  edit.put("toolSchemas", "[1]");
  CHECK(policy::may_hold_snapshot(edit));
  const json::Edit before = edit;
  const auto taken = policy::take_snapshots(edit, unknown_hash);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].bytes == text);
  CHECK(edit.set[0].value == handle);
  CHECK(policy::snapshot_hash(handle) == known_hash);
  for (std::size_t at = 1; at < edit.set.size(); ++at) CHECK(edit.set[at] == before.set[at]);
  json::Edit small;
  small.put("toolSchemas", "[ " + std::string(2000, ' ') + "]");  // small once it is compact
  CHECK(policy::take_snapshots(small, unknown_hash).empty());
}

TEST_CASE("only a handle that begins with its name is one") {
  CHECK(policy::snapshot_hash(R"({"bytes":1,"$blob":")" + known_hash + "\"}").empty());
  CHECK(policy::snapshot_hash(R"({"$blob":"short"})").empty());
  CHECK(policy::snapshot_hash(R"({"$blob":"x","y":{"$blob":")" + known_hash + "\"}}").empty());
  CHECK(policy::snapshot_hash("[]").empty());
  const auto shown = [](std::string_view, const std::string&) { return std::optional<std::string>("[7]"); };
  const std::string session = R"({"key":"k","toolSchemas":)" + handle + R"(,"note":)" + handle + "}";
  CHECK(policy::with_snapshots(session, shown) == R"({"key":"k","toolSchemas":[7],"note":)" + handle + "}");
  CHECK(policy::list_with_snapshots(R"({"data":[)" + session + R"(,{"key":"l"}],"asOf":"1-2"})", shown) ==
        R"({"data":[{"key":"k","toolSchemas":[7],"note":)" + handle + R"(},{"key":"l"}],"asOf":"1-2"})");
}

TEST_CASE("If-Match names the snapshot that is replaced") {
  const std::string entry = R"({"toolSchemas":)" + handle + "}";
  const auto check = [&](std::string field, std::vector<std::string> tags) {
    return policy::check_snapshot(entry, {.field = std::move(field), .tags = std::move(tags), .hash_of = unknown_hash})
        .has_value();
  };
  CHECK(check("toolSchemas", {}));
  CHECK(check("systemPrompt", {}));
  CHECK(check("toolSchemas", {"x", known_hash}));
  CHECK(check("toolSchemas", {"*"}));
  CHECK(!check("toolSchemas", {"x"}));
  CHECK(!check("systemPrompt", {"*"}));
}
