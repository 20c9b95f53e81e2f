// What the index is made from beside the journal: sessions, archives and transcripts, as the ledger has them. Called on
// the index's thread, which waits for the network thread and for disk threads. Once `stop` is true every call
// fails (draining).
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::search {

struct KnownSession {
  std::string key{}, session_id{}, channel{}, name{}, label{};
  std::int64_t created_at = 0;
  bool archived = false;                                     // by its mark
  std::vector<std::pair<std::string, std::string>> files{};  // by topic: "" for its own transcript
  std::uint64_t as_of = 0;  // the journal's end before it was asked: what came after it may be in `files` or not
};
struct KnownArchive {
  std::string key{}, session_id{}, channel{}, topic{}, file{};  // topic: "" of its session's own transcript
};

class Source {
 public:
  // `stop` outlives the source.
  Source(ledger::Ledger& ledger, const std::atomic<bool>& stop) : ledger_(ledger), stop_(stop) {}
  // Fails once `stop` is true. Loops that work on what was read ask this, so that they end soon.
  Result<void> check_goes_on() const;
  // Tells whether calls that were given up are still under way on the network thread. They hold strands of the disk
  // threads, so those may not go before.
  bool is_busy() const { return open_ > 0; }

  const journal::Journal& journal() const { return ledger_.parts().commits.journal(); }
  Result<std::vector<std::string>> agents();
  // The sessions with keys after `after`, some of them; empty: there are no more.
  Result<std::vector<KnownSession>> sessions(std::string agent, std::string after);
  Result<std::optional<KnownSession>> session(std::string agent, std::string key);
  Result<std::vector<KnownArchive>> archives(std::string agent);
  // A page of a transcript, from the entry `from` on, as people left what it tells, and which of its lines are copies.
  // An absent file has none. `name`: transcripts::transcript_name().
  struct Lines {
    transcripts::TranscriptPage page{};
    std::vector<transcripts::CopiedLines> copied{};
  };
  Result<Lines> lines(std::string agent, std::string file, std::string name, std::uint64_t from);

 private:
  template <class T>
  Result<T> ask(asio::awaitable<Result<T>> call);

  ledger::Ledger& ledger_;
  const std::atomic<bool>& stop_;
  std::atomic<int> open_{0};  // calls under way
};

}  // namespace sessiond::search
