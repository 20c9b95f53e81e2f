#include "daemon/api/transcript_names.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>

#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

// A folder's time moves in steps of some ms: what changed this recently may change again without a sign of it.
constexpr std::int64_t settled_ns = 2'000'000'000;

}  // namespace

const TranscriptNames::Listed* TranscriptNames::listed(const std::filesystem::path& folder) {
  const auto status = store::stat_of(folder);
  static const Listed nothing;
  if (!status) return &nothing;
  const std::int64_t changed = store::identity(*status).mtime_ns;
  const auto known = folders_.find(folder.native());
  if (known != folders_.end() && known->second.changed_ns == changed) return &known->second;
  const std::int64_t now = store::unix_ms() * 1'000'000;
  if (changed > now - settled_ns) return nullptr;
  Listed fresh{.changed_ns = changed};
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error))
    fresh.names.push_back(std::hash<std::string>{}(at->path().filename().native()));
  if (error) return nullptr;
  std::ranges::sort(fresh.names);
  return &folders_.insert_or_assign(folder.native(), std::move(fresh)).first->second;
}

std::vector<std::string> TranscriptNames::found(const std::vector<std::filesystem::path>& folders,
                                                const std::vector<std::string>& ids) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const std::filesystem::path& folder : folders) {
    const Listed* names = listed(folder);
    for (const std::string& id : ids) {
      const std::string file = store::transcript_file(id, "");
      if (names != nullptr && !std::ranges::binary_search(names->names, std::hash<std::string>{}(file))) continue;
      if (store::stat_of(folder / file)) out.push_back(id);
    }
  }
  return out;
}

}  // namespace sessiond::api
