// The words of a search. All of them must occur in one text, in any case. White space separates words. "…" is a phrase,
// which may hold spaces; nothing else is syntax. A word is found anywhere in a text, also within another word, so that
// languages that put no spaces between words can be searched. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::search {

inline constexpr std::size_t most_words = 32;
inline constexpr std::size_t most_query_bytes = 1 << 10;
inline constexpr std::size_t snippet_points = 200;  // code points of a snippet at most

// Returns a text as it is compared: with case folded, and each run of white space as one space.
std::string folded(std::string_view text);

// A part of a text in one line; … stands where it is cut.
struct Snippet {
  std::string text{};
  // Where words stand in it, in code points, in order and without overlaps.
  struct Range {
    std::size_t at = 0, length = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };
  std::vector<Range> ranges{};
};

class Words {
 public:
  // bad_request: no word, too many, a query that is too long, a control character, a quote that is not closed.
  static Result<Words> parse(std::string_view query);

  // Returns whether all words occur in a text that folded() has folded.
  bool in(std::string_view text) const;
  // The words' grams, all of which a text must have. Empty: no word has three code points.
  const std::vector<std::string>& grams() const { return grams_; }
  // The words of one or two code points. A text that has one has a gram that begins with it (grams.hpp).
  const std::vector<std::string>& short_words() const { return short_words_; }
  // The part of a text about the first word.
  Snippet snippet(std::string_view text) const;

 private:
  std::vector<Snippet::Range> ranges_in(std::string_view text, std::size_t offset) const;

  std::vector<std::string> words_{};  // folded
  std::vector<std::string> grams_{}, short_words_{};
};

}  // namespace sessiond::search
