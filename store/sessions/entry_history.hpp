// Earlier versions of the entries of one store.
//
// A foreign program that writes without the lock, or that was stopped while it held the lock, writes what it read long
// before. Compared with the current version, it seems to undo our changes. Compared with the version that it started
// from, only its own change remains. Kept are 10 minutes and 16 MiB; an older version is taken for the newest one.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/sessions/sessions_file.hpp"

namespace sessiond::sessions {

class EntryHistory {
 public:
  static constexpr std::chrono::minutes longest{10};
  // Remembers the entries of `before` that differ in `after`, the foreign version that replaced it just now.
  void replaced(const std::vector<NamedEntry>& before, const std::vector<NamedEntry>& after);
  // Remembers the entries of `base` that our `changes` replaced.
  void changed(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& changes);
  // Tells that a foreign program may still write a version that it read before now. An entry that is made from now on
  // and is missing in that version was not deleted by it.
  void distrust();

  // As diff_stores, but against the versions from which `theirs` was made.
  ForeignChange diff(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& theirs) const;

 private:
  struct Version {
    std::uint64_t until = 0;  // the generation that replaced it
    RawEntry entry;           // null: there was none
    bool by_us = false;       // we replaced it
  };
  struct Kept {
    std::string key;
    std::size_t bytes;
    std::chrono::steady_clock::time_point time;
  };

  void remember(const std::string& key, RawEntry entry, bool by_us);
  void begin_generation();
  void forget_oldest();
  const Version* origin(std::string_view key, const RawEntry& base, const RawEntry& theirs) const;
  bool was_absent_since(std::string_view key, std::uint64_t generation) const;

  std::unordered_map<std::string, std::deque<Version>> versions_;  // the oldest first
  std::deque<Kept> order_;                                         // of all, the oldest first
  std::size_t bytes_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t distrusted_from_ = UINT64_MAX;
  std::chrono::steady_clock::time_point distrusted_at_{};
};

}  // namespace sessiond::sessions
