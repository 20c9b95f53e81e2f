#include "policy/context/open_runs.hpp"

#include <algorithm>

namespace sessiond::context {

void OpenRuns::take(const RunNote& note) {
  const auto find = [this](const std::string& run) {
    return run.empty() ? open_.end() : std::ranges::find(open_, run, &Open::run);
  };
  auto own = find(note.run_id);
  if (own == open_.end()) own = find(note.retry_of);
  if (note.what == RunNote::What::record) {
    if (own == open_.end()) return;
    own->waits = note.retried;
    if (!note.retried) open_.erase(own);
    return;
  }
  if (note.beside_others) return;
  if (own != open_.end()) {
    *own = {.run = note.run_id};
    return;
  }
  std::erase_if(open_, [](const Open& open) { return !open.waits || open.overtaken; });
  for (Open& open : open_) open.overtaken = true;
  open_.push_back({.run = note.run_id});
}

}  // namespace sessiond::context
