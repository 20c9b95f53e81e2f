// Ephemeral sessions: their entries and messages live in the memory of this process, and end with it.
//
// They are decided and applied by the same code as all others (daemon/decide), on a state of their own for each agent,
// so nothing of them can reach the journal, a file, or what is made of files. Their events have no seq
// (LedgerEnv::on_passing_events). A key or session id is in one of the agent's two states only: Ledger::commit
// refuses to make one that the other state has, and an ephemeral session ends when a foreign program makes a durable
// one. All of them together take at most session.ephemeralBytes; the session that was changed longest ago makes room.
// Thread: the loop. Only fetch() waits: transcripts are parsed on disk threads.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/decision.hpp"
#include "daemon/ledger/commits.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/answers/answers.hpp"
#include "transcripts/memory_transcript.hpp"

namespace sessiond::ledger {

class MemorySessions {
 public:
  using Decide = std::function<Result<decide::Decision>(const decide::AgentState&, const decide::Context&,
                                                        const decide::FetchedLines&)>;

  MemorySessions(LedgerEnv& env, Commits& commits) : env_(env), commits_(commits) {}

  // The state of the agent's ephemeral sessions; null: it has none. Valid until the next commit.
  const decide::AgentState* of(std::string_view agent) const;
  // The same, if it has a session of this name: a key in any spelling, or a session id.
  const decide::AgentState* holding(std::string_view agent, std::string_view name) const;
  // Returns whether an ephemeral session has this name, or had it lately: a key in any spelling, or a session id.
  bool had(std::string_view agent, std::string_view name) const;
  bool is_unused() const { return agents_.empty() && gone_.empty(); }  // there is, and lately was, no ephemeral session
  std::vector<std::string> agents() const;                             // that have ephemeral sessions
  // Null: the session has no messages there. Valid until the next commit.
  const transcripts::MemoryTranscript* transcript(std::string_view agent, std::string_view file) const;
  const answers::Answer* find_answer(const answers::Digest& scope) const;
  std::uint64_t bytes() const;  // of memory that all of them take, about

  // Decides on the agent's ephemeral sessions. If Decision::need is set, it is to be fetched, and decided again.
  // storage_full if one session would take more than three quarters of session.ephemeralBytes; the other quarter is for
  // answers.
  struct Facts {
    decide::FetchedLines lines{};
    decide::FetchedIds ids{};
    decide::FetchedKept kept{};
  };
  Result<decide::Decision> decide(const std::string& agent, std::string_view actor, const Decide& call, Facts& facts);
  // Finds in the agent's transcripts what a decision needs. They may change meanwhile: the next decision may then need
  // it again.
  asio::awaitable<Result<void>> fetch(std::string agent, decide::Need need, Facts& facts);
  // Applies a decision that was made since the last commit, keeps the answers with its session, and publishes its
  // events.
  void apply(const std::string& agent, const decide::Decision& decision, std::vector<answers::Answer> answers);
  // Ends the agent's sessions that have the key or the session id of a durable one: of this one, or of any.
  void give_way(const std::string& agent, const decide::Session& durable);
  void give_way(const decide::AgentState& durable);

 private:
  struct Agent {
    explicit Agent(const std::string& id) : state(id) {}
    decide::AgentState state;
    std::map<std::string, transcripts::MemoryTranscript, std::less<>> transcripts{};  // by file
    std::map<std::string, std::uint64_t, std::less<>> run_bytes{};                    // by key
  };
  struct KeptAnswer {
    answers::Answer answer;
    std::string agent;
    std::string key;
  };
  decide::TranscriptEnd* end_of(std::string_view agent, const std::string& file, std::uint64_t bytes);
  std::uint64_t bytes_of(const Agent& agent, const decide::Session& session) const;
  void apply_event(Agent& agent, const decide::Change& event);
  void count_runs(Agent& agent, const std::string& key);
  void erase_transcript(Agent& agent, const std::string& file);
  void keep(answers::Answer answer, const std::string& agent, const std::string& key);
  void make_room();
  void remove_oldest();
  void remove(Agent& agent, const decide::Session& session, std::string_view reason);
  void forget_deleted();
  void note_gone(const std::string& agent, std::string_view name);

  LedgerEnv& env_;
  Commits& commits_;
  std::map<std::string, Agent, std::less<>> agents_{};
  std::map<answers::Digest, KeptAnswer> answers_{};  // by scope
  std::deque<answers::Digest> answer_order_{};       // the oldest first; also of answers that are gone
  std::set<std::string, std::less<>> gone_{};  // names of the last sessions that are gone: <agent>\n<folded key or id>
  std::deque<std::string> gone_order_{};       // the oldest first
  std::uint64_t line_bytes_ = 0;
  std::uint64_t run_bytes_ = 0;  // of runs, approvals and partial texts
  std::uint64_t answer_bytes_ = 0;
  std::uint64_t next_seq_ = 1;  // of their events, for the versions of entries; no client sees it
};

// Runs call(const MemoryTranscript&), which returns a Result, on a disk thread.
template <class Call>
asio::awaitable<std::invoke_result_t<Call&, const transcripts::MemoryTranscript&>> read_memory(
    const LedgerEnv& env, std::shared_ptr<const transcripts::MemoryTranscript> transcript, Call call) {
  const bool is_long = transcript->bytes() > short_pass;
  auto pass = runtime::run_on(
      env.disk.get_executor(),
      [transcript = std::move(transcript), call = std::move(call)]() mutable { return call(*transcript); });
  co_return co_await (is_long ? env.long_passes.run(std::move(pass)) : std::move(pass));
}

}  // namespace sessiond::ledger
