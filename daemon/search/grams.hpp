// The grams by which texts are found: each three neighbouring code points of a text (a trigram), and of each space the
// two code points before and behind it, with it ("ab cd"). A text that has a word or a phrase has all of its grams.
//
// The words of a language share common trigrams, and a phrase of common words has no rare one. Which two words stand
// beside each other is rare: so the spaces.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::search {

// Stands behind each text in FTS5, so that each code point begins a gram: a word of one or two code points is found by
// the grams that begin with it.
inline constexpr std::string_view end_marks = "\x03\x03";

// Returns the grams of a text that folded() has folded, in order, with those that come again. They are parts of it.
std::vector<std::string_view> grams_of(std::string_view folded);

// Knows how common grams are in the texts of the index, and so chooses which of them a search asks FTS5 for: a rare one
// leaves few texts to be compared, and its list in FTS5 is short.
//
// The numbers are estimates: they begin with the newest texts when an index is opened, and different grams may share a
// counter. A wrong one makes a search slower, never its results other.
class Grams {
 public:
  // Counts those of a text that folded() has folded. One thread; others may choose meanwhile.
  void count(std::string_view folded);
  // Returns what FTS5 is asked for: the rarest of `grams`, quoted and joined by spaces. "" of none.
  std::string choose(const std::vector<std::string>& grams) const;
  // Returns the same for words of one or two code points: that a gram begins with them. Those of one that many texts
  // have are left out: all grams that begin with them would be gathered. "" if none remains.
  std::string choose_beginnings(const std::vector<std::string>& words) const;

 private:
  using Counts = std::array<std::atomic<std::uint32_t>, 1 << 16>;
  double share(const Counts& counts, std::string_view part) const;  // of texts that have it

  Counts counts_{}, beginnings_{};  // of grams; of each code point, alone and with the next one
  std::atomic<std::uint32_t> texts_{0};
};

}  // namespace sessiond::search
