// Finds what a model's view of a transcript needs without reading the rest: where branches begin, the system messages,
// the checkpoints, how full the window is (policy/context/meter.hpp), and which messages were changed later.
//
// The entries of a transcript form a tree by `parentId`. A model is shown the path from the first entry to the leaf,
// which is the last entry of the file. Nearly always each entry's parent is the one before it, so a path is a few spans
// of seqs. An entry whose parent is not in the file follows the one before it: nothing is lost by a damaged line.
//
// Made the first time that it is needed, by a pass that parses every line once, and extended when the file grows. Kept
// over a restart in a sidecar of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/meter.hpp"
#include "store/problem.hpp"
#include "store/try.hpp"
#include "transcripts/changes.hpp"
#include "transcripts/sidecar.hpp"

namespace sessiond::transcripts {

// The messages of a transcript, on all its branches, without summaries.
struct MessageCounts {
  std::uint64_t users = 0, assistants = 0, tools = 0;
  std::optional<std::uint64_t> first{}, last{};  // seqs

  std::uint64_t all() const { return users + assistants + tools; }
};

struct Landmarks {
  // An entry that does not follow the one before it.
  struct Branch {
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();           // a path begins here
    static constexpr std::uint64_t not_there = std::numeric_limits<std::uint64_t>::max() - 1;  // follows the one before
    std::uint64_t seq = 0;
    std::uint64_t parent = none;  // seq
  };
  // A branch whose parent has not been looked for yet: its place in `branches`, and the id of the parent.
  struct Unresolved {
    std::size_t branch = 0;
    std::string parent{};
  };

  Covered covered{};
  std::uint64_t lines = 0;  // entries in the covered part
  std::string last_id{};    // of the last readable one
  std::vector<Branch> branches{};
  std::vector<Unresolved> unresolved{};
  std::vector<std::uint64_t> systems{};      // seqs of system messages
  std::vector<std::uint64_t> checkpoints{};  // seqs of compactions, and of messages that summarise
  Changes changes{};
  MessageCounts counts{};
  // Of the path to the last entry. Nothing: it has to be measured, because there was a branch or a checkpoint.
  std::optional<context::Meter> meter = context::Meter{};
  std::int64_t doom_count = 3;  // with which the meter counted

  std::uint64_t entries() const { return lines; }
  static std::optional<Landmarks> decode(std::string_view sidecar, std::uint64_t inode);
  void add(std::string_view line);
  // Looks for the parents of branches. Of several entries with a parent's id, the last one before the branch counts.
  // look(ids, take) calls take(id, seq) for the entries with these ids, of each id from the last one backwards until
  // it returns true.
  template <class Look>  // Result<void>(const std::vector<std::string>& ids, take)
  Result<void> resolve(Look look) {
    std::map<std::string_view, std::vector<Branch*>> open;  // by the parent's id; the last branch is last
    std::vector<std::string> ids;
    for (const Unresolved& one : unresolved) {
      branches[one.branch].parent = Branch::not_there;
      std::vector<Branch*>& waiting = open[one.parent];
      if (waiting.empty()) ids.push_back(one.parent);
      waiting.push_back(&branches[one.branch]);
    }
    TRY(look(ids, [&open](std::string_view id, std::uint64_t seq) {
      std::vector<Branch*>& waiting = open.find(id)->second;
      for (; !waiting.empty() && waiting.back()->seq > seq; waiting.pop_back()) waiting.back()->parent = seq;
      return waiting.empty();
    }));
    unresolved.clear();
    return {};
  }
  // Extends the landmarks from what is covered (at first from `first_entry`, where the header ends) to `end`, the end
  // of a line. Blocks.
  Result<void> scan(int fd, std::uint64_t first_entry, std::uint64_t end, std::string_view path);
};

std::string encode_sidecar(const Landmarks& landmarks, std::uint64_t inode);

}  // namespace sessiond::transcripts
