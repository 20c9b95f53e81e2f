#include "policy/context/view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "policy/context/byte_limit.hpp"
#include "policy/context/pruning.hpp"
#include "policy/context/sendable.hpp"
#include "policy/context/tool_pairs.hpp"
#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

constexpr std::string_view summarized =
    R"({"role":"user","content":"The conversation so far was summarized.","synthetic":true,"summary":true})";
constexpr std::string_view go_on = R"({"role":"user","synthetic":true,"content":"Continue."})";
constexpr std::string_view summary_mark = "[Context Summary] ";

std::string summary_message(const Line& checkpoint) {
  return fmt::format(R"({{"role":"assistant","content":{},"summary":true}})",
                     json::quote(std::string(summary_mark) + summary_of(checkpoint)));
}

std::int64_t summary_tokens(const Line& checkpoint) {
  return read_entry("message", summarized).tokens + read_entry("message", summary_message(checkpoint)).tokens;
}

void add_summary(Rows& rows, const Line& checkpoint, Style style) {
  const auto add = [&](std::string message) {
    Row row{.id = checkpoint.id};
    rows.replace(row, std::move(message));
    rows.all.push_back(std::move(row));
  };
  if (style == Style::pair) add(std::string(summarized));
  add(summary_message(checkpoint));
}

// Leaves out the oldest turns, so that at most `most` rows remain behind the summary. The last turn stays.
void trim_turns(View& view, std::int64_t most) {
  std::vector<Row>& all = view.rows.all;
  const std::size_t summary_rows = view.summary_rows;
  std::size_t begin = summary_rows;
  while (all.size() - begin > static_cast<std::size_t>(most)) {
    std::size_t next = begin + 1;
    while (next < all.size() && !begins_turn(all, next)) ++next;
    if (next == all.size()) break;
    begin = next;
  }
  for (std::size_t at = summary_rows; at < begin; ++at) view.used -= all[at].entry.tokens;
  view.used = std::max<std::int64_t>(view.used, 0);
  std::erase_if(view.pruned, [begin](const Pruned& pruned) { return pruned.row < begin; });
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(summary_rows), all.begin() + static_cast<std::ptrdiff_t>(begin));
}

// Returns the tokens in use: what the model's last reply reported, and an estimate of everything later. A Meter counts
// the same.
std::int64_t used_by(const std::vector<Row>& rows, std::size_t summary_rows, const std::vector<Row>& system) {
  const Row* last = nullptr;
  for (const Row& row : rows)
    if (row.counts_usage && row.entry.usage && row.entry.usage->used != 0 && (last == nullptr || row.at > last->at))
      last = &row;
  std::int64_t used = last == nullptr ? 0 : last->entry.usage->used;
  const auto came_since = [last](const Row& row) {
    const bool is_made = row.id.empty();  // for a call of that reply, or of a later one
    return last == nullptr || row.at > last->at || (is_made && row.at == last->at);
  };
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const bool counts = at < summary_rows ? last == nullptr : came_since(rows[at]);
    if (counts) used = policy::add_counted(used, rows[at].entry.tokens);
  }
  for (const Row& row : system)
    if (came_since(row)) used = policy::add_counted(used, row.entry.tokens);
  return used;
}

// Returns what people took back since the model's last reply, in tokens, of what it reported. An estimate.
std::int64_t taken_back(const Conversation& conversation) {
  const auto is_changed = [](const Line& line) { return line.taken_back > 0; };
  if (std::ranges::none_of(conversation.before, is_changed) && std::ranges::none_of(conversation.after, is_changed))
    return 0;
  const Line* last = nullptr;
  for (const Line& line : conversation.after) {
    if (line.type != "message" || (last != nullptr && line.at < last->at)) continue;
    const Entry entry = read_line(line);
    if (entry.usage && entry.usage->used != 0) last = &line;
  }
  std::int64_t tokens = 0;
  if (last == nullptr) return tokens;
  for (const auto* lines : {&conversation.before, &conversation.after})
    for (const Line& line : *lines)
      if (line.at < last->at && line.changed_at > last->seq) tokens = policy::add_counted(tokens, line.taken_back);
  return tokens;
}

