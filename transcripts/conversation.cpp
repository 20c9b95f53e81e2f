#include "transcripts/conversation.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <map>
#include <ranges>

#include "policy/context/compaction.hpp"
#include "policy/context/open_runs.hpp"
#include "store/limits.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::transcripts {
namespace {

// The path from the first entry to the leaf.
struct Path {
  std::vector<SeqSpan> spans{};  // in order
  bool has(std::uint64_t seq) const {
    const auto span = std::ranges::lower_bound(spans, seq, {}, &SeqSpan::last);
    return span != spans.end() && span->first <= seq;
  }
  std::vector<SeqSpan> between(std::uint64_t first, std::uint64_t last) const {
    std::vector<SeqSpan> out;
    for (const SeqSpan& span : spans)
      if (span.first <= last && first <= span.last)
        out.push_back({std::max(first, span.first), std::min(last, span.last)});
    return out;
  }
};

Result<const Landmarks*> landmarks_of(Transcript& transcript, Landmarks& /*held*/) { return transcript.landmarks(); }
Result<const Landmarks*> landmarks_of(const MemoryTranscript& transcript, Landmarks& held) {
  if (transcript.count() == 0) return &held;
  std::map<std::string, std::vector<std::uint64_t>> seqs;
  const std::vector<SeqSpan> all{{0, transcript.count() - 1}};
  TRY(transcript.each(all, [&](std::uint64_t seq, std::string_view line) {
    held.add(line);
    seqs[entry_id(line, seq)].push_back(seq);
    return true;
  }));
  TRY(held.resolve([&seqs](const std::vector<std::string>& ids, auto take) -> Result<void> {
    for (const std::string& id : ids)
      for (const std::uint64_t seq : seqs[id] | std::views::reverse)
        if (take(id, seq)) break;
    return {};
  }));
  return &held;
}

// `end`: where the path ends; nothing: at the last entry.
Path path_of(const Landmarks& marks, std::optional<std::uint64_t> end = {}) {
  Path path;
  if (marks.lines == 0) return path;
  std::uint64_t leaf = end.value_or(marks.lines - 1);
  std::optional<std::uint64_t> first;  // the path begins here, not with the file
  for (auto branch = marks.branches.rbegin(); branch != marks.branches.rend() && !first; ++branch) {
    if (branch->seq > leaf || branch->parent == Landmarks::Branch::not_there) continue;
    if (branch->parent == Landmarks::Branch::none) {
      first = branch->seq;
      break;
    }
    path.spans.push_back({branch->seq, leaf});
    leaf = branch->parent;
  }
  path.spans.push_back({first.value_or(0), leaf});
  std::ranges::reverse(path.spans);
  return path;
}

context::Line line_of(std::uint64_t seq, std::string_view line) {
  EntryFields fields = read_fields(line);
  context::Line out{.seq = seq, .id = entry_id(fields, line, seq), .at = seq};
  std::string repaired;
  if (const std::string_view sent = json::as_sent(line, repaired); sent.data() != line.data()) {
    line = sent;
    fields = read_fields(line);
  }
  if (fields.shape == EntryShape::unreadable) return out;
  std::string held;
  const auto [type, body] = spoken_of(fields, line, held);
  out.type = type;
  out.body = body;
  return out;
}

context::Line checkpoint_of(const StoredLine& stored) {
  context::Line out = line_of(stored.seq, stored.line);
  if (const auto text = json::as_string(read_fields(stored.line).timestamp))
    out.time = parse_iso_time(*text).value_or(0);
  return out;
}

// The entries that a model is shown, before their lines are read.
struct Shown {
  Path path{};
  std::optional<StoredLine> checkpoint{};
  std::vector<SeqSpan> before{}, after{};

