#include "daemon/search/grams.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "store/utf8.hpp"

namespace sessiond::search {
namespace {

constexpr std::size_t most_asked = 8;
// To fetch a text and to compare it takes about as long as this many steps in a list of FTS5.
constexpr double steps_of_a_text = 100;
// Grams of one word come together, so one more leaves at least this share of the texts.
constexpr double least_left = 0.1;
constexpr double most_share = 0.1;  // of the texts, where a word has one code point

std::size_t place(std::string_view gram) { return std::hash<std::string_view>{}(gram) & 0xFFFF; }

// Of a counter that one thread counts and others read: without the lock on the bus that fetch_add takes.
void increment(std::atomic<std::uint32_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

std::string quoted(std::string_view gram) {
  std::string out = "\"";
  for (const char c : gram) out.append(c == '"' ? 2 : 1, c);
  return out + '"';
}

}  // namespace

std::vector<std::string_view> grams_of(std::string_view folded) {
  std::vector<std::string_view> all;
  all.reserve(folded.size() + folded.size() / 4);
  std::array<std::size_t, 5> begins{};  // of the last code points, the newest first
  std::size_t count = 0;
  for (std::size_t at = 0; at < folded.size();) {
    std::ranges::copy_backward(begins.begin(), begins.end() - 1, begins.end());
    begins[0] = at;
    at += store::code_points_end(folded.substr(at), 1);
    ++count;
    if (count >= 3) all.push_back(folded.substr(begins[2], at - begins[2]));
    if (count >= 5 && folded[begins[2]] == ' ') all.push_back(folded.substr(begins[4], at - begins[4]));
  }
  return all;
}

void Grams::count(std::string_view folded) {
  for (const std::string_view gram : grams_of(folded)) increment(counts_[place(gram)]);
  for (std::string_view rest = folded; !rest.empty();) {
    const std::size_t one = store::code_points_end(rest, 1);
    for (const std::size_t end : {one, one + store::code_points_end(rest.substr(one), 1)})
      increment(beginnings_[place(rest.substr(0, end))]);
    rest.remove_prefix(one);
  }
  increment(texts_);
}

double Grams::share(const Counts& counts, std::string_view part) const {
  const double count = counts[place(part)].load(std::memory_order_relaxed);
  return std::min(1.0, (count + 1) / (texts_.load(std::memory_order_relaxed) + 20.0));
}

std::string Grams::choose(const std::vector<std::string>& grams) const {
  std::vector<std::pair<double, std::string_view>> rarest;
  rarest.reserve(grams.size());
  for (const std::string& gram : grams) rarest.emplace_back(share(counts_, gram), gram);
  std::ranges::sort(rarest);
  const auto same = std::ranges::unique(rarest);
  rarest.erase(same.begin(), same.end());
  std::string asked;
  double left = 1;  // the share of texts that have all grams so far
  std::size_t count = 0;
  for (const auto& [share, gram] : rarest) {
    // One more is worth its list when it spares more texts than that costs.
    if (count == most_asked || (count > 0 && left * (1 - share) * steps_of_a_text <= share)) break;
    if (count > 0) asked += ' ';
    asked += quoted(gram);
    left *= count++ == 0 ? share : std::max(share, least_left);
  }
  return asked;
}

std::string Grams::choose_beginnings(const std::vector<std::string>& words) const {
  std::string asked;
  for (const std::string_view word : words) {
    if (store::count_code_points(word) == 1 && share(beginnings_, word) > most_share) continue;
    asked += (asked.empty() ? "" : " ") + quoted(word) + '*';
  }
  return asked;
}

}  // namespace sessiond::search
