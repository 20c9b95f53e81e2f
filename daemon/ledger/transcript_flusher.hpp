// Brings durable commits into the transcripts behind the requests, and says which transcripts lag because a foreign
// program holds their lock or something else stands in their place. Commits gather for a moment, so that the strand of
// TranscriptFiles is woken for many at once; every look at the files hands them over first.
// Thread: the loop.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/decide/decision.hpp"
#include "daemon/ledger/notices.hpp"
#include "daemon/ledger/transcript_files.hpp"
#include "daemon/runtime/on_strand.hpp"

namespace sessiond::ledger {

class TranscriptFlusher {
 public:
  struct Locked {
    std::int64_t since = 0;  // steady ms
    std::string why{};       // what stands in its place; "": a foreign program holds its lock
  };
  // By path below the state directory.
  using AllLocked = std::map<std::string, Locked, std::less<>>;

  TranscriptFlusher(LedgerEnv& env, Notices& notices, const std::atomic<bool>& adopting);
  void on_news(std::function<void(TranscriptNews)> call) { on_news_ = std::move(call); }

  // Durable commits, in order, and how many bytes of journal they are. `at_once`: they rename files.
  void add(std::vector<journal::Commit> commits, bool at_once, std::uint64_t bytes);
  // Runs call(TranscriptFiles&) on the strand, behind everything that was added.
  template <class Call>
  asio::awaitable<std::invoke_result_t<Call&, TranscriptFiles&>> on_files(Call call) {
    hand_over();
    return runtime::on(files_, std::move(call));
  }
  // Writes the lines of one transcript that are durable by now, and those of all files with changes of messages.
  // lock_timeout when a foreign program holds its lock now.
  asio::awaitable<Result<void>> flush(std::string agent, std::string file);
  // Writes all of them in a moment.
  void flush_soon();
  // Waits until a transcript (file empty: every one of the agent) holds its durable lines; lock_timeout when its lock
  // cannot be had in time.
  asio::awaitable<Result<void>> wait_until_written(std::string agent, std::string file = {});
  // Writes and fsyncs everything, and saves how far each transcript is known.
  asio::awaitable<Result<void>> sync();
  // Notes that transcripts are known as they are: their lines are not published as those of a foreign program. On disk
  // when it returns.
  asio::awaitable<Result<void>> take_as_known(std::string agent, std::vector<std::string> files);
  // Lets a lock go that TranscriptFiles::hold() took.
  void release(const std::string& path);
  // An agent leaves memory.
  void unload(const std::string& agent);

  // Says whether a transcript whose path begins so lacks lines.
  bool is_locked(std::string_view beginning) const;
  // degraded when the decision appends to a transcript in whose place something else stands.
  Result<void> check_usable(const std::string& agent, const decide::Decision& decision) const;
  const AllLocked& locked() const { return locked_; }
  void set_locked(const LockedTranscripts& files);
  // Those of locked() that lack lines which the last start took from the journal: they may have been acknowledged.
  const std::set<std::string, std::less<>>& recovering() const { return recovering_; }
  void set_recovering(std::set<std::string, std::less<>> files) { recovering_ = std::move(files); }
  const TranscriptFacts& facts() const { return *facts_; }
  // The files, for recovery, before anything else is called.
  TranscriptFiles& before_first_call() { return files_.before_first_call(); }

 private:
  void hand_over();

  LedgerEnv& env_;
  Notices& notices_;
  std::shared_ptr<TranscriptFacts> facts_ = std::make_shared<TranscriptFacts>();
  runtime::OnStrand<TranscriptFiles> files_;
  std::function<void(TranscriptNews)> on_news_{};
  std::vector<journal::Commit> gathered_{};
  std::uint64_t gathered_bytes_ = 0;
  AllLocked locked_{};
  std::set<std::string, std::less<>> recovering_{};
  asio::steady_timer flush_timer_;
  bool flush_scheduled_ = false;
  runtime::Waiters flushed_{};
};

}  // namespace sessiond::ledger
