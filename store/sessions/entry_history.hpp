// What the entries of one store were lately. Whoever replaces the file without the lock, or was stopped holding it
// until it was taken away, writes what he read long before: compared with the version he started from only his own
// change shows, and what we wrote since is not taken for something he undid. Bounded: 10 minutes and 16 MiB; what is
// older is compared with the newest version, as if he had read that.
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

namespace sessiond {

class EntryHistory {
 public:
  static constexpr std::chrono::minutes longest{10};
  // What `before` has otherwise than `after`, which took its place in the file just now.
  void replaced(const std::vector<NamedEntry>& before, const std::vector<NamedEntry>& after);
  // The same for a write of ours: `changes` go over `base`.
  void changed(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& changes);
  // From here on somebody may still write what he read before: entries made since and not in his version are not
  // entries that he deleted.
  void distrust();

  // diff_stores against the versions that `theirs` was made from.
  ForeignChange diff(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& theirs) const;

 private:
  struct Version {
    std::uint64_t until = 0;  // the generation that replaced it
    RawEntry entry;           // null: there was none
    bool by_us = false;       // which replaced it
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

}  // namespace sessiond
