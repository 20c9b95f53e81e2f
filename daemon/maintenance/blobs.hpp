// Which sessions name a blob, and the removal of blobs that none names (mark and sweep).
//
// The names stand in the files: in transcripts, archives and their entries, and in sessions.json (policy/media.hpp says
// how). They are read from there once after a start, if there are blobs; events tell of new ones. A sweep reads them
// again, of the files that changed: it waits until the files hold all commits, finds out what they name, and removes
// what they do not, unless it was written or named within blobs.graceMs or is pinned (store/blobs/blob_store.hpp). It
// does nothing while a foreign program keeps lines from the transcripts, or while a backup is taken.
//
// A name says where a hash stood, not that the session is there still or that a token may see it: whoever answers asks
// the agent's state. Thread: the loop; files are read on a disk thread.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/config.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/one_by_one.hpp"
#include "store/blobs/blob_store.hpp"

namespace sessiond::maintenance {

// Where a hash stands.
struct BlobName {
  std::string agent{};
  std::string name{};     // a session id; of_entry: a key. Empty: in a file that is no session's, such as a log
  bool of_entry = false;  // in the session's entry
  friend auto operator<=>(const BlobName&, const BlobName&) = default;
};

struct Swept {
  std::uint64_t count = 0, bytes = 0;
  std::string skipped{};  // why nothing was looked at; empty: all was
};

class Blobs {
 public:
  Blobs(ledger::Ledger& ledger, const config::Config& config);  // blocks
  ~Blobs();

  blobs::BlobStore& store() { return *store_; }
  const std::shared_ptr<blobs::BlobStore>& shared_store() const { return store_; }

  asio::awaitable<void> count();  // how many blobs there are, after the start
  // Reads the names for the first time, if there are blobs. Later calls wait for the first.
  asio::awaitable<void> load();
  void activate() { active_ = true; }  // before a blob is stored. Any thread
  bool active() const { return active_; }
  // A durable event.
  void see(const journal::Event& event);
  // A session has a transcript that names the blob: of a commit whose events do not show it.
  void note(const std::string& hash, BlobName name);
  bool loaded() const { return loaded_; }  // else names_of() may not know all
  // Lists the places that name a blob.
  std::vector<BlobName> names_of(const std::string& hash) const;

  asio::awaitable<Swept> sweep();

  std::uint64_t swept() const { return swept_; }  // since the start

 private:
  struct Files;  // what is known of the files: changed on a disk thread, by one look at a time
  using Names = std::unordered_map<std::string, std::set<BlobName>>;
  asio::awaitable<bool> read_files();
  asio::awaitable<Swept> mark_and_sweep();

  ledger::Ledger& ledger_;
  const config::Config& config_;
  std::shared_ptr<blobs::BlobStore> store_;
  std::shared_ptr<Files> files_;
  Names names_{};
  std::vector<std::pair<std::string, BlobName>> since_{};  // named while the files are read
  bool reading_ = false;
  bool loaded_ = false;
  std::atomic<bool> active_;  // there are blobs, or may be: events are looked at
  runtime::OneByOne turn_{};
  std::uint64_t swept_ = 0;
};

}  // namespace sessiond::maintenance
