// The search: an index of what people, agents and tools said, kept behind the log by a thread of its own, and threads
// that look into it. Nothing waits for it: a write does not know of it, and an answer has what the index has. Its file
// is a projection: lost, damaged or of another version, it is made anew while the daemon serves.
//
// see() is called on the loop, find() too; the index's thread calls the loop for what it reads (source.hpp).
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/search/feed.hpp"
#include "daemon/search/file.hpp"
#include "daemon/search/finder.hpp"
#include "daemon/search/index.hpp"
#include "daemon/search/source.hpp"

namespace sessiond::search {

struct SearchOptions {
  bool enabled = true;
  bool in_memory = false;  // the index is no file: where what is stored must be encrypted
  std::string path{};
  bool own_folder = false;                   // nothing else lies there; elsewhere a file that is no index is left alone
  std::optional<std::uint64_t> max_bytes{};  // nothing: no bound
  std::uint64_t text_bytes = 1 << 20;
  std::int64_t timeout_ms = 2'000;
};

struct SearchStatus {
  bool enabled = false, whole = false;
  bool caught_up = false;  // it has what was in the journal when the daemon started
  std::string problem{};   // why it is behind; empty: nothing is wrong
  std::uint64_t position = 0, rows = 0, bytes = 0, rebuilds = 0;
};

class Search {
 public:
  Search(ledger::Ledger& ledger, SearchOptions options);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  void start();
  boost::asio::awaitable<void> stop();  // before the ledger stops

  // Notes an event that is durable, before anybody is told of it. The session's hits are left out until the index has
  // an event that takes something away.
  void see(const journal::Event& event);
  // A search under way, one of those that may be at once; destroying it ends it. too_many_requests: there are so many.
  Result<std::shared_ptr<void>> begin_search();
  boost::asio::awaitable<Found> find(std::shared_ptr<const Asked> asked, std::optional<Place> from,
                                     std::chrono::steady_clock::time_point deadline);
  // Returns whether a hit of an index that has events up to `position` may still be shown.
  bool is_current(const Hit& hit, std::uint64_t position) const;
  SearchStatus status() const;
  const SearchOptions& options() const { return options_; }

 private:
  struct Step {
    bool goes_on = true;                // false: the index is to be opened again
    std::chrono::milliseconds rest{0};  // before the next one
  };

  void see_copies(const journal::Event& event);
  void run();
  bool lacks_room();
  bool round(Index& index);
  Step work(Index& index);
  Step undo(Index& index, const Problem& problem);
  Result<void> read_on(Feed& feed, Index& index);
  bool tidy(Index& index, bool busy);
  bool note_state(Index& index);
  std::unique_ptr<Index> open();
  std::unique_ptr<Index> open(const std::string& name);
  void close_to_looks();
  void open_to_looks(const std::string& name);
  std::shared_ptr<const std::string> name_for_look(std::chrono::steady_clock::time_point deadline);
  void pause(std::chrono::milliseconds time);
  void say(std::string problem);
  void discard(const std::string& why, std::int64_t floor = 0);

  ledger::Ledger& ledger_;
  const SearchOptions options_;
  Source source_;
  IndexFile file_;
  Grams grams_{};
  boost::asio::thread_pool threads_{2};
  std::shared_ptr<std::size_t> searches_ = std::make_shared<std::size_t>(0);   // under way
  std::map<std::pair<std::string, std::string>, std::uint64_t> taken_away_{};  // agent and key: the last such event
  std::uint64_t distrusted_ = 0;  // hits of an index before this seq are not shown
  std::atomic<bool> damaged_{false}, stop_{false};
  std::atomic<bool> ended_{true};
  mutable std::mutex mutex_{};
  std::condition_variable wake_{};
  SearchStatus status_{};                      // mutex_
  std::shared_ptr<const std::string> name_{};  // mutex_: as SQLite opens the index; null: it is being opened
  std::int64_t floor_ = 0;                     // of the next index
  struct Reading {
    std::uint64_t at = 0;                                        // of the journal
    bool whole = false;                                          // all transcripts were read
    std::vector<std::string> unread{};                           // agents
    std::uint64_t at_start = 0;                                  // where the journal ended when the daemon started
  } reading_{};                                                  // this and floor_ are the index's thread's
  struct Merge {                                                 // of grams of purged texts
    std::chrono::steady_clock::time_point idle_at{}, busy_at{};  // of the next slice, without and with new events
    std::chrono::steady_clock::duration took{};
  } merge_{};              // the index's thread's
  std::jthread thread_{};  // last: it ends first
};

}  // namespace sessiond::search
