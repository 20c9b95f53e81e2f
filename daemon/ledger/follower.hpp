// Follows foreign programs: what they do to sessions.json, and the lines that they append to transcripts, become
// commits. inotify says where to look; whatever it says, all is looked at when store.cacheTtlMs is over, one stat a
// file. Thread: the loop.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/ledger/agents.hpp"
#include "daemon/ledger/watch.hpp"
#include "transcripts/counts.hpp"

namespace sessiond::ledger {

class Follower {
 public:
  // `adopting` becomes false when everything was looked at once.
  Follower(LedgerEnv& env, Commits& commits, Notices& notices, Agents& agents, TranscriptFlusher& flusher,
           TranscriptReaders& readers, std::atomic<bool>& adopting);

  // Has inotify watch the agent's folder, and looks at what happened there before.
  void watch(Agent& agent);
  // Looks at the agent's store again and again, as long as following.look_at says so.
  void look_again(Agent& agent);
  // A transcript was touched: looks at it in a moment.
  void follow(const std::string& agent, const std::string& file);
  // Publishes what foreign programs put into these transcripts (no name: into any), and logs what fails.
  asio::awaitable<void> publish_foreign_lines(std::string id, std::set<std::string> files);
  // The same for one transcript, until every line in it is the daemon's own or published.
  asio::awaitable<Result<void>> publish(std::string id, std::string file);
  // Counts the transcripts of a session that an older daemon or a foreign program has counted (transcripts/counts.hpp),
  // and commits it. A transcript that is refused until a person has changed something counts as empty. session_busy if
  // they change all the time.
  asio::awaitable<Result<void>> put_counts_right(std::string id, std::string key);
  // The same in the background, if it has to be done. Whoever reads a transcript does not wait for it.
  void put_counts_right_soon(const std::string& id, const decide::Session& session);
  // Notes in the background which transcripts of topics and streams are missing.
  void note_missing_soon(const std::string& id) { env_.background.run(note_missing(id), "note_missing"); }
  // Looks at all agents, when that is due.
  void check_all_if_due();
  void tell_news(const TranscriptNews& news);
  void stop();

  const std::string& unwatched() const { return unwatched_; }            // why not all folders are watched
  const std::set<std::string>& databases() const { return databases_; }  // where sessions are that are not served

 private:
  bool take_watched(const Result<bool>& added);
  void on_inotify(Watch::Changes changes);
  bool is_as_flushed(const std::string& id, const std::string& file) const;
  void mark_suspect(const std::string& id);
  asio::awaitable<void> reload_in_background(std::string id);
  asio::awaitable<void> keep_looking(std::string id);
  asio::awaitable<void> check_all_agents();
  asio::awaitable<void> check_agent(std::string id, std::set<std::string> files);
  void set_databases(const std::vector<std::filesystem::path>& found);
  asio::awaitable<Result<std::vector<transcripts::ForeignEdit>>> foreign_edits(std::string id,
                                                                               std::set<std::string> files);
  asio::awaitable<Result<void>> publish_lines(std::string id, std::string file);
  asio::awaitable<Result<transcripts::Counts>> count(std::string id, std::vector<std::string> files);
  asio::awaitable<Result<bool>> publish_uncounted(std::string id, std::vector<std::string> files);
  asio::awaitable<void> put_counts_right_in_background(std::string id, std::string key);
  asio::awaitable<void> note_missing(std::string id);
  asio::awaitable<void> tell_renumbered(std::string id, std::string file, std::uint64_t from);

  LedgerEnv& env_;
  Commits& commits_;
  Notices& notices_;
  Agents& agents_;
  TranscriptFlusher& flusher_;
  TranscriptReaders& readers_;
  std::atomic<bool>& adopting_;
  Watch watch_;
  std::string unwatched_{};
  std::string still_unwatched_{};                             // the same, in this round of looking at all
  std::map<std::string, std::set<std::string>> to_follow_{};  // transcripts that were touched, by agent
  std::set<std::string> databases_{};                         // Paths::databases, as of the last look
  bool follow_scheduled_ = false;
  asio::steady_timer follow_timer_;
  std::set<asio::steady_timer*> pauses_{};  // of keep_looking
  bool looking_everywhere_ = false;
  bool everywhere_wanted_ = false;
  std::int64_t next_look_ = 0;  // steady ms
};

}  // namespace sessiond::ledger
