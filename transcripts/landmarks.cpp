#include "transcripts/landmarks.hpp"

#include <fcntl.h>

#include <algorithm>

#include "store/try.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/entry_shape.hpp"
#include "transcripts/line_reader.hpp"

namespace sessiond::transcripts {
namespace {

// The sidecar holds lines, last_id, systems, checkpoints, the seqs of branches and of their parents, doom_count, the
// meter (empty: nothing), the changes and the counts.
constexpr std::string_view landmarks_magic = "sdmarkv7";  // the last character is the version

// Returns the id that an entry names as its parent; empty: it says that it has none. Nothing: it follows the one
// before.
std::optional<std::string> named_parent(const EntryFields& fields, std::string_view line, std::string_view last_id) {
  if (fields.parent_id != "null") {
    std::string parent = json::as_string(fields.parent_id).value_or("");
    return parent == last_id ? std::nullopt : std::optional(std::move(parent));
  }
  if (last_id.empty() || fields.id.empty()) return {};
  return json::find(line, "parentId") == "null" ? std::optional<std::string>("") : std::nullopt;
}

void count(MessageCounts& counts, context::Role role, std::uint64_t seq) {
  if (role == context::Role::user)
    ++counts.users;
  else if (role == context::Role::assistant)
    ++counts.assistants;
  else
    ++counts.tools;
  if (!counts.first) counts.first = seq;
  counts.last = seq;
}

}  // namespace

void Landmarks::add(std::string_view line) {
  const std::uint64_t seq = lines++;
  const EntryFields fields = read_fields(line);
  if (fields.shape == EntryShape::unreadable || fields.type == "\"session\"") return;
  if (auto parent = named_parent(fields, line, last_id)) {
    if (!parent->empty()) unresolved.push_back({.branch = branches.size(), .parent = std::move(*parent)});
    branches.push_back({.seq = seq});
    meter.reset();
  }
  last_id = entry_id(fields, line, seq);
  if (fields.type == "\"custom\"") changes.add(line, seq);
  std::string held;
  const auto [type, body] = spoken_of(fields, line, held);
  const context::Entry entry = context::read_entry(type, body);
  if (entry.role == context::Role::system) systems.push_back(seq);
  if (entry.checkpoint) {
    checkpoints.push_back(seq);
    meter.reset();
  }
  if (context::is_message(type, entry)) count(counts, entry.role, seq);
  if (meter) meter->add(last_id, entry, doom_count);
  if (meter && meter->misplaced) meter.reset();
}

Result<void> Landmarks::scan(int fd, std::uint64_t first_entry, std::uint64_t end, std::string_view path) {
  if (covered.bytes >= end) return {};
  ::posix_fadvise(fd, static_cast<off_t>(covered.bytes), 0, POSIX_FADV_SEQUENTIAL);
  LineReader reader(fd, end, path);
  for (std::uint64_t at = std::max(covered.bytes, first_entry); at < end;) {
    TRY(const auto next, reader.end_of(at));
    TRY(const auto line, reader.line(at, next, lines));
    add(line);
    at = next;
  }
  return covered.extend(fd, end, path);
}

std::string encode_sidecar(const Landmarks& landmarks, std::uint64_t inode) {
  SidecarWriter out(landmarks_magic, inode, landmarks.covered);
  out.number(landmarks.lines);
  out.text(landmarks.last_id);
  out.numbers(landmarks.systems);
  out.numbers(landmarks.checkpoints);
  std::vector<std::uint64_t> seqs;
  std::vector<std::uint64_t> parents;
  for (const auto& [seq, parent] : landmarks.branches) {
    seqs.push_back(seq);
    parents.push_back(parent);
  }
  out.numbers(seqs);
  out.numbers(parents);
  out.number(static_cast<std::uint64_t>(landmarks.doom_count));
  out.text(landmarks.meter ? context::to_text(*landmarks.meter) : "");
  out.text(landmarks.changes.to_json());
  const MessageCounts& counts = landmarks.counts;
  out.numbers(std::vector<std::uint64_t>{counts.users, counts.assistants, counts.tools, counts.first.value_or(0),
                                         counts.last.value_or(0)});
  return std::move(out).finish();
}

std::optional<Landmarks> Landmarks::decode(std::string_view sidecar, std::uint64_t inode) {
  auto in = SidecarReader::open(sidecar, landmarks_magic, inode);
  if (!in) return {};
  Landmarks marks{.covered = in->covered(), .lines = in->number(), .last_id = in->text()};
  marks.systems = in->numbers<std::uint64_t>();
  marks.checkpoints = in->numbers<std::uint64_t>();
  const auto seqs = in->numbers<std::uint64_t>();
  const auto parents = in->numbers<std::uint64_t>();
  if (seqs.size() != parents.size()) return {};
  for (std::size_t at = 0; at < seqs.size(); ++at) marks.branches.push_back({.seq = seqs[at], .parent = parents[at]});
  marks.doom_count = static_cast<std::int64_t>(in->number());
  marks.meter = context::meter_of(in->text());
  marks.changes = Changes::from_json(in->text());
  const auto counts = in->numbers<std::uint64_t>();
  if (counts.size() != 5) return {};
  marks.counts = {.users = counts[0], .assistants = counts[1], .tools = counts[2]};
  if (marks.counts.all() > 0) {
    marks.counts.first = counts[3];
    marks.counts.last = counts[4];
  }
  if (!in->complete()) return {};
  return marks;
}

}  // namespace sessiond::transcripts
