#include "daemon/search/query.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/search/grams.hpp"
#include "store/utf8.hpp"

namespace sessiond::search {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

Result<Words> Words::parse(std::string_view query) {
  if (query.size() > most_query_bytes)
    return fail(Code::bad_request, fmt::format("q has more than {} bytes", most_query_bytes));
  if (store::invalid_utf8(query)) return fail(Code::bad_request, "q is not UTF-8");
  if (query.contains('\0')) return fail(Code::bad_request, "q has a NUL");
  Words words;
  for (std::size_t at = 0; at < query.size();) {
    if (is_space(query[at])) {
      ++at;
      continue;
    }
    std::string_view word;
    if (query[at] == '"') {
      const std::size_t end = std::min(query.find('"', at + 1), query.size());
      word = query.substr(at + 1, end - at - 1);
      at = std::min(end + 1, query.size());
    } else {
      std::size_t end = at;
      while (end < query.size() && !is_space(query[end]) && query[end] != '"') ++end;
      word = query.substr(at, end - at);
      at = end;
    }
    if (!word.empty()) words.words_.push_back(store::fold_case(word));
  }
  if (words.words_.empty()) return fail(Code::bad_request, "q has no word to search for");
  if (words.words_.size() > most_words)
    return fail(Code::bad_request, fmt::format("q has more than {} words", most_words));
  for (const std::string& word : words.words_)
    for (const std::string_view gram : grams_of(word)) words.grams_.emplace_back(gram);
  return words;
}

bool Words::in(std::string_view folded) const {
  return std::ranges::all_of(words_, [folded](const std::string& word) { return folded.contains(word); });
}

std::string Words::snippet(std::string_view text) const {
  // Folding keeps the number of code points, so the word is found by it.
  const std::string folded = store::fold_case(text);
  std::size_t first = folded.size();
  std::size_t length = 0;
  for (const std::string& word : words_) {
    const std::size_t at = folded.find(word);
    if (at == std::string::npos || at >= first) continue;
    first = at;
    length = store::count_code_points(word);
  }
  const std::size_t before =
      first == folded.size() ? 0 : store::count_code_points(std::string_view(folded).substr(0, first));
  const std::size_t room = snippet_points > length ? snippet_points - length : 0;
  const std::size_t from = before > room / 2 ? before - room / 2 : 0;
  std::string_view part = text.substr(store::code_points_end(text, from));
  const std::size_t end = store::code_points_end(part, std::max(snippet_points, length));
  std::string out = from > 0 ? "…" : "";
  for (const char c : part.substr(0, end)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  if (end < part.size()) out += "…";
  return out;
}

}  // namespace sessiond::search
