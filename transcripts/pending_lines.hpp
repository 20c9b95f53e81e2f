// The lines of one transcript that wait to be written to its file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transcripts/placing.hpp"

namespace sessiond::transcripts {

struct PendingLines {
  struct Item {
    std::uint64_t offset = 0;
    std::size_t begin = 0;  // in bytes
    std::string id;
    std::optional<std::uint64_t> seq;
  };
  std::string bytes;
  std::vector<Item> items;
  bool contiguous = true;  // each line should begin where the one before it ends

  std::vector<PlacedLine> lines() const {
    std::vector<PlacedLine> all;
    all.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::size_t end = i + 1 < items.size() ? items[i + 1].begin : bytes.size();
      const auto line = std::string_view(bytes).substr(items[i].begin, end - items[i].begin);
      all.push_back({.offset = items[i].offset, .line = line, .id = items[i].id, .seq = items[i].seq});
    }
    return all;
  }
  std::optional<std::uint64_t> first_seq() const {
    std::optional<std::uint64_t> first;
    for (const Item& item : items)
      if (item.seq) first = std::min(first.value_or(*item.seq), *item.seq);
    return first;
  }
};

}  // namespace sessiond::transcripts
