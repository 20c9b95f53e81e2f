// A full segment of idempotency answers: lines in <name>.jsonl, and in <name>.idx a map of their digests that is
// mapped, never loaded. The map is made again from the lines when it is missing or damaged. Little-endian: a header of
// 64 bytes (magic "SDKIDX1\n", u64 count, u64 blocks, u64 size of the lines, i64 newest time, u64 CRC-32 of all but
// itself, u64 CRC-32 of the segment's name), `blocks` Bloom blocks of 64 bytes (a key sets 6 bits of one block, so a
// key that is not there costs one cache line), `count` entries of 32 bytes sorted by digest.
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

// Every answer in a file, in order, with its place; damaged lines are reported and passed over. The end of the last
// whole line.
using OnAnswer = std::function<void(Answer answer, std::uint64_t offset, std::uint64_t length)>;
Result<std::uint64_t> scan_answers(int fd, const std::filesystem::path& path, std::vector<std::string>& found,
                                   const OnAnswer& on_answer);

class SealedAnswers {
 public:
  static Result<std::shared_ptr<const SealedAnswers>> open(const std::filesystem::path& path,
                                                           std::vector<std::string>& found);
  // Writes the index and opens it. Of several entries of one scope the newest time wins, then the later offset.
  static Result<std::shared_ptr<const SealedAnswers>> seal(const std::filesystem::path& path,
                                                           std::vector<IndexEntry> entries);
  ~SealedAnswers();
  SealedAnswers(const SealedAnswers&) = delete;
  SealedAnswers& operator=(const SealedAnswers&) = delete;

  // Any thread. A problem when its line is damaged (told once) or cannot be read.
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
