// The runs of an agent, by session: the active one, those that wait, the last ended ones (run.hpp). `apply` makes it
// from the journal's events, and journal/runs/<agent>.json keeps it (to_json). The file says which event it was made
// at, so that events which it already holds change nothing when they come again. Not thread-safe: part of the agent's
// state.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

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
  // Tells whether it has changed since the last to_json().
  bool is_dirty() const { return dirty_; }
  void mark_dirty() { dirty_ = true; }
  // The text of that file, without a checksum. The book then counts as clean.
  std::string to_json();
  // degraded: the text is not one of to_json().
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
  void finish(SessionRuns& runs, const std::string& key, const RunTold& told);
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
  bool dirty_ = false;
};

}  // namespace sessiond::decide
