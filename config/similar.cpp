#include "config/similar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "config/describe.hpp"

namespace sessiond::config {
namespace {

// Collects the pointers of all keys and groups. None of their names needs escaping.
class Pointers {
 public:
  std::vector<std::string> all;

  template <class Field, class Rule>
  void key(std::string_view name, const Field&, Rule, std::string_view) {
    all.push_back(fmt::format("{}/{}", group_, name));
  }
  template <class Body>
  void group(std::string_view name, std::string_view, Body body) {
    const std::string outer = group_;
    group_ = fmt::format("{}/{}", outer, name);
    all.push_back(group_);
    body();
    group_ = outer;
  }
  template <class Value, class Body>
  void optional_group(std::string_view name, const std::optional<Value>&, std::string_view text, Body body) {
    const Value defaults{};
    group(name, text, [&] { body(defaults); });
  }
  template <class Value, class Body>
  void named_groups(std::string_view name, const std::map<std::string, Value>&, TextRule, std::string_view text, Body) {
    group(name, text, [] {});
  }

 private:
  std::string group_;
};

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_' && c != '-') out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

constexpr std::size_t longest_name = 64;  // a longer name is no misspelt key

}  // namespace

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j + 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string suggestion(std::string_view unknown_pointer) {
  const std::size_t slash = unknown_pointer.rfind('/');
  const std::string_view group = unknown_pointer.substr(0, slash);
  const std::string name = folded(unknown_pointer.substr(slash + 1));
  if (name.size() > longest_name) return {};

  Pointers pointers;
  const Config defaults;
  describe(pointers, defaults);
  const std::string* best = nullptr;
  std::size_t best_cost = 1 + std::min<std::size_t>(2, name.size() / 3);
  for (const std::string& pointer : pointers.all) {
    const std::size_t at = pointer.rfind('/');
    const std::string known = folded(std::string_view(pointer).substr(at + 1));
    const bool neighbour = std::string_view(pointer).substr(0, at) == group;
    const std::size_t cost = distance(name, known);
    if ((neighbour || cost == 0) && cost < best_cost) {
      best = &pointer;
      best_cost = cost;
    }
  }
  return best == nullptr ? "" : fmt::format(", did you mean {}?", *best);
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::clamp<std::size_t>(word.size() / 2, 1, 2) + 1;
  for (const std::string& each : known) {
    const std::size_t away = distance(word, each);
    if (away < least) {
      least = away;
      best = each;
    }
  }
  return best;
}

}  // namespace sessiond::config
