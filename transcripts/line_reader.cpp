#include "transcripts/line_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "store/files.hpp"
#include "store/try.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

}  // namespace

Result<std::string> LineReader::read(std::uint64_t begin, std::uint64_t end) const {
  TRY(auto bytes, store::read_at(fd_, begin, end - begin, path_));
  if (bytes.size() != end - begin)
    return fail(Code::internal, fmt::format("{} became shorter while it was read", path_));
  return bytes;
}

Result<void> LineReader::load(std::uint64_t begin, std::uint64_t end) {
  TRY(block_, read(begin, end));
  low_ = begin;
  return {};
}

Result<std::uint64_t> LineReader::end_of(std::uint64_t begin) {
  std::uint64_t at = begin;
  // Loads the whole line in one block if it fits, for text().
  if (at < size_ && !(holds(at, at + 1) && std::memchr(block_.data() + (at - low_), '\n', low_ + block_.size() - at)))
    TRY(load(at, std::min(size_, at + block_bytes)));
  while (at < size_) {
    if (!holds(at, at + 1)) TRY(load(at, std::min(size_, at + block_bytes)));
    const char* from = block_.data() + (at - low_);
    const void* hit = std::memchr(from, '\n', low_ + block_.size() - at);
    if (hit != nullptr) return at + static_cast<std::uint64_t>(static_cast<const char*>(hit) - from) + 1;
    at = low_ + block_.size();
  }
  return size_;
}

Result<std::uint64_t> LineReader::begin_of(std::uint64_t end) {
  assert(end > 0);
  const auto newline_before = [this](std::uint64_t at) -> const void* {
    return at <= low_ ? nullptr : ::memrchr(block_.data(), '\n', at - low_);
  };
  const auto load_before = [this](std::uint64_t at) { return load(at - std::min<std::uint64_t>(at, block_bytes), at); };
  std::uint64_t at = end - 1;  // the line's own newline, or its last byte
  if (!holds(at, end) || newline_before(at) == nullptr) TRY(load_before(end));
  for (;;) {
    if (const void* hit = newline_before(at); hit != nullptr)
      return low_ + static_cast<std::uint64_t>(static_cast<const char*>(hit) - block_.data()) + 1;
    at = low_;
    if (at == 0) return 0;
    TRY(load_before(at));
  }
}

Result<bool> LineReader::begins_line(std::uint64_t offset) {
  if (offset == 0) return true;
  if (offset > size_) return false;
  if (!holds(offset - 1, offset)) TRY(load(offset - 1, std::min(size_, offset - 1 + block_bytes)));
  return block_[offset - 1 - low_] == '\n';
}

Result<std::string_view> LineReader::text(std::uint64_t begin, std::uint64_t end) {
  if (end - begin > longest_line) {
    TRY(const auto beginning, read(begin, begin + 16));
    // A sealed line may be as much longer as its seal makes it.
    end = std::min(end, begin + (seal::is_sealed(beginning) ? longest_line / 3 * 4 + 1024 : longest_line));
  }
  std::string_view line;
  if (holds(begin, end)) {
    line = std::string_view(block_).substr(begin - low_, end - begin);
  } else {
    TRY(long_line_, read(begin, end));
    line = long_line_;
  }
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (begin == 0 && line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
  return line;
}

Result<std::string_view> LineReader::line(std::uint64_t begin, std::uint64_t end, std::uint64_t seq) {
  TRY(const auto stored, text(begin, end));
  return seal::is_sealed(stored) ? open(stored, seq) : stored;
}

std::string_view LineReader::open(std::string_view sealed, std::uint64_t seq) {
  if (scope_.empty()) scope_ = seal_scope(path_);
  return seal::open(sealed, {scope_, seq}, opened_) ? std::string_view(opened_) : closed_line;
}

}  // namespace sessiond::transcripts
