#include "transcripts/conversation.hpp"

#include <algorithm>
#include <ranges>
#include <unordered_map>

#include "store/try.hpp"
#include "store/utf8.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::transcripts {
namespace {

// Seqs, both ends included.
struct Span {
  std::uint64_t first, last;
};

// The path from the first entry to the leaf.
struct Path {
  std::vector<Span> spans{};  // in order
  bool has(std::uint64_t seq) const {
    const auto span = std::ranges::lower_bound(spans, seq, {}, &Span::last);
    return span != spans.end() && span->first <= seq;
  }
  std::vector<Span> between(std::uint64_t first, std::uint64_t last) const {
    std::vector<Span> out;
    for (const Span& span : spans)
      if (span.first <= last && first <= span.last)
        out.push_back({std::max(first, span.first), std::min(last, span.last)});
    return out;
  }
};

Result<const Landmarks*> landmarks_of(Transcript& transcript, Landmarks& /*held*/) { return transcript.landmarks(); }
Result<const Landmarks*> landmarks_of(const MemoryTranscript& transcript, Landmarks& held) {
  PageQuery query{.limit = transcript.count()};
  std::unordered_map<std::string, std::vector<std::uint64_t>> seqs;
  for (bool more = transcript.count() != 0; more;) {
    TRY(auto page, transcript.page(query));
    for (const StoredLine& line : page.lines) {
      held.add(line.line);
      seqs[entry_id(line.line, line.seq)].push_back(line.seq);
    }
    query.after = page.next;
    more = page.has_more;
  }
  TRY(held.resolve([&seqs](const std::vector<std::string>& ids, auto take) -> Result<void> {
    for (const std::string& id : ids)
      for (const std::uint64_t seq : seqs[id] | std::views::reverse)
        if (take(id, seq)) break;
    return {};
  }));
  return &held;
}

Path path_of(const Landmarks& marks) {
  Path path;
  if (marks.lines == 0) return path;
  std::uint64_t leaf = marks.lines - 1;
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

// Calls take(StoredLine) for the entries of the spans until it returns false.
template <class Source, class Take>
Result<void> each_line(Source& source, const std::vector<Span>& spans, Take take) {
  for (const Span& span : spans) {
    PageQuery query{.before = span.last + 1, .limit = 1'000};
    if (span.first > 0) query.after = span.first - 1;
    for (bool more = true; more;) {
      TRY(auto page, source.page(query));
      for (StoredLine& line : page.lines)
        if (!take(line)) return {};
      query.after = page.next;
      more = page.has_more && page.next && *page.next < span.last;
    }
  }
  return {};
}

context::Line line_of(StoredLine& stored) {
  if (store::invalid_utf8(stored.line)) stored.line = store::replace_invalid_utf8(stored.line);
  const EntryFields fields = read_fields(stored.line);
  context::Line out{.seq = stored.seq, .id = entry_id(stored.line, stored.seq)};
  if (fields.shape == EntryShape::unreadable) return out;
  std::string held;
  const auto [type, body] = spoken_of(fields, stored.line, held);
  out.type = type;
  out.body = body;
  if (const auto text = json::as_string(fields.timestamp)) out.at = parse_iso_time(*text).value_or(0);
  return out;
}

// The entries that a model is shown, before their lines are read.
struct Shown {
  Path path{};
  std::optional<std::uint64_t> checkpoint{};
  std::vector<Span> before{}, after{};
};

template <class Source>
Result<Shown> shown_of(Source& source, const Landmarks& marks) {
  Shown out;
  out.path = path_of(marks);
  if (out.path.spans.empty()) return out;
  const std::uint64_t leaf = out.path.spans.back().last;
  for (auto seq = marks.checkpoints.rbegin(); seq != marks.checkpoints.rend() && !out.checkpoint; ++seq)
    if (out.path.has(*seq)) out.checkpoint = *seq;
  if (!out.checkpoint) {
    out.after = out.path.spans;
    return out;
  }
  const std::uint64_t at = *out.checkpoint;
  std::string kept;
  TRY(each_line(source, {{at, at}}, [&kept](const StoredLine& line) {
    kept = json::string_at(line.line, "firstKeptEntryId").value_or("");
    return false;
  }));
  if (!kept.empty()) {
    TRY(const auto first,
        source.find(kept, [&](std::string_view, std::uint64_t seq) { return seq < at && out.path.has(seq); }));
    if (first) out.before = out.path.between(first->seq, at - 1);
  }
  if (at < leaf) out.after = out.path.between(at + 1, leaf);
  return out;
}

std::vector<Span> systems_of(const Landmarks& marks, const Path& path) {
  std::vector<Span> out;
  for (const std::uint64_t seq : marks.systems)
    if (path.has(seq)) out.push_back({seq, seq});
  return out;
}

template <class Source>
Result<context::Conversation> read_shown(Source& source, const Landmarks& marks, const Shown& shown,
                                         std::uint64_t max_bytes) {
  context::Conversation out;
  std::uint64_t bytes = 0;
  const auto take_into = [&](std::vector<context::Line>& lines, bool systems) {
    return [&, systems](StoredLine& stored) {
      bytes += stored.line.size();
      if (bytes > max_bytes) {
        out.cut = true;
        return false;
      }
      const bool is_system = std::ranges::binary_search(marks.systems, stored.seq);
      if (is_system == systems) lines.push_back(line_of(stored));
      return true;
    };
  };
  TRY(each_line(source, systems_of(marks, shown.path), take_into(out.system, true)));
  if (shown.checkpoint) {
    std::vector<context::Line> line;
    TRY(each_line(source, {{*shown.checkpoint, *shown.checkpoint}}, take_into(line, false)));
    if (!line.empty()) out.checkpoint = std::move(line.front());
  }
  TRY(each_line(source, shown.before, take_into(out.before, false)));
  TRY(each_line(source, shown.after, take_into(out.after, false)));
  return out;
}

// Leaves only the last entries of what is shown: at least `messages` of them, if they have no more than max_bytes, and
// at least one.
template <class Source>
Result<Shown> last_of(Source& source, Shown shown, std::int64_t messages, std::uint64_t max_bytes) {
  std::vector<Span> last;
  std::uint64_t bytes = 0;
  std::int64_t count = 0;
  const std::int64_t most = messages + 1'000;  // a turn may have begun some way before
  std::vector<Span> spans = shown.before;
  spans.insert(spans.end(), shown.after.begin(), shown.after.end());
  for (const Span& span : spans | std::views::reverse) {
    std::uint64_t first = span.last + 1;
    PageQuery query{.before = span.last + 1, .limit = 1'000, .descending = true};
    if (span.first > 0) query.after = span.first - 1;
    for (bool more = true; more && bytes < max_bytes && count < most;) {
      TRY(const auto page, source.page(query));
      for (const StoredLine& line : page.lines) {
        bytes += line.line.size();
        if ((bytes >= max_bytes && count > 0) || ++count > most) break;
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
  for (const Span& span : last | std::views::reverse)
    (span.first < shown.checkpoint.value_or(0) ? shown.before : shown.after).push_back(span);
  return shown;
}

template <class Source>
Result<context::Conversation> read(Source& source, const ReadLimits& limits) {
  Landmarks held;
  TRY(const Landmarks* marks, landmarks_of(source, held));
  TRY(auto shown, shown_of(source, *marks));
  TRY(auto out, read_shown(source, *marks, shown, limits.bytes));
  if (!out.cut || !limits.messages) return out;
  TRY(shown, last_of(source, std::move(shown), *limits.messages, limits.bytes / 2));
  return read_shown(source, *marks, shown, limits.bytes);
}

// Measures line by line: what there is may be long.
template <class Source>
Result<context::Meter> measure_anew(Source& source, const Landmarks& marks, std::int64_t doom_count) {
  TRY(const auto shown, shown_of(source, marks));
  context::Meter meter;
  if (shown.checkpoint)
    TRY(each_line(source, {{*shown.checkpoint, *shown.checkpoint}}, [&](StoredLine& line) {
      context::begin(meter, line_of(line));
      return true;
    }));
  const auto add = [&](bool counts_usage) {
    return [&, counts_usage](StoredLine& stored) {
      context::add(meter, line_of(stored), doom_count, counts_usage);
      return true;
    };
  };
  const auto add_kept = [&, add = add(false)](StoredLine& stored) {
    return std::ranges::binary_search(marks.systems, stored.seq) || add(stored);
  };
  std::vector<Span> systems = systems_of(marks, shown.path);
  std::erase_if(systems, [&](const Span& span) { return span.first >= shown.checkpoint.value_or(0); });
  TRY(each_line(source, systems, add(false)));
  TRY(each_line(source, shown.before, add_kept));
  TRY(each_line(source, shown.after, add(true)));
  return meter;
}

template <class Source>
Result<KeptEntry> look_up(Source& source, const std::string& entry_id) {
  Landmarks held;
  TRY(const Landmarks* marks, landmarks_of(source, held));
  TRY(const auto shown, shown_of(source, *marks));
  KeptEntry out{.branches = marks->branches.size()};
  if (shown.checkpoint) {
    TRY(each_line(source, {{*shown.checkpoint, *shown.checkpoint}}, [&out](StoredLine& line) {
      out.checkpoint = transcripts::entry_id(line.line, line.seq);
      return false;
    }));
  }
  TRY(const auto found,
      source.find(entry_id, [&](std::string_view, std::uint64_t seq) { return shown.path.has(seq); }));
  if (!found) return out;
  out.on_path = true;
  if (!shown.checkpoint)
    out.beyond_last = true;
  else if (shown.before.empty())
    out.beyond_last = found->seq > *shown.checkpoint;
  else
    out.beyond_last = found->seq > shown.before.front().first;
  return out;
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

Result<context::Conversation> read_conversation(Transcript& transcript, const ReadLimits& limits) {
  return read(transcript, limits);
}
Result<context::Conversation> read_conversation(const MemoryTranscript& transcript, const ReadLimits& limits) {
  return read(transcript, limits);
}

Result<context::Meter> measure(Transcript& transcript, std::int64_t doom_count) {
  TRY(const Landmarks* marks, transcript.landmarks(doom_count));
  if (marks->meter) return *marks->meter;
  TRY(auto meter, measure_anew(transcript, *marks, doom_count));
  meter.branches = marks->branches.size();
  transcript.set_meter(meter);
  return meter;
}
Result<context::Meter> measure(const MemoryTranscript& transcript, std::int64_t doom_count) {
  Landmarks held;
  TRY(const Landmarks* marks, landmarks_of(transcript, held));
  TRY(auto meter, measure_anew(transcript, *marks, doom_count));
  meter.branches = marks->branches.size();
  return meter;
}

Result<KeptEntry> look_up_kept(Transcript& transcript, const std::string& entry_id) {
  return look_up(transcript, entry_id);
}
Result<KeptEntry> look_up_kept(const MemoryTranscript& transcript, const std::string& entry_id) {
  return look_up(transcript, entry_id);
}

}  // namespace sessiond::transcripts
