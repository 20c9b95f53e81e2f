#include "policy/context/byte_limit.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "policy/context/pruning.hpp"
#include "policy/context/row_edits.hpp"
#include "policy/media.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

// A notice in the place of less than this is not worth it: a photo that stands as an address, a result of a few words.
constexpr std::int64_t least_media = 256, least_result = 128;

// `details` of a result are the program's own: no model is sent them.
std::int64_t bytes_of(const Row& row) {
  const Entry& entry = row.entry;
  const bool is_result = entry.role == Role::tool && !entry.results.empty() && entry.results.front().part.empty();
  const std::size_t details = is_result ? json::find(entry.message, "details").value_or("").size() : 0;
  return static_cast<std::int64_t>(policy::inlined_bytes(entry.message) - details);
}

class ByteLimit {
 public:
  ByteLimit(Rows& rows, std::int64_t most, std::int64_t& bytes, std::int64_t& used, const PruningSettings& settings)
      : rows_(rows), most_(most), bytes_(bytes), used_(used), settings_(settings), tools_(rows.all) {}

  bool is_kept() const { return bytes_ <= most_; }

  void clear_media_of(std::size_t at) {
    Row& row = rows_.all[at];
    if (row.is_asked || is_excluded(row)) return;
    std::int64_t saved = 0;
    change(row, [&] {
      clear_media(rows_, row, [&](const Media& media) {
        if (media.saved < least_media || bytes_ - saved <= most_) return false;
        saved += media.saved;
        pruned_.push_back(
            {.row = at, .entry_id = row.id, .media = media.kind, .from = media.bytes, .to = 0, .how = "bytes"});
        return true;
      });
    });
  }

  void clear_results_of(std::size_t at) {
    Row& row = rows_.all[at];
    if (row.is_asked) return;
    std::vector<NewText> changes;
    std::int64_t saved = 0;
    for (std::size_t index = 0; index < row.entry.results.size() && bytes_ - saved > most_; ++index) {
      const ToolResult& result = row.entry.results[index];
      const auto shorter = static_cast<std::int64_t>(policy::inlined_bytes(result.content)) -
                           static_cast<std::int64_t>(cleared_result.size() + 30);  // with the part around it
      std::string tool = tools_.of(result);
      if (shorter < least_result || excludes(settings_, tool)) continue;
      saved += shorter;
      changes.push_back({.result = index, .text = std::string(cleared_result), .keeps_others = false});
      pruned_.push_back({.row = at,
                         .entry_id = row.id,
                         .tool = std::move(tool),
                         .from = text_points(result.content),
                         .to = static_cast<std::int64_t>(cleared_result.size()),
                         .how = "bytes"});
    }
    if (!changes.empty()) change(row, [&] { set_texts(rows_, row, changes); });
  }

  std::vector<Pruned> take_pruned() { return std::move(pruned_); }

 private:
  bool is_excluded(const Row& row) {
    return std::ranges::any_of(row.entry.results,
                               [this](const ToolResult& result) { return excludes(settings_, tools_.of(result)); });
  }
  template <class Change>
  void change(Row& row, Change change) {
    const std::int64_t bytes = bytes_of(row), tokens = row.entry.tokens;
    change();
    bytes_ -= bytes - bytes_of(row);
    used_ = std::max<std::int64_t>(used_ - (tokens - row.entry.tokens), 0);
  }

  Rows& rows_;
  const std::int64_t most_;
  std::int64_t& bytes_;
  std::int64_t& used_;
  const PruningSettings& settings_;
  ToolNames tools_;
  std::vector<Pruned> pruned_{};
};

}  // namespace

std::int64_t bytes_of(const std::vector<Row>& rows) {
  std::int64_t bytes = 0;
  for (const Row& row : rows) bytes += bytes_of(row);
  return bytes;
}

std::vector<Pruned> keep_within(Rows& rows, std::size_t first, std::size_t last, std::int64_t most, std::int64_t& bytes,
                                std::int64_t& used, const PruningSettings& settings) {
  ByteLimit limit(rows, most, bytes, used, settings);
  for (std::size_t at = first; at < last && !limit.is_kept(); ++at) limit.clear_media_of(at);
  for (std::size_t at = first; at < last && !limit.is_kept(); ++at) limit.clear_results_of(at);
  return limit.take_pruned();
}

}  // namespace sessiond::context
