// A segment of idempotency answers that is still being written. All its answers are in memory; lines that are not yet
// in the file wait in memory too.
//
// The store's mutex must be held for every call except write(), which takes it for a moment and does the I/O without
// it.
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

// <time of the first answer, 20 digits>.jsonl. Names rise with the order of the segments.
std::filesystem::path segment_path(const std::filesystem::path& dir, std::int64_t first_time);
Result<std::vector<std::int64_t>> list_segments(const std::filesystem::path& dir);  // in order

struct DigestHash {
  std::size_t operator()(const Digest& digest) const {
    std::size_t hash = 0;  // a digest is uniform already
    std::memcpy(&hash, digest.data(), sizeof hash);
    return hash;
  }
};

class LiveAnswers {
 public:
  explicit LiveAnswers(std::filesystem::path path) : path_(std::move(path)) {}
  // Reads a segment back. Cuts off a torn last line and skips damaged lines; adds a sentence to `found` for each.
  static Result<std::shared_ptr<LiveAnswers>> load(const std::filesystem::path& path, std::vector<std::string>& found);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // bytes, including lines that wait
  std::int64_t newest() const { return newest_; }
  std::shared_ptr<const Answer> find(const Digest& scope) const;
  void put(std::shared_ptr<const Answer> answer, const std::string& line);

  // Writes the lines that wait; with `sync`, fsyncs them. `mutex` is the store's and must not be held. One caller at a
  // time.
  Result<void> write(std::mutex& mutex, bool sync);
  // The positions of all answers. The segment must be full and written.
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
  // Only write() uses these.
  store::Fd file_{};
  std::uint64_t written_ = 0;
  bool unsynced_ = false;
  bool lost_ = false;  // the file may miss bytes (a failed fsync, half a line): write it anew from memory
};

}  // namespace sessiond::answers
