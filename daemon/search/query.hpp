// What a search asks for: words that must all occur in one text, without regard to case. "…" is a phrase, which may
// hold spaces; nothing else is syntax. A word is found anywhere in a text, also within another word, so that languages
// that put no spaces between words can be searched. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::search {

inline constexpr std::size_t most_words = 32;
inline constexpr std::size_t most_query_bytes = 1 << 10;
inline constexpr std::size_t snippet_points = 160;  // code points of a snippet, about

class Words {
 public:
  // bad_request: no word, too many, or too long.
  static Result<Words> parse(std::string_view query);

  // Tells whether all words occur in a text that fold_case() has folded.
  bool in(std::string_view folded) const;
  // The words' grams, all of which a text must have. Empty: no word has three code points, and texts are looked
  // through.
  const std::vector<std::string>& grams() const { return grams_; }
  // The part of a text around the first word, in one line, at most snippet_points long; … stands where it is cut.
  std::string snippet(std::string_view text) const;

 private:
  std::vector<std::string> words_{};  // folded
  std::vector<std::string> grams_{};
};

}  // namespace sessiond::search
