// A segment of idempotency answers that is still written: all of it in memory, its lines behind it on their way to the
// file. Not thread-safe by itself: the store's mutex guards it, and `write` works on the disk without holding it.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/answers/answers.hpp"
#include "store/answers/sealed.hpp"
#include "store/files.hpp"

namespace sessiond::answers {

// <first time ms, 20 digits>.jsonl; a segment is never older than the one before it by name.
std::filesystem::path segment_path(const std::filesystem::path& dir, std::int64_t first_time);
Result<std::vector<std::int64_t>> list_segments(const std::filesystem::path& dir);  // in order

struct DigestHash {
  std::size_t operator()(const Digest& digest) const {
    std::size_t hash = 0;  // it is uniform already
    std::memcpy(&hash, digest.data(), sizeof hash);
    return hash;
  }
};

class LiveAnswers {
 public:
  explicit LiveAnswers(std::filesystem::path path) : path_(std::move(path)) {}
  // Reads a segment back. A torn last line is cut off, damaged lines are left where they are; both are reported.
  static Result<std::shared_ptr<LiveAnswers>> load(const std::filesystem::path& path, std::vector<std::string>& found);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // bytes, with what waits
  std::int64_t newest() const { return newest_; }
  std::shared_ptr<const Answer> find(const Digest& scope) const;
  void put(std::shared_ptr<const Answer> answer, const std::string& line);

  // Called without `mutex`, one caller at a time: takes what waits under it, then writes (and with sync fsyncs).
  Result<void> write(std::mutex& mutex, bool sync);
  // Where the answers lie. Of a segment that is full and written.
  std::vector<IndexEntry> index_entries() const;

 private:
  struct Held {
    std::shared_ptr<const Answer> answer{};
    std::uint64_t offset = 0;
    std::uint32_t length = 0;  // with '\n'
  };
  void hold(std::shared_ptr<const Answer> answer, std::uint64_t length);
  Result<void> open();
  Result<void> sync();
  Result<void> make_again(std::mutex& mutex);

  std::filesystem::path path_;
  std::unordered_map<Digest, Held, DigestHash> held_{};
  std::uint64_t size_ = 0;
  std::int64_t newest_ = 0;
  std::string pending_{};
  // Only `write` uses these.
  Fd file_{};
  std::uint64_t written_ = 0;
  bool unsynced_ = false;
  bool lost_ = false;  // an fsync failed: the file's pages may be gone, it is made anew from memory
};

}  // namespace sessiond::answers
