// Edits and deletions that came before their message: a platform may deliver them in any order. Each is kept for
// inbound.earlyChangeMs, and holds for the first message that comes under its platform's name (platform_message.hpp).
// One whose message does not come is told with message.change_lost.
//
// A token that does not see the whole agent changes only what it brings itself, and has room of its own: it never takes
// the place of what others keep. `apply` makes the book from the journal's events, and journal/early/<agent>.json keeps
// it (to_json). The file says which event it was made at. Not thread-safe: part of the agent's state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/string_map.hpp"
#include "store/journal/event.hpp"
#include "store/problem.hpp"

namespace sessiond::decide {

struct EarlyChange {
  std::string id{};
  std::string channel{}, account_id{}, peer{}, message_id{};  // as the platform names the message
  std::string author{};                                       // the id of who said it; empty: anybody
  bool deletes = false;                                       // else it is an edit
  std::optional<std::string> text{};
  std::string content{};  // raw JSON; exclusive with text
  bool mentioned = false;
  std::string actor{};             // the token that told it
  bool is_limited = false;         // that token does not see the whole agent
  std::int64_t at = 0, until = 0;  // ms since 1970
  std::int64_t age_at = 0;         // by the clock of ages

  // Of whom the room is: of the token, or of all tokens that see the whole agent ("").
  std::string owner() const { return is_limited ? actor : ""; }
  std::size_t bytes() const;  // of memory, about
};
// The data of message.change_early, and an element of the book's file.
std::string early_json(const EarlyChange& change);
EarlyChange read_early(std::string_view data);
// The data of message.change_taken and message.change_lost.
std::string early_name_json(const EarlyChange& change);

class EarlyChanges {
 public:
  static constexpr std::size_t most_of_conversation = 100;
  static constexpr std::size_t most = 10'000;
  static constexpr std::size_t most_bytes = 4 << 20;
  static constexpr std::size_t longest = 1 << 20;  // bytes of one; a longer one is not kept

  bool empty() const { return by_order_.empty(); }
  const EarlyChange* find(std::string_view id) const;  // null: it is not there
  // What a message takes that `actor` brings, the oldest first.
  std::vector<const EarlyChange*> of_message(const EarlyChange& message) const;
  // What is kept already of the same message by the same owner; null: nothing.
  const EarlyChange* same(const EarlyChange& change) const;
  // What has to go so that `next` can be kept: the oldest of its conversation, or of whoever keeps the most.
  std::vector<const EarlyChange*> without_room(const EarlyChange& next) const;
  std::vector<const EarlyChange*> all() const;

  // Takes in an event of this agent.
  void apply(const journal::Event& event);
  // Takes one out that a message in memory has taken: no event tells of it.
  void forget(std::string_view id);

  bool is_dirty() const { return dirty_; }
  void mark_dirty() { dirty_ = true; }
  // The text of that file, without a checksum. It then counts as unchanged.
  std::string to_json();
  // degraded: the text is not one of to_json().
  static Result<EarlyChanges> from_json(std::string_view text);

 private:
  struct Kept {
    EarlyChange change{};
    std::string name{}, conversation{};
  };
  using Orders = std::set<std::uint64_t>;
  struct Room {
    Orders orders{};
    std::size_t bytes = 0;
  };

  void put(EarlyChange change);
  void erase(std::uint64_t order);

  std::map<std::uint64_t, Kept> by_order_{};
  StringMap<std::uint64_t> by_id_{};
  StringMap<Orders> by_name_{}, by_conversation_{};
  std::map<std::string, Room, std::less<>> by_owner_{};
  std::size_t bytes_ = 0;
  std::uint64_t next_ = 1;
  std::uint64_t seq_ = 0;
  bool dirty_ = false;
};

}  // namespace sessiond::decide
