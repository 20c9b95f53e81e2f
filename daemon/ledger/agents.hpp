// The agents: those in memory, and the one way to show the state of one.
// Memory is ahead of the disk, and a state (or an absence) that was shown must not be taken back. So clients never hold
// a state: they give a function that makes the answer, and get the answer once all that it rests on is durable.
// Thread: the loop. A reference to an agent stays valid while the agent is in memory, has a turn or is waited for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/decide/foreign.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/notices.hpp"
#include "daemon/ledger/store_loading.hpp"
#include "daemon/ledger/transcript_readers.hpp"

namespace sessiond::ledger {

// The events that an answer depends on: all of the agent's, unless the call narrows it. A refusal depends on all.
class Seen {
 public:
  // `seq`: of the newest event that the state shows.
  explicit Seen(std::uint64_t seq) : seq_(seq) {}
  Seen(const Seen&) = delete;  // or a call could put another one in its place
  Seen& operator=(const Seen&) = delete;

  // Narrows the answer to this session, which was asked for by `key`. Found by another name, the answer also rests on
  // which keys do not exist, and is not narrowed.
  void only(const decide::Session& session, std::string_view key) {
    if (session.key() == key) seq_ = session.last_seq;
  }
  // The seq of the newest event that the answer may show.
  std::uint64_t seq() const { return seq_; }

 private:
  std::uint64_t seq_;
};

// Describes the files of an agent to an operator.
struct AgentFiles {
  std::uint64_t bytes = 0;  // of its sessions.json
  std::int64_t lag_ms = 0;  // since the oldest change that is not in it
  bool dirty = false;
};

class Agents {
 public:
  using States = std::vector<const decide::AgentState*>;
  using Map = std::map<std::string, std::shared_ptr<Agent>, std::less<>>;
  // Called back, for the parts that are made after this one.
  struct Hooks {
    std::function<void()> on_dirty{};                                   // an agent became dirty
    std::function<void(Agent&)> on_loaded{};                            // its folder may be new
    std::function<void(Agent&)> on_unsettled{};                         // following.look_at was set
    std::function<asio::awaitable<void>(std::string)> on_first_load{};  // since the start, and it is there
    // A foreign program made or changed this session of an agent; the change is committed, and may not be durable yet.
    std::function<void(const std::string&, const decide::Session&)> on_foreign{};
    std::function<asio::awaitable<void>(std::string)> publish_foreign_lines{};
    // Ends a run that a foreign program leaves behind. The agent has a turn.
    std::function<asio::awaitable<Result<void>>(std::string agent, decide::LeftRun)> end_left_run{};
    // The seq from which on durable archives may not be in their record yet.
    std::function<std::uint64_t(const std::string&)> archived_from{};
  };

  Agents(LedgerEnv& env, Commits& commits, Notices& notices, TranscriptFlusher& flusher, TranscriptReaders& readers,
         const std::atomic<bool>& adopting)
      : env_(env), commits_(commits), notices_(notices), flusher_(flusher), readers_(readers), adopting_(adopting) {}
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

  // See Ledger::show and show_all.
  template <class Call>
  asio::awaitable<std::invoke_result_t<Call&, const decide::AgentState&, Seen&>> show(std::string id, bool fresh,
                                                                                      Call call);
  ~Agents();
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;
  template <class Call>
  asio::awaitable<std::invoke_result_t<Call&, const States&, Seen&>> show_all(std::vector<std::string> ids, bool fresh,
                                                                              Call call,
                                                                              std::vector<std::string>* degraded);
  // Lists the agents on disk and those that are durable but not on disk yet, sorted.
  asio::awaitable<std::vector<std::string>> ids();

  Agent& find_or_add(const std::string& id);
  const Map& all() const { return agents_; }
  // Waits until the agent is in memory. agent_not_found when it does not exist and `create` is false; degraded.
  asio::awaitable<Result<void>> load(std::string id, bool create);
  // Looks at sessions.json, and commits what foreign programs changed.
  asio::awaitable<Result<void>> reload_if_changed(std::string id);
  // Waits until nothing else is done with the agent.
  asio::awaitable<TurnGuard> take_turn(std::string id, Turn what);
  // Commits what foreign programs changed. The agent has a turn, so that the file is not written before. `at_load`: the
  // state is the store as we left it.
  asio::awaitable<Result<void>> merge_foreign(std::string id, sessions::ForeignChange change, bool at_load = false);
  // Commits::stage, and the agent becomes dirty.
  std::uint64_t stage(decide::AgentState& state, decide::Decision& decision, std::vector<answers::Answer> answers = {});
  void mark_dirty(Agent& agent);
  // Has the agent's store looked at again after so long (SessionsFile::look_again_in); nothing: it is settled.
  void look_again(Agent& agent, std::optional<std::chrono::milliseconds> in);
  // Marks the agent's store as unusable; logs and announces it once. Returns the problem to answer.
  Problem degrade(Agent& agent, const Problem& why);
  // Unloads an agent; at the next unload_idle() if it changed after `seq`, has changes that its files do not hold, or
  // something is done with it. Not if it is used meanwhile.
  void unload(const std::string& id, std::uint64_t seq);
  // Unloads agents that were not used for longer than the TTL. Of those that stay, releases some of the transcripts
  // that were not: a slice in each call, the longest unused first.
  void unload_idle(std::uint64_t seq);
  // Takes an agent out of memory after a failed batch. False: it was not in memory.
  asio::awaitable<bool> forget(std::string id);

 private:
  // Valid until the next co_await. at_hand: null when the agent has to be loaded or looked at first.
  const decide::AgentState* at_hand(std::string_view id);
  asio::awaitable<Result<const decide::AgentState*>> get(std::string id, bool fresh);
  asio::awaitable<Result<Loaded>> read(std::shared_ptr<Agent> agent);
  asio::awaitable<Result<void>> install(std::string id, Loaded loaded);

  LedgerEnv& env_;
  Commits& commits_;
  Notices& notices_;
  TranscriptFlusher& flusher_;
  TranscriptReaders& readers_;
  const std::atomic<bool>& adopting_;
  Hooks hooks_{};
  Map agents_{};
  runtime::OneByOne big_loads_{};  // of big stores
};

// Describes an agent's files. All zero for an agent that is not known.
AgentFiles files_of(const Agents& agents, std::string_view id);
bool is_in_memory(const Agents& agents, std::string_view id);
std::set<std::string> all_in_memory(const Agents& agents);

}  // namespace sessiond::ledger