// Leaves out what a run had said before it was tried again. Returns the id of that entry; "": there is none.
std::string take_back_begun(std::vector<Row>& rows) {
  const auto last = std::ranges::find_if(rows.rbegin(), rows.rend(), [](const Row& row) { return !row.aside; });
  if (last == rows.rend() || !last->entry.interrupted || last->entry.synthetic) return {};
  std::string id = std::move(last->id);
  rows.erase(std::prev(last.base()));
  return id;
}

// Returns whether the row `part` has a further part of the message of `row`: it is the entry <id>.2, or .3, of <id>,
// and both are of one response.
bool is_part(const Row& row, const Row& part) {
  const bool is_named = part.id.size() > row.id.size() && part.id.starts_with(row.id) && part.id[row.id.size()] == '.';
  if (!is_named || row.entry.role != Role::assistant || part.entry.role != Role::assistant ||
      !row.entry.content.starts_with('[') || !part.entry.content.starts_with('['))
    return false;
  const std::string response = json::string_at(row.entry.message, "responseId").value_or("");
  return !response.empty() && json::string_at(part.entry.message, "responseId") == response;
}

// Puts further parts of a message behind those that the row before shows, unless another message stands between.
// Returns whether it did. Their tokens stay those of two entries, as a Meter counts them.
bool join_part(Rows& rows, const Row& part) {
  if (rows.all.empty() || !is_part(rows.all.back(), part)) return false;
  Row& row = rows.all.back();
  std::string content = "[";
  for (const std::string_view list : {row.entry.content, part.entry.content})
    for (const std::string_view one : json::elements(list)) content.append(content.size() > 1 ? "," : "").append(one);
  json::Edit edit{.set = {{"content", content + "]"}}};
  if (const auto stop = json::find(part.entry.message, "stopReason"))
    edit.set.push_back({"stopReason", std::string(*stop)});
  const std::int64_t tokens = row.entry.tokens + part.entry.tokens;
  auto usage = row.entry.usage;
  if (usage && usage->used != 0)
    usage->used = policy::add_counted(usage->used, part.entry.tokens);
  else
    usage = part.entry.usage;
  rows.replace(row, json::apply(row.entry.message, edit));
  row.entry.tokens = tokens;
  row.entry.usage = usage;
  row.part_ids.push_back(part.id);
  return true;
}

// Returns whether words begin there that are to be answered: a person's, or, behind an answer, a program's.
bool begins_question(const std::vector<Row>& rows, std::size_t at) {
  const Entry& entry = rows[at].entry;
  if (!entry.is_word() || rows[at].id.empty()) return false;
  if (at == 0) return true;
  const Entry& before = rows[at - 1].entry;
  return entry.person ? !before.person : entry.synthetic && before.role == Role::assistant && before.calls.empty();
}

// Returns the index of the row that the last turn begins with. Without words that is the model's last message.
std::size_t last_turn(const std::vector<Row>& rows) {
  for (std::size_t at = rows.size(); at > 0; --at)
    if (begins_question(rows, at - 1)) return at - 1;
  std::size_t last = rows.size();
  while (last > 0 && rows[last - 1].entry.role != Role::assistant) --last;
  return last == 0 ? 0 : last - 1;
}

// The words that the last turn begins with are asked now.
void mark_asked(std::vector<Row>& rows) {
  for (std::size_t at = last_turn(rows); at < rows.size() && rows[at].entry.is_word(); ++at) rows[at].is_asked = true;
}

// Holds the view within its bytes. The last turn stays whole.
void limit_bytes(View& view, const std::vector<Row>& system, const ViewOptions& options,
                 const PruningSettings& settings) {
  view.bytes = bytes_of(view.rows.all);
  view.bytes += bytes_of(system);
  if (!options.max_bytes || options.prune == Prune::off) return;
  std::ranges::move(keep_within(view.rows, view.summary_rows, last_turn(view.rows.all), *options.max_bytes, view.bytes,
                                view.used, settings),
                    std::back_inserter(view.pruned));
}

