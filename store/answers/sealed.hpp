// A full segment of idempotency answers. <name>.jsonl has the answers, <name>.idx has an index by digest. The index is
// mapped into memory, not loaded; it is made again from the answers when it is missing or damaged.
//
// The index is little-endian:
//   a header of 64 bytes: magic "SDKIDX1\n", u64 count, u64 blocks, u64 size of the .jsonl, i64 newest time, u64 CRC-32
//     of everything but itself, u64 CRC-32 of the segment's name
//   `blocks` Bloom blocks of 64 bytes; a key sets 6 bits of one block, so looking for an absent key costs one cache
//     line
//   `count` entries of 32 bytes, sorted by digest
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/answers/answers.hpp"

namespace sessiond::answers {

struct IndexEntry {
  Digest scope{};
  std::int64_t time = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;  // with '\n'
};

// An answer as a line of a file, with its '\n': with a CRC, and sealed if encryption is on. Which answer it is stands
// within, so lines cannot be taken for one another.
std::string stored_line(std::string json);
Result<Answer> answer_from_line(std::string_view line);  // with or without its '\n'
// Calls with every answer in a file, in order. Skips damaged lines and adds a sentence to `found` for each. Returns the
// end of the last whole line.
using OnAnswer = std::function<void(Answer answer, std::uint64_t offset, std::uint64_t length)>;
Result<std::uint64_t> scan_answers(int fd, const std::filesystem::path& path, std::vector<std::string>& found,
                                   const OnAnswer& on_answer);

class SealedAnswers {
 public:
  static Result<std::shared_ptr<const SealedAnswers>> open(const std::filesystem::path& path,
                                                           std::vector<std::string>& found);
  // Writes the index and opens it. Of several entries with one scope, the one with the latest time counts, then the one
  // with the greater offset.
  static Result<std::shared_ptr<const SealedAnswers>> seal(const std::filesystem::path& path,
                                                           std::vector<IndexEntry> entries);
  ~SealedAnswers();
  SealedAnswers(const SealedAnswers&) = delete;
  SealedAnswers& operator=(const SealedAnswers&) = delete;

  // Any thread; reads the disk. degraded: the answer's line is damaged.
  Result<std::optional<Answer>> find(const Digest& scope) const;
  std::int64_t newest() const;
  std::uint64_t bytes() const;  // on disk, both files
  void remove() const;

 private:
  SealedAnswers(std::filesystem::path path, std::string_view mapped) : path_(std::move(path)), mapped_(mapped) {}
  static std::shared_ptr<const SealedAnswers> map(const std::filesystem::path& path);

  std::filesystem::path path_;
  std::string_view mapped_;
};

}  // namespace sessiond::answers
