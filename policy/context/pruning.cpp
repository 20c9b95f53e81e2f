#include "policy/context/pruning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"

namespace sessiond::context {
namespace {

constexpr std::string_view cleared = "[Old tool result content cleared]";

// A new text of one result of a row.
struct NewText {
  std::size_t result = 0;
  std::string text{};
  bool keeps_others = true;  // parts that are no text
};

// A result whose text the view replaces.
struct Target {
  std::size_t row;
  std::size_t result;
  std::string tool;
  std::int64_t points;  // of the text as it was
  std::int64_t now;     // of the text as it will be
  std::int64_t images;  // that it will have
  std::optional<NewText> change{};
  const char* how = "";
};

std::size_t offset_of(std::string_view text, std::int64_t points) {
  std::size_t at = 0;
  for (; points > 0 && at < text.size(); --points) at += std::max<std::size_t>(store::utf8_sequence(text, at), 1);
  return at;
}

std::string text_of(std::string_view content) {
  if (auto text = json::as_string(content)) return *text;
  std::string all;
  if (!content.starts_with('[')) return all;
  for (const std::string_view part : json::elements(content)) {
    if (!part.starts_with('{') || json::string_at(part, "type") != "text") continue;
    const std::string text = json::string_at(part, "text").value_or("");
    if (text.empty()) continue;
    if (!all.empty()) all += '\n';
    all += text;
  }
  return all;
}

// Content with one text instead of all its text parts. Other parts stay or go.
std::string content_with(std::string_view content, std::string_view text, bool keeps_others) {
  if (!content.starts_with('[')) return json::quote(text);
  std::string out = fmt::format(R"([{{"type":"text","text":{}}})", json::quote(text));
  if (keeps_others)
    for (const std::string_view part : json::elements(content))
      if (!part.starts_with('{') || json::string_at(part, "type") != "text") out.append(",").append(part);
  return out + "]";
}

// Rewrites a row once, however many results of it change; they are in order.
void set_texts(Rows& rows, Row& row, const std::vector<NewText>& changes) {
  const Entry& entry = row.entry;
  const std::string_view status = entry.status;  // of the whole text
  const auto content_of = [&entry](const NewText& change) {
    return content_with(entry.results[change.result].content, change.text, change.keeps_others);
  };
  std::string content;
  if (entry.results.front().part.empty()) {
    content = content_of(changes.front());
  } else {
    auto change = changes.begin();
    content = json::change_elements(entry.content, [&](std::string_view part) -> std::optional<std::string> {
      if (change == changes.end() || part.data() != entry.results[change->result].part.data()) return std::string(part);
      return json::apply(part, {.set = {{"content", content_of(*change++)}}});
    });
  }
  rows.replace(row, json::apply(entry.message, {.set = {{"content", content}}}));
  row.entry.status = status;
}

std::string trimmed(std::string_view text, std::int64_t points, std::int64_t keep) {
  const std::size_t head = offset_of(text, keep);
  const std::size_t tail = offset_of(text, points - keep);
  return fmt::format("{}\n[Tool result trimmed: kept first {} chars and last {} chars of {} chars.]\n{}",
                     text.substr(0, head), keep, keep, points, text.substr(tail));
}

class Pruner {
 public:
  Pruner(Rows& rows, std::int64_t& used, const PruningSettings& settings)
      : rows_(rows), used_(used), settings_(settings) {
    find_targets();
  }

  void soft() {
    for (Target& target : targets_) {
      const std::string text = text_of(result_of(target).content);
      if (target.points <= 2 * settings_.keep_chars) continue;
      change(target, trimmed(text, target.points, settings_.keep_chars), true, "soft");
    }
  }

  // Clears results, oldest first, until the window is used no more than that.
  void hard(std::int64_t window, std::optional<PerMille> until) {
    for (Target& target : targets_) {
      if (until && !is_beyond(used_, window, *until)) return;
      change(target, std::string(cleared), false, "hard");
    }
  }

  // Rewrites the rows, and tells what was done.
  std::vector<Pruned> finish() && {
    std::vector<Pruned> pruned;
    for (auto target = targets_.begin(); target != targets_.end();) {
      Row& row = rows_.all[target->row];
      std::vector<NewText> changes;
      for (const std::size_t at = target->row; target != targets_.end() && target->row == at; ++target) {
        if (!target->change) continue;
        changes.push_back(std::move(*target->change));
        pruned.push_back({.row = at,
                          .entry_id = row.id,
                          .tool = std::move(target->tool),
                          .from = target->points,
                          .to = target->now,
                          .how = target->how});
      }
      if (!changes.empty()) set_texts(rows_, row, changes);
    }
    return pruned;
  }

