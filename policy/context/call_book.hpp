// Finds the call of each result, one entry after another. The view and the meter both use it, so they agree.
//
// A result belongs to the latest message before it that has a call of its id, in it to the first such call without a
// result. When all of them have one, a real result takes the place of one that was made (`synthetic`); any other result
// is a duplicate. What people say between a call and its result changes nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/entry.hpp"

namespace sessiond::context {

// A call whose result may still come: it has none, or one that was made.
struct KeptCall {
  std::string id{};
  std::string name{};
  Spelling spelling = Spelling::pi;
  std::uint64_t message = 0;  // the number of its message among those with calls
  std::size_t place = 0;      // among the calls of that message
  bool answered = false;      // by a result that was made
  std::int64_t counted = 0;   // tokens that the meter counts for its result, or for the lack of one
};

enum class Fate : std::uint8_t {
  answers,    // it is the result of a call that had none
  replaces,   // it takes the place of a result that was made
  duplicate,  // its call has a result
  orphan,     // no message before it has a call of its id
};

// How a result is shown, and its call.
struct Owner {
  Fate fate = Fate::orphan;
  std::uint64_t message = 0;
  std::size_t place = 0;
  std::int64_t counted = 0;  // KeptCall::counted before the result
  bool behind = false;       // the result stands behind its call already

  bool is_shown() const { return fate == Fate::answers || fate == Fate::replaces; }
};

// What became of an entry.
struct Taken {
  std::vector<Owner> owners{};  // of the entry's results, in order
  // The entry directly follows the message that made the calls, and stays as it is. Otherwise each of its results goes
  // behind its call, as a message with nothing else, and what else it has stays where it was.
  bool whole = false;

  bool answers_any() const { return std::ranges::any_of(owners, &Owner::is_shown); }
  // Returns whether anything of the entry is shown.
  bool shows(const Entry& entry) const { return entry.role != Role::tool || answers_any(); }
  // The tokens of what is shown.
  std::int64_t tokens(const Entry& entry) const;
};

class CallBook {
 public:
  // Calls beyond `most` are forgotten, the oldest first, and those with longer ids or names, in bytes.
  struct Limits {
    std::size_t most = std::numeric_limits<std::size_t>::max();
    std::size_t longest = std::numeric_limits<std::size_t>::max();
  };
  CallBook() = default;
  explicit CallBook(const Limits& limits) : limits_(limits) {}

  // Takes in the next entry: its results, then its calls.
  Taken take(const Entry& entry);

  // The calls without a result, in order; with `answered` those, too, whose result was made.
  std::vector<KeptCall> open(bool answered = false) const;
  // Returns whether a call without a result was made by that message with calls or a later one.
  bool has_open(std::uint64_t since = 0) const;
  std::uint64_t messages() const { return messages_; }  // with calls, until now
  bool follows() const { return follows_; }             // nothing that stays has followed the last of these
  bool is_cut() const { return forgot_ != 0; }          // a call was forgotten
  // Returns whether one was forgotten that this message with calls or a later one had made.
  bool forgot_since(std::uint64_t message) const { return forgot_ > message; }
  std::uint64_t forgot() const { return forgot_; }  // one more than the number of the last message with such a call
  // Restores follows() when the last entry is not shown after all. That entry has neither calls nor results.
  void follow(bool follows) { follows_ = follows; }

  // Calls change(KeptCall&) for each call.
  template <class Change>
  void each(Change change) {
    for (auto& [id, calls] : calls_) {
      std::ranges::for_each(calls.made, change);
      std::ranges::for_each(calls.open, change);
    }
  }
  // Makes a new book go on as an earlier one, by what open(true), messages(), follows() and forgot() of that returned.
  void resume(const std::vector<KeptCall>& open, std::uint64_t messages, bool follows, std::uint64_t forgot);

 private:
  // Of one id, in one message, in order.
  struct Calls {
    std::list<KeptCall> open{}, made{};  // without a result; with one that was made
    std::uint64_t message = 0;
  };

  Owner give(const ToolResult& result, bool made);
  void forget();

  Limits limits_{};
  // By id: those of the latest message with it. Not hashed: a client could choose ids whose hashes collide.
  std::map<std::string, Calls, std::less<>> calls_{};
  std::uint64_t messages_ = 0;
  bool follows_ = false;
  std::uint64_t forgot_ = 0;
};

}  // namespace sessiond::context