  // Tells whether an entry is shown for the checkpoint, as one that it keeps.
  bool is_before(std::uint64_t seq) const { return checkpoint && seq < checkpoint->seq; }
  // The system messages before the other entries, then these.
  std::vector<SeqSpan> all(const Landmarks& marks) const {
    std::vector<SeqSpan> out;
    const std::vector<SeqSpan>& begin = before.empty() ? after : before;
    for (const std::uint64_t seq : marks.systems)
      if ((begin.empty() || seq < begin.front().first) && path.has(seq)) out.push_back({seq, seq});
    out.insert(out.end(), before.begin(), before.end());
    out.insert(out.end(), after.begin(), after.end());
    return out;
  }
};

bool has_header(const Transcript& transcript) { return transcript.tail().has_header; }
bool has_header(const MemoryTranscript& /*transcript*/) { return false; }

// Returns the seq of the first entry that a checkpoint keeps; nothing: it keeps none. Version 1 of the format has an
// index instead of an id, which counts the lines of the file with the header.
template <class Source>
Result<std::optional<std::uint64_t>> first_kept(Source& source, const StoredLine& checkpoint, const Path& path) {
  const auto is_kept = [&](std::uint64_t seq) { return seq < checkpoint.seq && path.has(seq); };
  const auto find = [&](const std::string& id) -> Result<std::optional<std::uint64_t>> {
    TRY(const auto found, source.find(id, [&](std::string_view, std::uint64_t seq) { return is_kept(seq); }));
    return found ? std::optional(found->seq) : std::nullopt;
  };
  if (const std::string id = context::Kept::read(checkpoint.line).first_behind_words; !id.empty()) {
    TRY(const auto found, find(id));
    if (found) return found;
  }
  const std::string id = json::string_at(checkpoint.line, "firstKeptEntryId").value_or("");
  if (!id.empty()) return find(id);
  const auto index = json::int_at(checkpoint.line, "firstKeptEntryIndex");
  if (json::find(checkpoint.line, "firstKeptEntryId")) return std::nullopt;
  if (!index || *index < 1 || !has_header(source) || !is_kept(static_cast<std::uint64_t>(*index - 1)))
    return std::nullopt;
  return static_cast<std::uint64_t>(*index - 1);
}

template <class Source>
Result<Shown> shown_of(Source& source, const Landmarks& marks, std::optional<std::uint64_t> through) {
  Shown out;
  out.path = path_of(marks, through);
  if (out.path.spans.empty()) return out;
  const auto last = std::ranges::find_if(marks.checkpoints | std::views::reverse,
                                         [&out](std::uint64_t seq) { return out.path.has(seq); });
  if (last == marks.checkpoints.rend()) {
    out.after = out.path.spans;
    return out;
  }
  const std::uint64_t at = *last;
  const std::vector<SeqSpan> checkpoint{{at, at}};
  TRY(source.each(checkpoint, [&out](std::uint64_t seq, std::string_view line) {
    out.checkpoint = {.seq = seq, .line = std::string(line)};
    return false;
  }));
  assert(out.checkpoint);
  TRY(const auto first, first_kept(source, *out.checkpoint, out.path));
  if (first) out.before = out.path.between(*first, at - 1);
  if (const std::uint64_t leaf = out.path.spans.back().last; at < leaf) out.after = out.path.between(at + 1, leaf);
  return out;
}

template <class Source>
Result<context::Conversation> read_shown(Source& source, const Landmarks& marks, const Shown& shown,
                                         std::uint64_t max_bytes) {
  context::Conversation out;
  std::uint64_t bytes = 0;
  const auto fits = [&](std::string_view line) {
    bytes += line.size();
    out.cut = bytes > max_bytes;
    return !out.cut;
  };
  if (shown.checkpoint && fits(shown.checkpoint->line)) out.checkpoint = checkpoint_of(*shown.checkpoint);
  if (out.cut) return out;
  TRY(source.each(shown.all(marks), [&](std::uint64_t seq, std::string_view line) {
    if (!fits(line)) return false;
    const bool is_system = std::ranges::binary_search(marks.systems, seq);
    (is_system ? out.system : shown.is_before(seq) ? out.before : out.after).push_back(line_of(seq, line));
    return true;
  }));
  return out;
}

Result<Origins> origins_of(Transcript& source, const std::string& name) {
  TRY(const std::string header, source.header());
  return Origins::read(name, header);
}
Result<Origins> origins_of(const MemoryTranscript& /*source*/, const std::string& name) { return Origins(name); }

Result<Transcript*> changes_beside(Transcript& source, std::string_view origin) { return source.changes(origin); }
Result<Transcript*> changes_beside(const MemoryTranscript& /*source*/, std::string_view /*origin*/) { return nullptr; }

using EntryIds = std::set<std::string, std::less<>>;
using Names = std::set<std::string, std::less<>>;

// Returns the ids of the lines, and of the messages that they change or tell of.
EntryIds ids_told_by(const std::vector<StoredLine>& lines) {
  EntryIds ids;
  for (const auto& [seq, line] : lines) {
    ids.insert(entry_id(line, seq));
    if (auto target = target_in(line)) ids.insert(std::move(target->id));
    std::ranges::move(dropped_in(line), std::inserter(ids, ids.end()));
  }
  return ids;
}

// Returns the names of the transcripts whose messages the lines edit.
Names origins_told_by(const std::vector<StoredLine>& lines) {
  Names names;
  for (const StoredLine& line : lines)
    if (line.line.contains("sessiond.edit"))
      if (auto target = target_in(line.line)) names.insert(std::move(target->origin));
  return names;
}

// The messages of which changes are asked for. Found out once it is known that there are changes.
class Wanted {
 public:
  Wanted() = default;  // all of the transcript
  explicit Wanted(std::function<EntryIds()> ids) : call_(std::move(ids)) {}
  explicit Wanted(const std::vector<StoredLine>& lines)
      : call_([&lines] { return ids_told_by(lines); }), lines_(&lines) {}

