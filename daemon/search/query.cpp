#include "daemon/search/query.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/search/grams.hpp"
#include "store/utf8.hpp"

namespace sessiond::search {
namespace {

// Returns the offset of a control character that is not white space; npos: there is none.
std::size_t control_in(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool high = byte == 0xC2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if ((byte < 0x20 || byte == 0x7F || high) && store::white_space(text, at) == 0) return at;
  }
  return std::string_view::npos;
}

Result<void> check_text(std::string_view query) {
  if (query.size() > most_query_bytes)
    return fail(Code::bad_request, fmt::format("q: has {} bytes; at most {}", query.size(), most_query_bytes));
  if (const auto at = store::invalid_utf8(query))
    return fail(Code::bad_request, fmt::format("q: is not UTF-8 at byte {}", *at));
  if (const std::size_t at = control_in(query); at != std::string_view::npos)
    return fail(Code::bad_request, fmt::format("q: has a control character at byte {}", at));
  return {};
}

}  // namespace

std::string folded(std::string_view text) { return store::fold_case(store::with_single_spaces(text)); }

Result<Words> Words::parse(std::string_view query) {
  TRY(check_text(query));
  Words words;
  for (std::size_t at = 0; at < query.size();) {
    if (const std::size_t space = store::white_space(query, at); space > 0) {
      at += space;
      continue;
    }
    std::string_view word;
    if (query[at] == '"') {
      const std::size_t end = query.find('"', at + 1);
      if (end == std::string_view::npos)
        return fail(Code::bad_request, fmt::format("q: the quote at byte {} is not closed", at));
      word = query.substr(at + 1, end - at - 1);
      at = end + 1;
    } else {
      std::size_t end = at;
      while (end < query.size() && store::white_space(query, end) == 0 && query[end] != '"') ++end;
      word = query.substr(at, end - at);
      at = end;
    }
    std::string wanted = folded(word);
    if (!wanted.empty() && wanted != " ") words.words_.push_back(std::move(wanted));
  }
  if (words.words_.empty()) return fail(Code::bad_request, "q: has no word to search for");
  if (words.words_.size() > most_words)
    return fail(Code::bad_request, fmt::format("q: has {} words; at most {}", words.words_.size(), most_words));
  for (const std::string& word : words.words_) {
    for (const std::string_view gram : grams_of(word)) words.grams_.emplace_back(gram);
    if (store::count_code_points(word) <= 2) words.short_words_.push_back(word);
  }
  return words;
}

bool Words::in(std::string_view text) const {
  return std::ranges::all_of(words_, [text](const std::string& word) { return text.contains(word); });
}

Snippet Words::snippet(std::string_view text) const {
  // Folding keeps the number of code points, so what is found in the folded line stands at the same place in the line.
  const std::string line = store::with_single_spaces(text);
  const std::string compared = store::fold_case(line);
  std::size_t first = compared.size();
  std::size_t length = 0;
  for (const std::string& word : words_) {
    const std::size_t at = compared.find(word);
    if (at == std::string::npos || at >= first) continue;
    first = at;
    length = store::count_code_points(word);
  }
  constexpr std::size_t most = snippet_points - 2;  // and two times …
  const std::size_t before =
      first == compared.size() ? 0 : store::count_code_points(std::string_view(compared).substr(0, first));
  const std::size_t room = (most > length ? most - length : 0) / 2;
  const std::size_t from = before > room ? before - room : 0;
  const auto cut = [from](std::string_view whole) {
    const std::string_view rest = whole.substr(store::code_points_end(whole, from));
    return rest.substr(0, store::code_points_end(rest, most));
  };
  const std::string_view shown = cut(line);
  Snippet snippet{.text = from > 0 ? "…" : ""};
  for (const char c : shown) snippet.text += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  if (shown.data() + shown.size() < line.data() + line.size()) snippet.text += "…";
  snippet.ranges = ranges_in(cut(compared), from > 0 ? 1 : 0);
  return snippet;
}

// Finds the words in the folded text of a snippet, which stands `offset` code points behind its beginning. A word that
// is cut at the end is marked as far as it is there.
std::vector<Snippet::Range> Words::ranges_in(std::string_view text, std::size_t offset) const {
  std::vector<std::pair<std::size_t, std::size_t>> found;  // bytes: first, end
  for (const std::string& word : words_) {
    for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
      found.emplace_back(at, at + word.size());
    if (word.size() > text.size() && word.starts_with(text)) found.emplace_back(0, text.size());
  }
  std::ranges::sort(found);
  std::vector<Snippet::Range> ranges;
  std::size_t at = 0;      // in bytes
  std::size_t points = 0;  // before it
  std::size_t end = 0;     // of the last range, in bytes
  const auto advance = [&](std::size_t to) {
    points += store::count_code_points(text.substr(at, to - at));
    at = to;
  };
  for (auto [from, to] : found) {
    from = std::max(from, end);
    if (from >= to) continue;
    advance(from);
    const std::size_t begin = points + offset;
    advance(to);
    const std::size_t behind = points + offset;
    if (!ranges.empty() && ranges.back().at + ranges.back().length == begin)
      ranges.back().length += behind - begin;
    else
      ranges.push_back({begin, behind - begin});
    end = to;
  }
  return ranges;
}

}  // namespace sessiond::search