// Providers refuse a conversation that ends with the model's own words.
void end_with_question(View& view) {
  if (view.rows.all.empty() || view.rows.all.back().entry.role != Role::assistant) return;
  Row row{.seq = view.rows.all.back().seq, .at = view.rows.all.back().at};
  view.repaired.push_back({.entry_id = view.rows.all.back().id, .why = "continued"});
  view.rows.replace(row, std::string(go_on));
  view.rows.all.push_back(std::move(row));
}

}  // namespace

void Rows::replace(Row& row, std::string message) { row.entry = read_entry("message", keep(std::move(message))); }

std::string summary_of(const Line& checkpoint) {
  const bool compaction = checkpoint.type == "compaction";
  const Entry entry = read_entry(checkpoint.type, checkpoint.body);
  const std::string_view content = compaction ? json::find(checkpoint.body, "summary").value_or("") : entry.content;
  std::string text = json::as_string(content).value_or("");
  if (content.starts_with('['))
    for (const std::string_view part : json::elements(content))
      if (part.starts_with('{')) text += json::string_at(part, "text").value_or("");
  return text.starts_with(summary_mark) ? text.substr(summary_mark.size()) : text;
}

Entry read_line(const Line& line) {
  Entry entry = read_entry(line.type, line.body);
  if (!line.is_input || entry.fit != Fit::left_out || entry.role != Role::user) return entry;
  entry.fit = Fit::mended;  // a run was asked it, so the model is shown that somebody said something
  entry.tokens = entry.word_tokens = tokens_of(static_cast<std::int64_t>(empty_message.size()));
  return entry;
}

bool begins_turn(const std::vector<Row>& rows, std::size_t at) {
  return rows[at].entry.person && (at == 0 || !rows[at - 1].entry.person);
}

void add_rows(Rows& rows, const std::vector<Line>& lines, bool counts_usage, std::vector<Repaired>& repaired,
              bool all) {
  rows.all.reserve(rows.all.size() + lines.size());
  std::vector<Row> blank;  // a message that says nothing, such as thinking, until its further parts
  for (const Line& line : lines) {
    Row row{.id = line.id,
            .seq = line.seq,
            .at = line.at,
            .entry = read_line(line),
            .counts_usage = counts_usage,
            .is_asked = line.is_asked};
    if (row.entry.retries()) {
      std::string begun = take_back_begun(rows.all);
      if (all && !begun.empty()) repaired.push_back({.entry_id = std::move(begun), .why = "tried_again"});
    }
    const bool is_summary = row.entry.checkpoint || row.entry.summary;  // a checkpoint, or the other half of one
    if (row.entry.role == Role::none || row.entry.role == Role::system || is_summary) {
      row.aside = true;
      if (all && !line.type.empty()) rows.all.push_back(std::move(row));
      continue;
    }
    if (line.type != "message" && !all) {
      const std::string content(row.entry.content.empty() ? "\"\"" : row.entry.content);
      rows.replace(row, fmt::format(R"({{"role":"user","content":{},"synthetic":true}})", content));
    }
    if (row.entry.fit == Fit::left_out) {
      repaired.push_back({.entry_id = line.id, .why = "blank_message"});
      if (!blank.empty() && !is_part(blank.front(), row)) blank.clear();
      blank.push_back(std::move(row));
      continue;
    }
    if (row.entry.fit == Fit::mended) repaired.push_back({.entry_id = line.id, .why = "blank_text"});
    const bool is_message = line.type == "message" || !all;
    if (is_message && (row.entry.fit == Fit::mended || !mark_of(row.entry).empty())) {
      const std::string_view status = row.entry.status;
      rows.replace(row, mended(row.entry));
      row.entry.status = status;  // that of the text as it was
    }
    if (!all && !blank.empty() && is_part(blank.front(), row)) {
      for (Row& part : blank) {
        std::erase_if(repaired, [&part](const Repaired& one) { return one.entry_id == part.id; });
        if (!join_part(rows, part)) rows.all.push_back(std::move(part));
      }
    }
    blank.clear();
    if (all || !join_part(rows, row)) rows.all.push_back(std::move(row));
  }
}

