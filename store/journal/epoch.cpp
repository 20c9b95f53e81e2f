#include <fmt/format.h>

#include <algorithm>

#include "store/files.hpp"
#include "store/journal/recovery.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::journal {
namespace {

constexpr std::size_t epoch_digits = 8;

bool valid_epoch(std::string_view text) {
  return text.size() == epoch_digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

bool Epoch::accepts(const Hole& hole) const {
  return std::ranges::any_of(holes, [&](const Hole& lost) { return lost.from <= hole.from && hole.to <= lost.to; });
}

std::string mint_epoch() { return store::random_hex(epoch_digits); }

std::optional<Epoch> load_epoch(const std::filesystem::path& dir) {
  const auto text = store::read_file(dir / "EPOCH");
  if (!text || !json::check(*text)) return std::nullopt;
  const auto minted = json::string_at(*text, "epoch");
  if (!minted || !valid_epoch(*minted)) return std::nullopt;
  Epoch epoch{.epoch = *minted};
  for (const auto& [from, to] : json::pairs_at(*text, "holes")) epoch.holes.push_back({.from = from, .to = to});
  return epoch;
}

Result<void> save_epoch(const std::filesystem::path& dir, const Epoch& epoch) {
  std::string holes;
  for (const auto& [from, to] : epoch.holes) holes += fmt::format("{}[{},{}]", holes.empty() ? "" : ",", from, to);
  return store::replace_file(dir / "EPOCH", fmt::format("{{\"epoch\":\"{}\",\"holes\":[{}]}}\n", epoch.epoch, holes));
}

}  // namespace sessiond::journal
