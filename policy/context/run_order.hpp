// Puts a conversation in the order of its runs.
//
// A runner answers the words that it was handed. What people write meanwhile stands before the answer in the file, and
// is a question of its own: a model that is shown the file's order is asked it too early, and never answers it. So a
// word stands where it was handed to a run first. One that no run was handed, and that came while a run was under way,
// stands behind that run; one that waits in the queue comes last. Everything else keeps the file's order, and so do
// transcripts that tell of no run. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/view.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {

// Where words stand that are not where the file has them, and what is not shown.
struct Order {
  static constexpr std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
  struct Moved {
    std::uint64_t seq = 0;
    std::uint64_t before = end;  // the seq of the entry before which it stands
  };
  struct Stretch {
    std::uint64_t first = 0, last = 0;
  };
  std::vector<Moved> moved{};        // in the order in which they stand
  std::vector<Stretch> left_out{};   // in the file's order
  std::vector<std::string> words{};  // the ids of entries that runs were handed
};

// Which entries before a checkpoint of ours stay behind it. Programs that read in the file's order go by the member
// `firstKeptEntryId`. We go by these members of `details`; each is left out where it would say nothing else.
struct Kept {
  std::optional<std::string> first_shown{};  // id of the entry that is kept first, in the order of runs
  // ids of words that stay although they stand before it, and of the entry behind them that stands first in the file
  std::vector<std::string> words{};
  std::string first_behind_words{};
  std::vector<std::string> runs{};  // entries sessiond.input of runs that are under way where it stands

  // `checkpoint`: a JSON object. That of another program, which has no `firstShown`, keeps nothing beside its id.
  static Kept read(std::string_view checkpoint);
  void write(json::ObjectWriter& details) const;
  // Returns the details of a checkpoint, a JSON object, without these members.
  static std::string without(std::string_view details);
};

// One entry, as far as the order depends on it: a word of a person, or an entry about a run.
struct Mark {
  std::uint64_t seq = 0;
  std::string id{};
  bool person = false;
  std::shared_ptr<const RunNote> note{};
  std::vector<std::string> dropped{};  // Entry::dropped
};

// Nothing: the order does not depend on the entry.
std::optional<Mark> mark_of(const Line& line);

// `marks` in the file's order.
Order order_of(std::span<const Mark> marks, const OrderAsked& asked);

// Returns the entries of a path, given in the file's order, as they stand. None is left out.
std::vector<Order::Stretch> in_order(std::span<const Order::Stretch> path, const Order& order);

// Puts the entries of a conversation in order, and leaves out what is not shown: what the checkpoint has summarised,
// and, for the view of a run, what the run was not shown. Line::at and Line::is_input are set.
void put_in_order(Conversation& conversation, const OrderAsked& asked);

}  // namespace sessiond::context