Rows rows_of(const Conversation& conversation, std::vector<Repaired>& repaired) {
  Rows rows;
  add_rows(rows, conversation.before, false, repaired);
  add_rows(rows, conversation.after, true, repaired);
  return rows;
}

namespace {

void append_ids(std::string& out, const Row& row) {
  json::ArrayWriter ids(out);
  if (!row.id.empty()) json::append_quoted(ids.next(), row.id);
  for (const std::string& part : row.part_ids) json::append_quoted(ids.next(), part);
  ids.close();
}

}  // namespace

void append_json(std::string& out, const Row& row) {
  const Entry& entry = row.entry;
  if (entry.marked) {
    json::Edit shown{.set = {{"entryIds", ""}}};
    append_ids(shown.set.front().value, row);
    if (!entry.status.empty()) shown.set.push_back({"status", std::string(entry.status)});
    out += json::apply(entry.message, shown);
    return;
  }
  append_ids(out.append(entry.message, 0, entry.message.rfind('}')).append(",\"entryIds\":"), row);
  if (!entry.status.empty()) out.append(",\"status\":").append(entry.status);
  out += '}';
}

std::string to_json(const Row& row) {
  std::string out;
  append_json(out, row);
  return out;
}

void begin(Meter& meter, const Line& checkpoint) {
  meter.begin(checkpoint.id, checkpoint.time, summary_tokens(checkpoint));
}

void add(Meter& meter, const Line& line, std::int64_t doom_count, bool counts_usage) {
  meter.add(line.id, read_line(line), doom_count, counts_usage, line.waits);
}

Meter measure(const Conversation& conversation, std::int64_t doom_count) {
  Meter meter;
  if (conversation.checkpoint) begin(meter, *conversation.checkpoint);
  auto system = conversation.system.begin();
  const auto add_systems = [&](std::uint64_t before) {
    for (; system != conversation.system.end() && system->seq < before; ++system)
      add(meter, *system, doom_count, false);
  };
  for (const Line& line : conversation.before) add(meter, line, doom_count, false);
  for (const Line& line : conversation.after) {
    add_systems(line.at);
    add(meter, line, doom_count, true);
  }
  add_systems(std::numeric_limits<std::uint64_t>::max());
  meter.misplaced = false;  // the entries came in order
  meter.count(std::max<std::int64_t>(meter.used() - taken_back(conversation), 0));
  return meter;
}

View view_of(const Conversation& conversation, const ViewOptions& options, const Settings& settings) {
  View view;
  view.rows = rows_of(conversation, view.repaired);
  std::ranges::move(match_pairs(view.rows), std::back_inserter(view.repaired));
  std::vector<Row> rows = std::exchange(view.rows.all, {});
  if (conversation.checkpoint) add_summary(view.rows, *conversation.checkpoint, options.style);
  view.summary_rows = view.rows.all.size();
  mark_asked(rows);
  if (view.rows.all.empty())
    view.rows.all = std::move(rows);
  else
    std::ranges::move(rows, std::back_inserter(view.rows.all));
  if (options.of_run) end_with_question(view);
  Rows system;
  for (const Line& line : conversation.system) {
    const Entry entry = read_entry(line.type, line.body);
    if (entry.fit == Fit::left_out) continue;
    Row row{.id = line.id, .seq = line.seq, .at = line.seq, .entry = entry};
    if (entry.fit == Fit::mended) system.replace(row, mended(entry));
    view.system.push_back(to_json(row));
    system.all.push_back(std::move(row));
  }
  const std::int64_t used = used_by(view.rows.all, view.summary_rows, system.all);
  view.whole = view.used = std::max<std::int64_t>(used - taken_back(conversation), 0);
  view.aggressive = options.prune == Prune::aggressive;
  view.pruned = prune(view.rows, view.used, options, settings.pruning);
  if (options.max_messages) trim_turns(view, *options.max_messages);
  if (options.max_tool_chars) cut_results(view.rows, view.used, *options.max_tool_chars);
  limit_bytes(view, system.all, options, settings.pruning);
  return view;
}

}  // namespace sessiond::context
