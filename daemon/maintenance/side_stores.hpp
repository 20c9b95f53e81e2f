// Counts what the logs and the streams of sessions take on disk, and finds folders that have transcripts and no
// sessions.json. Nobody keeps books of them: foreign programs write there too, and whole sessions go. So the files are
// listed on a disk thread.
//
// One count runs at a time, and all of them take at most a hundredth of a thread's time: when the last one took long,
// the next one begins later. A small store is counted every second. Thread: the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ledger/ledger.hpp"

namespace sessiond::maintenance {

struct FilesTaken {
  std::uint64_t count = 0, bytes = 0;
};
struct SideSizes {
  FilesTaken logs{}, streams{};          // with those of archived sessions
  std::vector<std::string> unindexed{};  // agents with transcripts and no sessions.json, at most limits::agents_told
};

class SideStores {
 public:
  explicit SideStores(ledger::Ledger& ledger);
  ~SideStores();  // ends a count that runs
  SideStores(const SideStores&) = delete;
  SideStores& operator=(const SideStores&) = delete;

  // Returns what the last count found, and begins another one if it is time. Nothing: the first one has not ended.
  std::optional<SideSizes> sizes();

 private:
  struct State;

  ledger::Ledger& ledger_;
  std::shared_ptr<State> state_;
};

}  // namespace sessiond::maintenance
