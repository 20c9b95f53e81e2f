#include "policy/context/view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "policy/context/pruning.hpp"
#include "policy/context/tool_pairs.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

constexpr std::string_view summarized =
    R"({"role":"user","content":"The conversation so far was summarized.","synthetic":true,"summary":true})";
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

// Tells whether a line is the record of a run that another attempt followed (policy/runs/README.md).
bool ends_retried_run(const Line& line) {
  if (line.type != "custom" || json::string_at(line.body, "customType") != "sessiond.run") return false;
  const auto data = json::find(line.body, "data");
  return data && json::find(*data, "retried") == "true";
}

// Tells whether a row is what such a run had said. The record directly follows it.
bool is_interrupted(const Row& row) {
  return row.entry.role == Role::assistant && json::string_at(row.entry.message, "state") == "interrupted";
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

bool begins_turn(const std::vector<Row>& rows, std::size_t at) {
  return rows[at].entry.person && (at == 0 || !rows[at - 1].entry.person);
}

void add_rows(Rows& rows, const std::vector<Line>& lines, bool counts_usage) {
  rows.all.reserve(rows.all.size() + lines.size());
  for (const Line& line : lines) {
    if (ends_retried_run(line) && !rows.all.empty() && is_interrupted(rows.all.back())) rows.all.pop_back();
    Row row{.id = line.id, .seq = line.seq, .entry = read_entry(line.type, line.body), .counts_usage = counts_usage};
    if (row.entry.role == Role::none || row.entry.role == Role::system || row.entry.checkpoint) continue;
    if (line.type != "message") {
      const std::string content(row.entry.content.empty() ? "\"\"" : row.entry.content);
      rows.replace(row, fmt::format(R"({{"role":"user","content":{},"synthetic":true}})", content));
    }
    if (row.entry.summary) continue;  // the other half of a checkpoint
    rows.all.push_back(std::move(row));
  }
}

std::string to_json(const Row& row) {
  const std::string ids = row.id.empty() ? "[]" : "[" + json::quote(row.id) + "]";
  const Entry& entry = row.entry;
  if (entry.marked) {
    json::Edit shown{.set = {{"entryIds", ids}}};
    if (!entry.status.empty()) shown.set.push_back({"status", std::string(entry.status)});
    return json::apply(entry.message, shown);
  }
  std::string out;
  out.reserve(entry.message.size() + ids.size() + entry.status.size() + 32);
  out.append(entry.message, 0, entry.message.rfind('}')).append(",\"entryIds\":").append(ids);
  if (!entry.status.empty()) out.append(",\"status\":").append(entry.status);
  return out += '}';
}

void begin(Meter& meter, const Line& checkpoint) {
  meter.begin(checkpoint.id, checkpoint.at, summary_tokens(checkpoint));
}

void add(Meter& meter, const Line& line, std::int64_t doom_count, bool counts_usage) {
  meter.add(read_entry(line.type, line.body), doom_count, counts_usage);
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
    add_systems(line.seq);
    add(meter, line, doom_count, true);
  }
  add_systems(std::numeric_limits<std::uint64_t>::max());
  return meter;
}

View view_of(const Conversation& conversation, const ViewOptions& options, const Settings& settings) {
  View view;
  add_rows(view.rows, conversation.before, false);
  add_rows(view.rows, conversation.after, true);
  view.repaired = match_pairs(view.rows);
  std::vector<Row> rows = std::exchange(view.rows.all, {});
  if (conversation.checkpoint) add_summary(view.rows, *conversation.checkpoint, options.style);
  view.summary_rows = view.rows.all.size();
  std::ranges::move(rows, std::back_inserter(view.rows.all));

  Meter meter;
  const auto add_systems = [&](std::uint64_t before) {
    while (view.system.size() < conversation.system.size()) {
      const Line& line = conversation.system[view.system.size()];
      if (line.seq >= before) return;
      const Entry entry = read_entry(line.type, line.body);
      meter.add(entry, 0, false);
      view.system.push_back(to_json({.id = line.id, .entry = entry}));
    }
  };
  for (const Row& row : view.rows.all) meter.estimated += row.entry.summary ? row.entry.tokens : 0;
  for (const Row& row : view.rows.all) {
    add_systems(row.seq);  // one behind the model's last reply is not in what that reply reported
    meter.add(row.entry, 0, row.counts_usage);
  }
  add_systems(std::numeric_limits<std::uint64_t>::max());
  view.used = meter.used();
  view.aggressive = options.prune == Prune::aggressive;
  view.pruned = prune(view.rows, view.used, options, settings.pruning);
  if (options.max_messages) trim_turns(view, *options.max_messages);
  if (options.max_tool_chars) cut_results(view.rows, view.used, *options.max_tool_chars);
  return view;
}

}  // namespace sessiond::context
