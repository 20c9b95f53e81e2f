// Content that several sessions may share, by its hash: blobs/sha256/<first 2 digits>/<hash>, 0600. A blob is on disk,
// with its folder, before put() returns, and so before the commit that names it. Nothing here knows who names a blob:
// maintenance finds that out, and removes what nobody names (daemon/maintenance/blobs.hpp).
//
// A request that is about to name a blob holds a Pin from before it looks for the blob until its commit is decided.
// remove() leaves alone what is pinned, what was pinned since begin_sweep(), and what was written or named lately: so
// a sweep and an append that names the blob again cannot miss each other.
//
// All calls block, but for pin(). Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::blobs {

std::string sha256_of(std::string_view bytes);  // 64 lower-case hex digits
bool is_hash(std::string_view text);

struct BlobTotals {
  std::uint64_t count = 0, bytes = 0;
};

class BlobStore {
 public:
  explicit BlobStore(const std::filesystem::path& state_dir);

  // Keeps a blob from being removed while it lives.
  using Pin = std::shared_ptr<const std::string>;
  Pin pin(std::string hash);

  // Stores bytes whose hash this is, unless they are there. A damaged blob is replaced. degraded; storage_full, also
  // when all blobs together would have more than `most_bytes`.
  Result<void> put(const std::string& hash, std::string_view bytes, std::uint64_t most_bytes);
  // Makes sure that a blob is there and stays for a while. not_found, degraded.
  Result<void> touch(const std::string& hash);
  // The bytes, whose hash is checked. not_found: there is none. degraded: it is damaged, or something else is there.
  Result<std::string> read(const std::string& hash) const;

  bool any() const;  // whether anything was ever stored: one stat
  // Removes temporary files of writes that a kill has ended. Before the first put().
  void remove_leftovers() const;
  // Calls `call` with each blob, and with each entry of the folders that is none. Counts the totals anew.
  void each(const std::function<void(const std::filesystem::path&, bool is_blob)>& call);
  BlobTotals totals() const { return {.count = count_, .bytes = bytes_}; }

  // From here on, what is pinned or touched is left alone by remove().
  void begin_sweep();
  void end_sweep();
  // Removes a blob that was neither written nor named for `grace_ms`. Returns its size, 0 if it stays.
  std::uint64_t remove(const std::string& hash, std::int64_t grace_ms);

  std::filesystem::path path_of(std::string_view hash) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Pins;
  std::mutex& turn(const std::string& hash) const { return turns_.at(static_cast<unsigned char>(hash.front()) % 16); }
  Result<void> write(const std::string& hash, std::string_view bytes) const;

  std::filesystem::path folder_;  // blobs/sha256
  std::shared_ptr<Pins> pins_;
  mutable std::array<std::mutex, 16> turns_{};  // by the first digit
  std::atomic<std::uint64_t> count_{0}, bytes_{0};
};

}  // namespace sessiond::blobs