 private:
  const ToolResult& result_of(const Target& target) const { return rows_.all[target.row].entry.results[target.result]; }

  void find_targets() {
    std::size_t end = rows_.all.size();
    for (std::int64_t seen = 0; seen < settings_.keep_assistants; ++seen) {
      do {
        if (end == 0) return;
      } while (rows_.all[--end].entry.role != Role::assistant);
    }
    for (std::size_t at = 0; at < end; ++at) {
      const Entry& entry = rows_.all[at].entry;
      for (std::size_t index = 0; index < entry.results.size(); ++index) {
        const ToolResult& result = entry.results[index];
        const std::int64_t points = text_points(result.content);
        if (points < settings_.min_chars) continue;
        std::string tool = result.name.empty() ? tool_of(result.call_id) : result.name;
        if (std::ranges::any_of(settings_.exclude_tools,
                                [&](const std::string& pattern) { return excludes(pattern, tool); }))
          continue;
        targets_.push_back({.row = at,
                            .result = index,
                            .tool = std::move(tool),
                            .points = points,
                            .now = points,
                            .images = images_in(result.content)});
      }
    }
  }

  // The name of a called tool: of the last call with this id.
  std::string tool_of(const std::string& call_id) {
    if (tools_.empty())
      for (const Row& row : rows_.all)
        for (const ToolCall& call : row.entry.calls) tools_[call.id] = call.name;
    return tools_[call_id];
  }

  void change(Target& target, std::string text, bool keeps_others, const char* how) {
    const std::int64_t after = text_points(json::quote(text));
    if (after >= target.now) return;  // short results may be eligible by the settings
    const std::int64_t images = keeps_others ? 0 : std::exchange(target.images, 0);
    used_ = std::max<std::int64_t>(used_ - tokens_of(target.now - after) - tokens_of_image * images, 0);
    target.now = after;
    target.change = NewText{.result = target.result, .text = std::move(text), .keeps_others = keeps_others};
    target.how = how;
  }

  Rows& rows_;
  std::int64_t& used_;
  const PruningSettings& settings_;
  std::vector<Target> targets_{};
  std::map<std::string, std::string> tools_{};  // by the call's id
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

bool excludes(std::string_view pattern, std::string_view tool) {
  const auto same = [](char a, char b) { return a == lower(b); };
  if (!pattern.ends_with('*')) return std::ranges::equal(pattern, tool, same);
  pattern.remove_suffix(1);
  return tool.size() >= pattern.size() && std::ranges::equal(pattern, tool.substr(0, pattern.size()), same);
}

std::vector<Pruned> prune(Rows& rows, std::int64_t& used, const ViewOptions& options, PruningSettings settings) {
  if (options.prune == Prune::off) return {};
  if (options.prune == Prune::aggressive) {
    settings.soft = 0;
    settings.hard = 250;
    settings.min_chars = 5'000;
    settings.keep_chars = 500;
    settings.keep_assistants = 1;
  }
  const std::int64_t window = options.window;
  Pruner pruner(rows, used, settings);
  if (options.prune == Prune::soft) {
    pruner.soft();
  } else if (options.prune == Prune::hard) {
    pruner.hard(window, {});
  } else {
    if (is_beyond(used, window, settings.soft)) pruner.soft();
    if (is_beyond(used, window, settings.hard)) pruner.hard(window, settings.hard);
  }
  return std::move(pruner).finish();
}

void cut_results(Rows& rows, std::int64_t& used, std::int64_t chars) {
  for (Row& row : rows.all) {
    std::vector<NewText> changes;
    for (std::size_t index = 0; index < row.entry.results.size(); ++index) {
      const std::string_view content = row.entry.results[index].content;
      if (text_points(content) <= chars) continue;
      const std::string text = text_of(content);
      changes.push_back({.result = index, .text = text.substr(0, offset_of(text, chars)) + "…[cut]"});
    }
    if (changes.empty()) continue;
    const std::int64_t tokens = row.entry.tokens;
    set_texts(rows, row, changes);
    used = std::max<std::int64_t>(used - (tokens - row.entry.tokens), 0);
  }
}

}  // namespace sessiond::context
