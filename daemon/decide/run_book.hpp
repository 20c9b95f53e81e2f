// The runs of an agent, by session: the active one, those that wait, the last ended ones (run.hpp). `apply` makes it
// from the journal's events, and journal/runs/<agent>.log keeps it. Its records are
//   s <key>           the session's active run, what it has beside its runs, and the ids of those that wait, in order
//   q <key> <run id>  a run that waits
//   r <key> <run id>  a run that has ended, as the API shows it
//   f <key> <run id>  how its runner has finished it
// The ending has the fence floor. It also says which event the book was written at, so that events which it already
// holds change nothing when they come again. Not thread-safe: part of the agent's state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/decide/book_record.hpp"
#include "daemon/decide/events.hpp"
#include "daemon/decide/run.hpp"
#include "store/problem.hpp"

namespace sessiond::decide {

class RunBook {
 public:
  using Sessions = std::map<std::string, SessionRuns, std::less<>>;

  // The runs of a session with this key; null: it never had one.
  const SessionRuns* find(std::string_view key) const;
  const Sessions& sessions() const { return sessions_; }
  // The keys of the sessions with an active run.
  const std::set<std::string, std::less<>>& active() const { return active_; }
  // The keys of the sessions in which a person speaks in place of the agent.
  const std::set<std::string, std::less<>>& taken_over() const { return taken_over_; }
  // Returns whether a run is active or waits.
  bool has_open() const { return !active_.empty() || !waiting_.empty(); }
  // The fence that the next lease of a session gets.
  std::uint64_t next_fence(std::string_view key) const;
  // The sessions whose first queued run may be handed out: (createdAt of that run, key), the oldest first. Those with
  // an active run, or in which a person speaks, are not among them.
  const std::set<std::pair<std::int64_t, std::string>>& waiting() const { return waiting_; }

  // Takes in an event of this agent.
  void apply(const Change& change);
  // Sets how many ended runs of a session stay (runs.keep).
  void keep(std::uint64_t runs) { keep_ = runs; }

  // The last event that the book holds.
  std::uint64_t seq() const { return seq_; }
  // What the log does not have yet.
  Unwritten& unwritten() { return unwritten_; }
  const Unwritten& unwritten() const { return unwritten_; }
  // Moves changed records to `changes`, and the ending when these were the last. Returns whether they were.
  bool take_changes(BookChanges& changes, BookSlice most = {});
  // degraded: these are not a book's.
  static Result<RunBook> from_records(std::span<const BookRecord> records, std::string_view ending);
  // The same of the text in which earlier versions wrote a book whole.
  static Result<RunBook> from_json(std::string_view text);

 private:
  // Take in what an event says. They return false if it changes nothing here.
  bool take(const Change& change, const RunTold& told);
  bool take(const Change& change, const RunInputs& inputs);
  bool take(const Change& change, const RunProgress& progress);
  bool take(const Change& change, const RunnerTold& told);
  bool take(const Change& change, const DirectiveInjected& injected);
  bool take(const Change& change, const Approval& approval);
  bool take(const Change& change, const TakeoverTold& told);
  bool take(const Change& change, const HandbackTold& told);
  bool take(const Change& change, const MessageHeld& held);
  bool take(const Change& change, const HookTold& hook);
  bool take(const Change& change, const ShutdownTold& told);
  bool take(const Change& change, const SessionResumed& resumed);
  bool take(const Change& change, const MessageAppended& said);
  bool take(const Change& change, Raw said);
  template <class Other>
  bool take(const Change& /*change*/, const Other& /*said*/) {
    return false;
  }
  void start(SessionRuns& runs, const std::string& key, const RunTold& told);
  void finish(SessionRuns& runs, const Change& change, const RunTold& told);
  void forget_ended(const std::string& key, const EndedRun& run);  // it leaves the book
  void forget_lines_of(const SessionRuns& runs);
  void change_input(SessionRuns& runs, const journal::Event& event);
  void change_response(SessionRuns& runs, const std::string& key, std::string_view target,
                       const std::function<std::string()>& text);
  struct Indexes;
  BookRecord record(const std::string& name, Indexes& indexes) const;
  void list_records();
  void finish_reading();
  SessionRuns* find_mutable(const std::string& key);  // null if none
  void list_open(const std::string& key);             // in waiting_, active_ and taken_over_, as its runs are now

  Sessions sessions_{};
  std::set<std::pair<std::int64_t, std::string>> waiting_{};
  std::map<std::string, std::int64_t, std::less<>> waiting_since_{};  // by key, as in waiting_
  std::set<std::string, std::less<>> active_{};                       // keys of sessions with an active run
  std::set<std::string, std::less<>> taken_over_{};
  // No lease had a greater fence whose session is gone: a key that is made anew goes on from here.
  std::uint64_t fence_floor_ = 0;
  std::uint64_t seq_ = 0;
  std::uint64_t keep_ = 100;
  std::size_t ended_ = 0;  // runs, in all sessions
  Unwritten unwritten_{};
};

}  // namespace sessiond::decide
