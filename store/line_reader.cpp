#include "store/line_reader.hpp"

#include <algorithm>
#include <utility>

#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::store {
namespace {
constexpr std::size_t piece = std::size_t{256} * 1024;
}  // namespace

SequentialLines::SequentialLines(int fd, std::uint64_t offset, std::uint64_t end, std::string name)
    : fd_(fd), read_to_(offset), end_(end), name_(std::move(name)) {}

Result<bool> SequentialLines::fill() {
  buffer_.erase(0, std::exchange(at_, 0));
  // A line longer than the buffer makes the pieces grow with it, so that it is not copied over and over.
  const std::uint64_t wanted = std::min<std::uint64_t>(end_ - read_to_, std::max(piece, buffer_.size()));
  if (wanted == 0) return false;
  TRY(const auto got, read_at(fd_, read_to_, static_cast<std::size_t>(wanted), name_));
  buffer_ += got;
  read_to_ += got.size();
  return !got.empty();
}

Result<std::optional<SequentialLines::Raw>> SequentialLines::next() {
  std::size_t searched = 0;
  for (;;) {
    const std::size_t newline = buffer_.find('\n', at_ + searched);
    if (newline != std::string::npos) {
      const Raw raw{.offset = read_to_ - (buffer_.size() - at_),
                    .text = std::string_view(buffer_).substr(at_, newline - at_),
                    .ended = true};
      at_ = newline + 1;
      return raw;
    }
    searched = buffer_.size() - at_;
    TRY(const auto more, fill());
    if (more) continue;
    if (buffer_.empty()) return std::nullopt;
    at_ = buffer_.size();
    return Raw{.offset = read_to_ - buffer_.size(), .text = buffer_, .ended = false};
  }
}

}  // namespace sessiond::store
