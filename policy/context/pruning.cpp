#include "policy/context/pruning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "policy/context/row_edits.hpp"
#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"

namespace sessiond::context {
namespace {

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

std::string trimmed(std::string_view what, std::string_view text, std::int64_t points, std::int64_t keep) {
  const std::size_t head = offset_of(text, keep);
  const std::size_t tail = offset_of(text, points - keep);
  return fmt::format("{}\n[{} trimmed: kept first {} chars and last {} chars of {} chars.]\n{}", text.substr(0, head),
                     what, keep, keep, points, text.substr(tail));
}

// Returns the index of the first row that is protected. 0: all are.
std::size_t end_of_old(const std::vector<Row>& rows, const PruningSettings& settings) {
  std::size_t end = rows.size();
  for (std::int64_t seen = 0; seen < settings.keep_assistants; ++seen) {
    do {
      if (end == 0) return 0;
    } while (rows[--end].entry.role != Role::assistant);
  }
  return end;
}

// Puts notices in the place of old media.
std::vector<Pruned> prune_media(Rows& rows, std::int64_t& used, const PruningSettings& settings) {
  std::vector<Pruned> pruned;
  ToolNames tools(rows.all);
  const std::size_t end = end_of_old(rows.all, settings);
  for (std::size_t at = 0; at < end; ++at) {
    Row& row = rows.all[at];
    const bool is_excluded = std::ranges::any_of(
        row.entry.results, [&](const ToolResult& result) { return excludes(settings, tools.of(result)); });
    if (row.is_asked || is_excluded) continue;
    const std::int64_t tokens = row.entry.tokens;
    clear_media(rows, row, [&](const Media& media) {
      if (media.attached) return false;
      pruned.push_back({.row = at, .entry_id = row.id, .media = media.kind, .from = media.bytes, .how = "hard"});
      return true;
    });
    used = std::max<std::int64_t>(used - (tokens - row.entry.tokens), 0);
  }
  return pruned;
}

class Pruner {
 public:
  Pruner(Rows& rows, std::int64_t& used, const PruningSettings& settings)
      : rows_(rows), used_(used), settings_(settings), tools_(rows.all) {
    find_targets();
  }

  void soft() {
    for (Target& target : targets_) {
      const std::string text = text_of(result_of(target).content);
      if (target.points <= 2 * settings_.keep_chars) continue;
      change(target, trimmed("Tool result", text, target.points, settings_.keep_chars), true, "soft");
    }
  }

  // Clears results, oldest first, until the window is used no more than that.
  void hard(std::int64_t window, std::optional<PerMille> until) {
    for (Target& target : targets_) {
      if (until && !is_beyond(used_, window, *until)) return;
      change(target, std::string(cleared_result), false, "hard");
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
    const std::size_t end = end_of_old(rows_.all, settings_);
    for (std::size_t at = 0; at < end; ++at) {
      const Entry& entry = rows_.all[at].entry;
      for (std::size_t index = 0; index < entry.results.size(); ++index) {
        const ToolResult& result = entry.results[index];
        const std::int64_t points = text_points(result.content);
        if (points < settings_.min_chars) continue;
        std::string tool = tools_.of(result);
        if (excludes(settings_, tool)) continue;
        targets_.push_back({.row = at,
                            .result = index,
                            .tool = std::move(tool),
                            .points = points,
                            .now = points,
                            .images = images_in(result.content)});
      }
    }
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
  ToolNames tools_;
  std::vector<Target> targets_{};
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

bool excludes(const PruningSettings& settings, std::string_view tool) {
  return std::ranges::any_of(settings.exclude_tools,
                             [tool](const std::string& pattern) { return excludes(pattern, tool); });
}

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
  const bool is_hard = options.prune == Prune::hard || options.prune == Prune::aggressive;
  std::vector<Pruned> pruned = is_hard ? prune_media(rows, used, settings) : std::vector<Pruned>();
  Pruner pruner(rows, used, settings);
  if (options.prune == Prune::soft) {
    pruner.soft();
  } else if (options.prune == Prune::hard) {
    pruner.hard(window, {});
  } else {
    if (is_beyond(used, window, settings.soft)) pruner.soft();
    if (is_beyond(used, window, settings.hard)) pruner.hard(window, settings.hard);
  }
  std::ranges::move(std::move(pruner).finish(), std::back_inserter(pruned));
  return pruned;
}

void cut_long(Rows& rows, std::int64_t tokens) {
  const std::int64_t chars = 4 * tokens;
  for (Row& row : rows.all) {
    if (row.entry.tokens <= tokens) continue;
    clear_media(rows, row, [](const Media& media) { return !media.attached; });
    const bool has_content = row.entry.content.starts_with('"') || row.entry.content.starts_with('[');
    if (row.entry.role == Role::tool || !has_content) continue;
    const std::string text = said_in(row.entry.content);
    const std::int64_t points = text_points(json::quote(text));
    set_said(rows, row, points <= chars ? text : trimmed("Message", text, points, chars / 2));
  }
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
