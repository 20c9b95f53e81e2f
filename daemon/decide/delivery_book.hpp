// The deliveries of an agent: those that are not sent yet, in the order of each conversation, and the last ended ones.
// `apply` makes it from the journal's events, and journal/outbox/<agent>.log keeps it. Its records are
//   d <id>  how far a delivery is
//   t <id>  what never changes of it: what it sends, and where to. It is written once, and again when its text is
//           forgotten
// The ending says which event the book was written at, so that events which it already holds change nothing when they
// come again. Not thread-safe: part of the agent's state.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/decide/book_record.hpp"
#include "daemon/decide/delivery.hpp"
#include "store/problem.hpp"

namespace sessiond::decide {

class DeliveryBook {
 public:
  using All = std::map<std::string, Delivery, std::less<>>;

  const Delivery* find(std::string_view id) const;  // null: there is none, or it ended long ago
  const All& all() const { return all_; }           // by id
  // The newest delivery of a message (message_name). Null: it has none.
  const Delivery* find_of_message(std::string_view message) const;
  // Of a session's unsent deliveries that a bridge has claimed, the first of each conversation counting, one that
  // `is_it` says yes to. Null: none. Asks about 100 at most.
  const Delivery* find_under_way(std::string_view key, const std::function<bool(const Delivery&)>& is_it) const;
  // Returns whether a session has a delivery that is not sent yet.
  bool has_unsent(std::string_view key) const;
  // The delivery of each conversation of a session that may be handed out: its oldest unsent one, unless one of it is
  // leased. By order; a retry may still have to wait (next_at).
  const std::set<std::pair<std::uint64_t, std::string>>& heads() const { return heads_; }

  struct Counts {
    std::size_t pending = 0, leased = 0, failed = 0;  // failed: those that are alarming
    std::int64_t oldest = 0;                          // when the oldest unsent one was made; 0: there is none
  };
  Counts counts() const;

  // Takes in an event of this agent.
  void apply(const Change& change);

  // The last event that the book holds.
  std::uint64_t seq() const { return seq_; }
  // What the log does not have yet.
  Unwritten& unwritten() { return unwritten_; }
  const Unwritten& unwritten() const { return unwritten_; }
  // Moves changed records to `changes`, and the ending when these were the last. Returns whether they were.
  bool take_changes(BookChanges& changes, BookSlice most = {});
  // degraded: these are not a book's.
  static Result<DeliveryBook> from_records(std::span<const BookRecord> records, std::string_view ending);
  // The same of the text in which earlier versions wrote a book whole.
  static Result<DeliveryBook> from_json(std::string_view text);

 private:
  using Place = std::pair<std::uint64_t, std::string>;  // order and id
  struct Conversation {
    std::set<Place> unsent{};
    std::size_t leased = 0;
    std::optional<Place> head{};  // as heads_ has it
  };

  void put(Delivery delivery);  // a new one
  void change(const journal::Envelope& about, const DeliveryTold& told);
  void count(const Delivery& delivery, bool in);  // in the lists that its status says, or out of them
  void list_ended(const std::string& id);         // if it is; forgets the oldest beyond the limits
  // Those of a purged session: what was sent is forgotten. What was not tells its bridge that it was purged, and
  // belongs to no message any more.
  void forget_session(std::string_view key);
  void forget(const std::string& id);  // one that is in no list
  void limit_text();                   // of failed ones: the oldest lose theirs
  void set_head(const std::string& name);
  void note(const std::string& id);       // its state has changed
  void note_text(const std::string& id);  // `fixed` has changed
  BookRecord record(const std::string& name) const;
  void list_records();
  void put_read(std::vector<Delivery> deliveries);  // into an empty book

  All all_{};
  std::map<std::string, Conversation, std::less<>> conversations_{};  // that have unsent deliveries, by queue_of()
  std::map<std::string, std::string, std::less<>> by_message_{};      // ids
  std::set<Place> heads_{};
  std::set<std::pair<std::int64_t, std::string>> unsent_by_age_{};
  std::set<std::string, std::less<>> alarming_{};
  std::deque<std::string> ended_{};   // sent, dropped and purged ones, the newest last
  std::deque<std::string> failed_{};  // the others that failed
  std::size_t failed_bytes_ = 0;      // of what they keep
  std::size_t without_text_ = 0;      // the first so many of them have lost it
  std::size_t leased_ = 0;
  std::uint64_t seq_ = 0;
  Unwritten unwritten_{};
};

}  // namespace sessiond::decide
