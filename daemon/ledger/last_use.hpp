// The order in which transcripts were last used, so that the longest unused ones are found at the cost of these alone,
// however many there are. Thread: the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sessiond::ledger {

class LastUse {
 public:
  // `now` must not go back.
  void touch(const std::string& agent, const std::string& file, std::int64_t now) {
    name_.assign(agent).append("/").append(file);
    const auto [at, added] = places_.try_emplace(name_);
    if (added) {
      at->second = order_.insert(order_.end(), {.agent = agent, .file = file, .at = now});
      return;
    }
    at->second->at = now;
    order_.splice(order_.end(), order_, at->second);
  }
  // Takes out what was not used after `before`, the longest unused first: pairs of an agent and a file, `most` at most.
  std::vector<std::pair<std::string, std::string>> take_idle(std::int64_t before, std::size_t most) {
    std::vector<std::pair<std::string, std::string>> idle;
    while (!order_.empty() && order_.front().at <= before && idle.size() < most) {
      Used& first = order_.front();
      places_.erase(first.agent + '/' + first.file);
      idle.emplace_back(std::move(first.agent), std::move(first.file));
      order_.pop_front();
    }
    return idle;
  }

 private:
  struct Used {
    std::string agent;
    std::string file;
    std::int64_t at;
  };
  std::string name_{};       // of the one that is touched: its memory is used again
  std::list<Used> order_{};  // the longest unused first
  std::unordered_map<std::string, std::list<Used>::iterator> places_{};
};

}  // namespace sessiond::ledger
