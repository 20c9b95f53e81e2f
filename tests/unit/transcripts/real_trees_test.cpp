// The transcripts that OpenClaw 2026.1 to 2026.6 wrote, against what its own session manager read in them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "store/json/raw_json.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/transcript.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;
namespace fs = std::filesystem;

namespace {

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void check_views(const StoredLine& stored) {
  for (const View view : {View::full, View::raw, View::chat}) {
    const auto shown = view_entry(stored.line, stored.seq, view);
    if (view == View::chat && !shown) continue;
    REQUIRE(shown.has_value());
    REQUIRE(json::check(*shown, {.utf8 = true}).has_value());
    CHECK(json::int_at(*shown, "seq") == static_cast<std::int64_t>(stored.seq));
  }
  const std::string full = *view_entry(stored.line, stored.seq, View::full);
  CHECK(json::string_at(full, "id") == json::string_at(stored.line, "id"));
  CHECK(json::find(full, "parentId") == json::find(stored.line, "parentId"));
  CHECK(json::string_at(full, "type") == json::string_at(stored.line, "type"));
  CHECK(json::int_at(full, "timestamp") == parse_iso_time(json::string_at(stored.line, "timestamp").value_or("")));
  if (const auto message = json::find(stored.line, "message"))
    for (const json::Member& member : json::members(*message))
      if (member.name != "timestamp") CHECK(json::find(full, member.name) == member.value);
}

// Every entry of another program, posted to us and written again.
void check_written_again(const StoredLine& stored) {
  const auto draft = parse_entry(stored.line, "");
  REQUIRE_MESSAGE(draft.has_value(), stored.line);
  const Written made = write_entry(*draft, draft->id, draft->parent_id.value_or(""), stored.seq, 0);
  CHECK(made.message == view_entry(stored.line, stored.seq, View::full));
  CHECK(made.exact == (line_of(made.message, made.unstamped) == made.line));
}

void check_transcript(const fs::path& path, std::string_view expected) {
  CAPTURE(path.native());
  auto transcript = Transcript::open(path, {});
  REQUIRE(transcript.has_value());
  const TranscriptTail& tail = (*transcript)->tail();
  CHECK(tail.has_header);
  CHECK(tail.ends_in_newline);
  CHECK(json::int_at(expected, "bytes") == static_cast<std::int64_t>(tail.size));
  CHECK(json::int_at(expected, "entries") == static_cast<std::int64_t>(tail.count));
  CHECK(json::int_at(expected, "lines") == static_cast<std::int64_t>(tail.count + 1));
  const std::string text = slurp(path);
  CHECK(json::string_at(expected, "header") == json::string_at(text.substr(0, text.find('\n')), "id"));

  std::map<std::string, std::int64_t> types;
  PageQuery query{.limit = 7};
  std::string last;
  for (bool more = true; more;) {
    const auto page = (*transcript)->page(query);
    REQUIRE(page.has_value());
    for (const StoredLine& stored : page->lines) {
      ++types[entry_type(stored.line)];
      last = entry_id(stored.line, stored.seq);
      check_views(stored);
      check_written_again(stored);
    }
    query.after = page->next;
    more = page->has_more;
  }
  CHECK(tail.last_id == last);
  std::map<std::string, std::int64_t> wanted;
  for (const json::Member& member : json::members(*json::find(expected, "types")))
    wanted[json::unescape(member.name)] = json::as_int(member.value).value_or(-1);
  CHECK(types == wanted);
  const auto found = (*transcript)->find(last);
  REQUIRE(found.has_value());
  CHECK((*found)->seq + 1 == tail.count);
}

}  // namespace

TEST_CASE("transcripts of real trees") {
  const fs::path trees = fs::path(SESSIOND_SOURCE_DIR).parent_path() / "shared/data/openclaw";
  if (!fs::exists(trees)) {
    MESSAGE("no real trees at " << trees.native() << ": skipped");
    return;
  }
  int files = 0;
  for (const fs::directory_entry& tree : fs::directory_iterator(trees)) {
    if (!tree.is_directory()) continue;
    for (const std::string agent : {"main", "codex"}) {
      const std::string expected = slurp(tree.path() / "expected" / (agent + ".transcripts.json"));
      for (const json::Member& member : json::members(expected)) {
        check_transcript(tree.path() / "agents" / agent / "sessions" / json::unescape(member.name), member.value);
        ++files;
      }
    }
  }
  CHECK(files > 100);
  CHECK(list_archives(trees / "2026.2.17/agents/main/sessions", "385ec9bc-2213-4e7e-ba25-5d0b0f6ad2f5") ==
        std::vector<std::string>{"385ec9bc-2213-4e7e-ba25-5d0b0f6ad2f5.jsonl.reset.2026-02-21T21-31-50.885Z"});
}
