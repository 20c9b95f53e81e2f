#include "tests/bench/stream/event_parser.hpp"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace sessiond::bench::stream {
namespace {

bool has_header(std::string_view head, std::string_view line) {
  for (std::size_t at = head.find("\r\n"); at != head.npos; at = head.find("\r\n", at + 2)) {
    if (head.size() - at - 2 >= line.size() && ::strncasecmp(head.data() + at + 2, line.data(), line.size()) == 0)
      return true;
  }
  return false;
}

}  // namespace

std::size_t EventParser::take_head() {
  const std::size_t end = kept_.find("\r\n\r\n");
  if (end == kept_.npos) return 0;
  constexpr std::string_view version = "HTTP/1.1 ";
  const std::string_view head(kept_.data(), end);
  int status = 0;
  if (head.starts_with(version)) std::from_chars(head.data() + version.size(), head.data() + head.size(), status);
  if (status != 200) throw std::runtime_error("a stream was refused: " + kept_.substr(0, 600));
  status_ = status;
  chunked_ = has_header(head, "transfer-encoding: chunked");
  return end + 4;
}

std::string_view EventParser::next_chunk(std::string_view& bytes) {
  while (in_size_ && !bytes.empty()) {
    const char c = bytes.front();
    bytes.remove_prefix(1);
    if (c >= '0' && c <= '9') {
      chunk_size_ = chunk_size_ * 16 + static_cast<std::uint64_t>(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      chunk_size_ = chunk_size_ * 16 + static_cast<std::uint64_t>((c | 0x20) - 'a' + 10);
    } else if (c == '\n' && chunk_size_ > 0) {  // the line end behind a chunk's data has no size before it
      chunk_left_ = static_cast<std::size_t>(std::exchange(chunk_size_, 0));
      in_size_ = false;
    } else if (c != '\r' && c != '\n') {
      throw std::runtime_error("not a chunk size");
    }
  }
  const std::string_view data = bytes.substr(0, std::min(bytes.size(), chunk_left_));
  bytes.remove_prefix(data.size());
  chunk_left_ -= data.size();
  if (chunk_left_ == 0) in_size_ = true;
  return data;
}

}  // namespace sessiond::bench::stream
