#include "transcripts/copy.hpp"

#include "policy/context/open_runs.hpp"
#include "policy/media.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_index.hpp"

namespace sessiond::transcripts {
namespace {

// The entry behind a word that was left out followed that word. It follows the entry before it in the copy, so that
// programs which go from parent to parent find all of it. Other lines are copied as they are.
std::string_view following(std::string_view line, const std::string& before, std::string& held) {
  const std::string parent = json::as_string(read_fields(line).parent_id).value_or("");
  if (parent.empty() || parent == before) return line;
  held = json::apply(line, {.set = {{"parentId", json::quote(before)}}});
  return held;
}

// Ends in the copy the runs that are under way at its end: in the origin they end behind what is copied.
Result<void> end_runs(StagedTranscript& copy, const context::OpenRuns& open, std::string parent, EntrySums& sums) {
  for (const context::OpenRuns::Open& run : open.all()) {
    json::ObjectWriter data;
    data.string("runId", run.run);
    data.string("status", "interrupted");
    data.string("stopReason", "copied");
    const NewEntry record = custom_entry("sessiond.run", data.text());
    std::string id = store::random_hex(16);
    const std::string written = write_entry(record, id, parent, 0, store::unix_ms()).line;
    const std::string_view line = std::string_view(written).substr(0, written.find('\n'));
    TRY(copy.add(line));
    sums.add(line);
    parent = std::move(id);
  }
  return {};
}

}  // namespace

Result<std::string> copy_header(const std::string& session_id, const std::string& cwd, const std::string& parent,
                                std::span<const CopiedLines> copied) {
  std::string header = header_line(session_id, store::unix_ms(), cwd, parent);
  header.pop_back();
  if (copied.empty()) return header;
  json::Edit edit;
  edit.put("copied", copied_member(copied));
  header = json::apply(header, edit);
  if (header.size() < longest_header) return header;
  return fail_at("", "its messages come from too many places: the list of these would be longer than 1 MiB");
}

Result<PathCopy> copy_path(Transcript& from, std::span<const SeqSpan> path, const CopyAsked& asked,
                           StagedTranscript& into) {
  PathCopy out{.sums = asked.sums};
  TRY(const std::string origin_header, from.header());
  std::vector<Origins::Lines> lines;
  for (const SeqSpan& span : path) lines.push_back({span.first, span.last});
  out.records = Origins::read(asked.name, origin_header).of_copy(lines);
  TRY(const std::string header, copy_header(asked.session_id, asked.cwd, asked.file, out.records));
  TRY(into.add(header));
  Result<void> added;
  context::OpenRuns open;
  std::uint64_t next = path.front().first;
  TRY(from.each(path, [&](std::uint64_t seq, std::string_view stored) {
    std::string held;
    std::string_view line = seq == next ? stored : following(stored, out.last_id, held);
    if (json::has_line_ends(line)) {  // a foreign program wrote it
      held = line;
      json::escape_line_ends(held);
      line = held;
    }
    next = seq + 1;
    added = into.add(line);
    policy::names_in(line, policy::NamedBy::message, [&out](std::string_view hash) { out.blobs.emplace(hash); });
    out.sums.add(line);
    out.last_id = entry_id(line, seq);
    if (const auto note = run_note_of(seq, line)) open.take(*note);
    return added.has_value();
  }));
  TRY(std::move(added));
  TRY(end_runs(into, open, out.last_id, out.sums));
  return out;
}

}  // namespace sessiond::transcripts
