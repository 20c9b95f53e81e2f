// Maps from strings that can be searched with a string_view, without making a string first.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace sessiond::decide {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;
template <class Value>
using StringMultimap = std::unordered_multimap<std::string, Value, StringHash, std::equal_to<>>;
using StringSet = std::unordered_set<std::string, StringHash, std::equal_to<>>;

template <class Map, class Key>
void erase_pair(Map& map, const Key& key, const std::remove_pointer_t<typename Map::mapped_type>* value) {
  auto [from, to] = map.equal_range(key);
  for (auto at = from; at != to; ++at) {
    if (at->second == value) {
      map.erase(at);
      return;
    }
  }
}

}  // namespace sessiond::decide