  const EntryIds* ids() {  // null: all
    if (call_ && !ids_) ids_ = call_();
    return ids_ ? &*ids_ : nullptr;
  }
  // Names transcripts besides those in which the transcript's own messages were first written.
  Names others() const { return lines_ != nullptr ? origins_told_by(*lines_) : Names(); }

 private:
  std::function<EntryIds()> call_{};
  const std::vector<StoredLine>* lines_ = nullptr;
  std::optional<EntryIds> ids_{};
};

// Adds what `source` tells of messages that were first written in the transcript `origin`.
template <class Source>
Result<void> add_changes(Source& source, const Changes& changes, std::string_view origin, Wanted& wanted, bool is_own,
                         ShownChanges& shown) {
  const Changes::ById* there = changes.of(origin);
  if (there == nullptr) return {};
  const auto seq_of = [is_own](const Change& change) -> std::optional<std::uint64_t> {
    return is_own ? std::max(change.edit, change.deleted) : std::nullopt;
  };
  const EntryIds* ids = wanted.ids();
  std::map<std::uint64_t, std::string> edits;  // ids, by the seq of the entry with the text
  const auto take = [&](const std::string& id, const Change& change) {
    shown.add(origin, id, {.deleted = change.deleted.has_value(), .reactions = change.reactions, .at = seq_of(change)});
    if (change.edit) edits.emplace(*change.edit, id);
  };
  if (ids == nullptr)
    for (const auto& [id, change] : *there) take(id, change);
  else
    for (const std::string& id : *ids)
      if (const auto change = there->find(id); change != there->end()) take(id, change->second);
  std::vector<SeqSpan> spans;
  spans.reserve(edits.size());
  for (const auto& [seq, id] : edits) spans.push_back({seq, seq});
  return source.each(spans, [&](std::uint64_t seq, std::string_view line) {
    shown.add(origin, edits.at(seq), {.edit = edit_in(line)});
    return true;
  });
}

// `own`: what the transcript itself tells. `is_now`: also what was decided elsewhere.
template <class Source>
Result<ShownChanges> changes_in(Source& source, const Changes& own, const std::string& name, Wanted wanted,
                                bool is_now) {
  TRY(const Origins origins, origins_of(source, name));
  ShownChanges shown(origins);
  std::vector<std::string_view> names = origins.names();
  const Names others = own.empty() ? Names() : wanted.others();
  for (const std::string& other : others)
    if (std::ranges::find(names, other) == names.end()) names.emplace_back(other);
  for (const std::string_view origin : names) {
    TRY(add_changes(source, own, origin, wanted, true, shown));
    if (!is_now) continue;
    TRY(Transcript* const beside, changes_beside(source, origin));
    if (beside == nullptr) continue;
    TRY(const Landmarks* marks, beside->landmarks());
    TRY(add_changes(*beside, marks->changes, origin, wanted, false, shown));
  }
  return shown;
}

// Returns whether a message of the transcript was edited or deleted, at any time and place.
template <class Source>
Result<bool> was_changed(Source& source, const Landmarks& marks, const std::string& name) {
  TRY(const Origins origins, origins_of(source, name));
  const auto tells = [](const Changes& changes, std::string_view origin) {
    const Changes::ById* there = changes.of(origin);
    return there != nullptr &&
           std::ranges::any_of(*there, [](const auto& one) { return one.second.edit || one.second.deleted; });
  };
  for (const std::string_view origin : origins.names()) {
    if (tells(marks.changes, origin)) return true;
    TRY(Transcript* const beside, changes_beside(source, origin));
    if (beside == nullptr) continue;
    TRY(const Landmarks* there, beside->landmarks());
    if (tells(there->changes, origin)) return true;
  }
  return false;
}

// Gives the messages of a conversation their newest text, and leaves nothing of those that were deleted.
template <class Source>
Result<void> show_changes(Source& source, const Landmarks& marks, const ReadLimits& limits,
                          context::Conversation& conversation) {
  if (limits.name.empty()) return {};
  const auto shown_ids = [&conversation] {
    EntryIds ids;
    for (const auto* lines : {&conversation.before, &conversation.after})
      for (const context::Line& line : *lines)
        if (line.type == "message") {
          ids.insert(line.id);
          std::ranges::move(dropped_in(line.body), std::inserter(ids, ids.end()));
        }
    return ids;
  };
  Landmarks then;  // has only the changes up to `through`
  if (limits.through) {
    const std::vector<SeqSpan> span{{0, *limits.through}};
    TRY(source.each(span, [&](std::uint64_t seq, std::string_view line) {
      if (entry_type(line) == "custom") then.changes.add(line, seq);
      return true;
    }));
  }
  TRY(ShownChanges changes, changes_in(source, limits.through ? then.changes : marks.changes, limits.name,
                                       Wanted(shown_ids), !limits.through));
  if (changes.empty()) return {};
  for (const auto* lines : {&conversation.before, &conversation.after})
    for (const context::Line& line : *lines) add_retold(changes, line.seq, line.id, line.body);
  for (auto* lines : {&conversation.before, &conversation.after})
    for (context::Line& line : *lines) {
      const ShownChange* change = line.type == "message" ? changes.of(line.seq, line.id) : nullptr;
      if (change == nullptr || (!change->deleted && change->edit.empty())) continue;
      const std::int64_t before = context::read_entry(line.type, line.body).tokens;
      auto message = changed_message(line.body, *change);
      line.type = message ? line.type : "";
      line.body = message ? std::move(*message) : "{}";
      line.taken_back = std::max<std::int64_t>(before - context::read_entry(line.type, line.body).tokens, 0);
      line.changed_at = change->at.value_or(std::numeric_limits<std::uint64_t>::max());
    }
  return {};
}

// Leaves only the last entries of what is shown: at least `messages` of them, if they have no more than max_bytes, and
// at least one.
template <class Source>
Result<Shown> last_of(Source& source, Shown shown, std::int64_t messages, std::uint64_t max_bytes) {
  std::vector<SeqSpan> last;
  std::uint64_t bytes = 0;
  std::int64_t count = 0;
  const std::int64_t most = messages + 1'000;  // a turn may have begun some way before
  std::vector<SeqSpan> spans = shown.before;
  spans.insert(spans.end(), shown.after.begin(), shown.after.end());
  for (const SeqSpan& span : spans | std::views::reverse) {
    std::uint64_t first = span.last + 1;
    PageQuery query{.before = span.last + 1, .limit = 1'000, .descending = true};
    if (span.first > 0) query.after = span.first - 1;
    for (bool more = true; more && bytes < max_bytes && count < most;) {
      TRY(const auto page, source.page(query));
      for (const StoredLine& line : page.lines) {
        bytes += line.line.size();
        if (bytes >= max_bytes && count > 0) break;
        if (++count > most) break;
        first = line.seq;
      }
      query.before = page.next;
      more = page.has_more && page.next;
    }
    if (first <= span.last) last.push_back({first, span.last});
    if (first > span.first) break;
  }
  shown.before.clear();
  shown.after.clear();
  for (const SeqSpan& span : last | std::views::reverse)
    (shown.is_before(span.first) ? shown.before : shown.after).push_back(span);
  return shown;
}

// Reads what stands before the entries in the file and is shown all the same: words that a checkpoint keeps, that wait,
// or that runs were handed; and what tells of the runs that were under way there.
template <class Source>
Result<void> read_words(Source& source, const Shown& shown, const context::OrderAsked& asked,
                        context::Conversation& conversation) {
  EntryIds ids(asked.waiting.begin(), asked.waiting.end());
  ids.insert(asked.active.begin(), asked.active.end());
  if (shown.checkpoint) {
    const context::Kept kept = context::Kept::read(shown.checkpoint->line);
    ids.insert(kept.words.begin(), kept.words.end());
    ids.insert(kept.runs.begin(), kept.runs.end());
  }
  for (const context::Line& line : conversation.after)
    if (line.type == "custom")
      if (const auto note = context::read_entry(line.type, line.body).note)
        ids.insert(note->words.begin(), note->words.end());
  for (const auto* lines : {&conversation.before, &conversation.after})
    for (const context::Line& line : *lines) ids.erase(line.id);
  const std::vector<std::string> wanted(ids.begin(), ids.end());
  TRY(const auto found,
      source.find(wanted, [&shown](std::string_view, std::uint64_t seq) { return shown.path.has(seq); }));
  std::vector<context::Line> words;
  for (const auto& [id, line] : found) words.push_back(line_of(line.seq, line.line));
  std::ranges::sort(words, {}, &context::Line::seq);
  std::ranges::move(conversation.before, std::back_inserter(words));
  conversation.before = std::move(words);
  return {};
}

// Returns the words that waited for a run when `through` was the last entry: a later entry says that they were handed
// over, or that their run ended before it began.
template <class Source>
Result<std::vector<std::string>> waiting_then(Source& source, const Landmarks& marks, std::uint64_t through) {
  std::vector<std::string> waiting;
  if (through + 1 >= marks.lines) return waiting;
  const std::vector<SeqSpan> later{{through + 1, marks.lines - 1}};
  TRY(source.each(later, [&waiting](std::uint64_t seq, std::string_view line) {
    if (const auto note = run_note_of(seq, line)) waiting.insert(waiting.end(), note->words.begin(), note->words.end());
    return true;
  }));
  return waiting;
}

template <class Source>
Result<context::Conversation> read(Source& source, const ReadLimits& limits) {
  Landmarks held;
  TRY(const Landmarks* marks, landmarks_of(source, held));
  TRY(auto shown, shown_of(source, *marks, limits.through));
  TRY(auto out, read_shown(source, *marks, shown, limits.bytes));
  bool is_whole = !shown.checkpoint;
  if (out.cut && limits.messages) {
    TRY(shown, last_of(source, std::move(shown), *limits.messages, limits.bytes / 2));
    TRY(out, read_shown(source, *marks, shown, limits.bytes));
    is_whole = false;
  }
  context::OrderAsked asked = limits.order;
  if (limits.through) {
    TRY(asked.waiting, waiting_then(source, *marks, *limits.through));
  }
  if (!is_whole) TRY(read_words(source, shown, asked, out));
  context::put_in_order(out, asked);  // in which a message keeps its place that was deleted
  TRY(show_changes(source, *marks, limits, out));
  return out;
}

// Returns the seq of the first entry that hands the word to a run. Nothing: none does, or it is not a word.
template <class Source>
Result<std::optional<std::uint64_t>> handed_over_at(Source& source, const Landmarks& marks, const StoredLine& word) {
  std::optional<std::uint64_t> at;
  if (word.seq + 1 >= marks.lines || !context::mark_of(line_of(word.seq, word.line))) return at;
  const std::string id = entry_id(word.line, word.seq);
  const std::vector<SeqSpan> later{{word.seq + 1, marks.lines - 1}};
  TRY(source.each(later, [&](std::uint64_t seq, std::string_view line) {
    const auto note = run_note_of(seq, line);
    if (note && note->what == context::RunNote::What::input && std::ranges::find(note->words, id) != note->words.end())
      at = seq;
    return !at;
  }));
  if (at && !path_of(marks, at).has(word.seq)) at.reset();  // it is on another branch
  return at;
}

// Returns the seqs of the words that waited for a run where a path ends: they wait now, or were given to one later.
// None of a path that tells of no run, since there the file's order counts; and none before its last checkpoint, which
// may name them as what it keeps.
template <class Source>
Result<std::set<std::uint64_t>> words_waiting_at_end(Source& source, const Landmarks& marks,
                                                     const std::vector<SeqSpan>& path,
                                                     const std::vector<std::string>& waiting_now) {
  std::map<std::string, std::uint64_t, std::less<>> unknown;  // words that no run was given yet, by id
  bool tells_of_runs = false;
  TRY(source.each(path, [&](std::uint64_t seq, std::string_view line) {
    if (const auto note = run_note_of(seq, line)) {
      tells_of_runs = true;
      for (const std::string& word : note->words) unknown.erase(word);
    } else if (line.contains("compaction") && entry_type(line) == "compaction") {
      unknown.clear();
    } else if (line.contains("user")) {  // a first look
      if (auto mark = context::mark_of(line_of(seq, line))) unknown.insert_or_assign(std::move(mark->id), seq);
    }
    return true;
  }));
  std::set<std::uint64_t> waiting;
  const auto take = [&](const std::string& word) {
    const auto found = unknown.find(word);
    if (found == unknown.end()) return;
    waiting.insert(found->second);
    unknown.erase(found);
  };
  if (!tells_of_runs) return waiting;
  std::ranges::for_each(waiting_now, take);
  const std::uint64_t behind = path.back().last + 1;
  if (unknown.empty() || behind >= marks.lines) return waiting;
  const std::vector<SeqSpan> later{{behind, marks.lines - 1}};
  TRY(source.each(later, [&](std::uint64_t seq, std::string_view line) {
    if (const auto note = run_note_of(seq, line)) std::ranges::for_each(note->words, take);
    return !unknown.empty();
  }));
  return waiting;
}

std::vector<SeqSpan> without(const std::vector<SeqSpan>& path, const std::set<std::uint64_t>& seqs) {
  std::vector<SeqSpan> out;
  for (SeqSpan span : path) {
    for (auto at = seqs.lower_bound(span.first); at != seqs.end() && *at <= span.last; ++at) {
      if (*at > span.first) out.push_back({span.first, *at - 1});
      span.first = *at + 1;
    }
    if (span.first <= span.last) out.push_back(span);
  }
  return out;
}

template <class Source>
Result<std::vector<SeqSpan>> read_path_of(Source& source, const PathAsked& asked) {
  std::optional<StoredLine> last;
  if (!asked.to.empty()) {
    TRY(last, source.find(asked.to));
    if (!last) return fail(Code::message_not_found, "there is no message " + asked.to + " in this transcript");
  }
  Landmarks held;
  TRY(const Landmarks* marks, landmarks_of(source, held));
  if (!last) return path_of(*marks).spans;
  TRY(const auto handed_over, handed_over_at(source, *marks, *last));
  std::vector<SeqSpan> path = path_of(*marks, handed_over.value_or(last->seq)).spans;
  TRY(auto waiting, words_waiting_at_end(source, *marks, path, asked.waiting));
  // Where the message itself waits, the others of the path came before it.
  return waiting.contains(last->seq) ? path : without(path, waiting);
}

template <class Source>
Result<ShownChanges> read_changes_of(Source& source, const std::string& name, const std::vector<StoredLine>* lines) {
  Landmarks held;
  TRY(const Landmarks* marks, landmarks_of(source, held));
  TRY(ShownChanges changes,
      changes_in(source, marks->changes, name, lines == nullptr ? Wanted() : Wanted(*lines), true));
  if (lines == nullptr || changes.empty()) return changes;
  for (const auto& [seq, line] : *lines) add_retold(changes, seq, entry_id(line, seq), line);
  return changes;
}

template <class Source>
Result<StoredLine> read_shown_line_of(Source& source, const std::string& name, const std::string& entry_id) {
  TRY(auto found, source.find(entry_id));
  if (!found) return StoredLine{};
  const std::vector<StoredLine> one{*found};
  TRY(const auto changes, read_changes_of(source, name, &one));
  if (auto changed = changed_line(found->line, found->seq, changes)) found->line = *std::move(changed);
  return *std::move(found);
}

// Measures line by line, in the file's order: what there is may be long. Stops where a word stands elsewhere by the
// order of runs: Meter::misplaced.
template <class Source>
Result<context::Meter> measure_lines(Source& source, const Landmarks& marks, const Shown& shown,
                                     std::int64_t doom_count, bool to_end = false) {
  context::Meter meter;
  if (shown.checkpoint) context::begin(meter, checkpoint_of(*shown.checkpoint));
  const std::uint64_t counted_from = shown.checkpoint ? shown.checkpoint->seq : 0;
  TRY(source.each(shown.all(marks), [&](std::uint64_t seq, std::string_view line) {
    context::add(meter, line_of(seq, line), doom_count, seq >= counted_from);
    return to_end || !meter.misplaced;
  }));
  return meter;
}

template <class Source>
Result<context::Meter> measure_anew(Source& source, const Landmarks& marks, std::int64_t doom_count,
                                    const std::vector<std::string>& waiting, const std::string& name = {}) {
  TRY(const auto shown, shown_of(source, marks, {}));
  TRY(auto meter, measure_lines(source, marks, shown, doom_count));
  const bool has_order = shown.checkpoint && shown.checkpoint->line.contains("firstShown");
  if (!name.empty() || has_order || meter.misplaced || !meter.counts_as_last(waiting)) {
    TRY(auto conversation, read_shown(source, marks, shown, limits::view_bytes));
    const context::OrderAsked asked{.waiting = waiting};
    if (shown.checkpoint) TRY(read_words(source, shown, asked, conversation));
    context::put_in_order(conversation, asked);
    TRY(show_changes(source, marks, {.name = name}, conversation));
    if (!conversation.cut) {
      meter = context::measure(conversation, doom_count);
    } else if (meter.misplaced) {
      TRY(meter, measure_lines(source, marks, shown, doom_count, true));
    }
    meter.misplaced = false;
  }
  meter.branches = marks.branches.size();
  return meter;
}

template <class Source>
Result<CallIds> calls_in(Source& source, const CallIds& ids) {
  Landmarks held;
  TRY(const Landmarks* marks, landmarks_of(source, held));
  CallIds found;
  if (marks->lines == 0) return found;
  const std::vector<SeqSpan> all{{0, marks->lines - 1}};
  TRY(source.each(all, [&](std::uint64_t seq, std::string_view line) {
    // In each spelling: toolCall, tool_use, tool_calls. An id may be written with escapes.
    if (!line.contains("toolCall") && !line.contains("tool_")) return true;
    const context::Line read = line_of(seq, line);
    for (const context::ToolCall& call : context::read_entry(read.type, read.body).calls)
      if (ids.contains(call.id)) found.insert(call.id);
    return found.size() < ids.size();
  }));
  return found;
}

// Returns the entries that tell what the runs were handed that are under way before an entry.
std::vector<std::string> inputs_under_way(const std::vector<const context::Line*>& lines, std::uint64_t before) {
  context::OpenRuns open;
  std::map<std::string, std::vector<std::string>> inputs;  // by run, with those of its earlier attempts
  for (const context::Line* line : lines) {
    const auto note = line->type == "custom" && line->seq < before ? context::read_line(*line).note : nullptr;
    if (!note) continue;
    open.take(*note);
    if (note->what != context::RunNote::What::input) continue;
    const auto earlier = inputs.find(note->retry_of);
    if (earlier != inputs.end()) inputs.emplace(note->run_id, earlier->second);
    inputs[note->run_id].push_back(line->id);
  }
  std::vector<std::string> ids;
  for (const context::OpenRuns::Open& run : open.all())
    ids.insert(ids.end(), inputs[run.run].begin(), inputs[run.run].end());
  return ids;
}

template <class Source>
Result<KeptEntry> look_up(Source& source, const std::string& entry_id, const std::string& name,
                          const context::OrderAsked& asked) {
  Landmarks held;
  TRY(const Landmarks* marks, landmarks_of(source, held));
  TRY(const auto shown, shown_of(source, *marks, {}));
  KeptEntry out{.branches = marks->branches.size(), .first_in_file = entry_id};
  if (shown.checkpoint) out.checkpoint = transcripts::entry_id(shown.checkpoint->line, shown.checkpoint->seq);
  TRY(const auto found,
      source.find(entry_id, [&](std::string_view, std::uint64_t seq) { return shown.path.has(seq); }));
  if (!found) return out;
  out.on_path = true;
  TRY(auto conversation, read_shown(source, *marks, shown, limits::view_bytes));
  if (shown.checkpoint) TRY(read_words(source, shown, asked, conversation));
  context::put_in_order(conversation, asked);
  TRY(show_changes(source, *marks, {.name = name}, conversation));
  std::vector<const context::Line*> lines;
  for (const auto* part : {&conversation.before, &conversation.after})
    for (const context::Line& line : *part) lines.push_back(&line);
  const auto first = std::ranges::find(lines, found->seq, &context::Line::seq);
  if (first == lines.end()) {
    if (!conversation.cut) return out;
    // It is behind what was read: the file's order.
    const bool keeps_any = shown.checkpoint && !shown.before.empty();
    out.beyond_last =
        !shown.checkpoint || found->seq > (keeps_any ? shown.before.front().first : shown.checkpoint->seq);
    return out;
  }
  const context::Line& from = **std::ranges::min_element(std::span(first, lines.end()), {}, &context::Line::seq);
  out.first_in_file = from.id;
  out.kept.runs = inputs_under_way(lines, from.seq);
  const std::vector<const context::Line*> words = context::words_before(conversation, found->seq, asked);
  for (const context::Line* word : words) out.kept.words.push_back(word->id);
  const std::set<const context::Line*> stays(words.begin(), words.end());
  out.beyond_last = !shown.checkpoint || conversation.before.empty() ||
                    std::any_of(lines.begin(), first, [&stays](const context::Line* line) {
                      return line->type != "custom" && !line->type.empty() && !stays.contains(line);
                    });
  if (!words.empty()) {
    out.kept.first_behind_words = from.id;
    const context::Line& word = **std::ranges::min_element(words, {}, &context::Line::seq);
    if (word.seq < from.seq) out.first_in_file = word.id;
  }
  const bool keeps_by_file = words.empty() && out.kept.runs.empty() &&
                             std::ranges::none_of(std::span(lines.begin(), first), [&from](const context::Line* line) {
                               return line->seq > from.seq && line->type != "custom";
                             });
  if (!keeps_by_file) out.kept.first_shown = entry_id;
  return out;
}

// Calls `read` a second time if it fails, unless it was stopped: a foreign program may have rewritten the file
// meanwhile.
template <class Read>
auto twice(Transcript& transcript, Read read) -> decltype(read()) {
  if (auto result = read(); result || transcript.was_stopped()) return result;
  TRY(transcript.refresh());
  return read();
}

}  // namespace

std::pair<std::string, std::string_view> spoken_of(const EntryFields& fields, std::string_view line,
                                                   std::string& held) {
  switch (fields.shape) {
    case EntryShape::nested:
      return {"message", fields.message};
    case EntryShape::flat:
      held = json::apply(
          line, {.set = {{"role", std::string(fields.role)}}, .unset = {"type", "id", "parentId", "timestamp"}});
      return {"message", held};
    case EntryShape::other:
      return {json::as_string(fields.type).value_or(""), line};
    case EntryShape::unreadable:
      break;
  }
  return {"", line};
}

std::shared_ptr<const context::RunNote> run_note_of(std::uint64_t seq, std::string_view line) {
  if (!line.contains("sessiond.")) return {};  // a first look
  const context::Line read = line_of(seq, line);
  return context::read_entry(read.type, read.body).note;
}

Result<context::Conversation> read_conversation(Transcript& transcript, const ReadLimits& limits) {
  return twice(transcript, [&] { return read(transcript, limits); });
}
Result<context::Conversation> read_conversation(const MemoryTranscript& transcript, const ReadLimits& limits) {
  return read(transcript, limits);
}

Result<std::vector<SeqSpan>> read_path(Transcript& transcript, const PathAsked& asked) {
  return twice(transcript, [&] { return read_path_of(transcript, asked); });
}
Result<std::vector<SeqSpan>> read_path(const MemoryTranscript& transcript, const PathAsked& asked) {
  return read_path_of(transcript, asked);
}

Result<ShownChanges> read_changes(Transcript& source, const std::string& name) {
  return twice(source, [&] { return read_changes_of(source, name, nullptr); });
}
Result<ShownChanges> read_changes(const MemoryTranscript& source, const std::string& name) {
  return read_changes_of(source, name, nullptr);
}
Result<ShownChanges> read_changes(Transcript& source, const std::string& name, const std::vector<StoredLine>& lines) {
  return twice(source, [&] { return read_changes_of(source, name, &lines); });
}
Result<ShownChanges> read_changes(const MemoryTranscript& source, const std::string& name,
                                  const std::vector<StoredLine>& lines) {
  return read_changes_of(source, name, &lines);
}

Result<StoredLine> read_shown_line(Transcript& source, const std::string& name, const std::string& entry_id) {
  return twice(source, [&] { return read_shown_line_of(source, name, entry_id); });
}
Result<StoredLine> read_shown_line(const MemoryTranscript& source, const std::string& name,
                                   const std::string& entry_id) {
  return read_shown_line_of(source, name, entry_id);
}

Result<context::Meter> measure(Transcript& transcript, std::int64_t doom_count, const std::vector<std::string>& waiting,
                               const std::string& name) {
  return twice(transcript, [&]() -> Result<context::Meter> {
    TRY(const Landmarks* marks, transcript.landmarks(doom_count));
    if (!name.empty()) {
      const auto changed = was_changed(transcript, *marks, name);
      if (changed.value_or(false))
        if (auto meter = measure_anew(transcript, *marks, doom_count, waiting, name); meter || transcript.was_stopped())
          return meter;
      if (!changed && transcript.was_stopped()) return std::unexpected(changed.error());
    }
    if (marks->meter && marks->meter->counts_as_last(waiting)) return *marks->meter;
    TRY(auto meter, measure_anew(transcript, *marks, doom_count, waiting));
    transcript.set_meter(meter);
    return meter;
  });
}
Result<context::Meter> measure(const MemoryTranscript& transcript, std::int64_t doom_count,
                               const std::vector<std::string>& waiting, const std::string& name) {
  Landmarks held{.doom_count = doom_count};
  TRY(const Landmarks* marks, landmarks_of(transcript, held));
  TRY(const bool changed, was_changed(transcript, *marks, name));
  if (changed) return measure_anew(transcript, *marks, doom_count, waiting, name);
  if (marks->meter && marks->meter->counts_as_last(waiting)) return *marks->meter;
  return measure_anew(transcript, *marks, doom_count, waiting);
}

Result<CallIds> find_calls(Transcript& transcript, const CallIds& ids) {
  return twice(transcript, [&] { return calls_in(transcript, ids); });
}
Result<CallIds> find_calls(const MemoryTranscript& transcript, const CallIds& ids) { return calls_in(transcript, ids); }

Result<KeptEntry> look_up_kept(Transcript& transcript, const std::string& entry_id, const std::string& name,
                               const context::OrderAsked& asked) {
  return twice(transcript, [&] { return look_up(transcript, entry_id, name, asked); });
}
Result<KeptEntry> look_up_kept(const MemoryTranscript& transcript, const std::string& entry_id, const std::string& name,
                               const context::OrderAsked& asked) {
  return look_up(transcript, entry_id, name, asked);
}

}  // namespace sessiond::transcripts
