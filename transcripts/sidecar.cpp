#include "transcripts/sidecar.hpp"

#include <algorithm>
#include <bit>

#include "store/crc32.hpp"
#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::transcripts {
namespace {

static_assert(std::endian::native == std::endian::little, "a sidecar is written as it lies in memory");
constexpr std::uint64_t hashed_tail = 4096;

Result<std::uint32_t> crc_before(int fd, std::uint64_t end, std::string_view path) {
  const std::uint64_t length = std::min(end, hashed_tail);
  TRY(auto bytes, store::read_at(fd, end - length, length, path));
  return store::crc32_of(bytes);
}

}  // namespace

Result<bool> Covered::fits(int fd, std::uint64_t size, std::string_view path) const {
  if (size < bytes) return false;
  if (bytes == 0) return true;
  TRY(auto crc, crc_before(fd, bytes, path));
  return crc == tail_crc;
}

Result<void> Covered::extend(int fd, std::uint64_t end, std::string_view path) {
  TRY(auto crc, crc_before(fd, end, path));
  *this = {.bytes = end, .tail_crc = crc};
  return {};
}

SidecarWriter::SidecarWriter(std::string_view magic, std::uint64_t inode, const Covered& covered) : out_(magic) {
  number(inode);
  number(covered.bytes);
  number(covered.tail_crc, 4);
}

void SidecarWriter::number(std::uint64_t value, std::size_t bytes) {
  out_.append(reinterpret_cast<const char*>(&value), bytes);
}

void SidecarWriter::text(std::string_view text) {
  number(text.size(), 4);
  out_ += text;
}

std::string SidecarWriter::finish() && {
  number(store::crc32_of(out_), 4);
  return std::move(out_);
}

std::optional<SidecarReader> SidecarReader::open(std::string_view bytes, std::string_view magic, std::uint64_t inode) {
  if (!bytes.starts_with(magic) || bytes.size() < magic.size() + 4) return {};
  const std::string_view summed = bytes.substr(0, bytes.size() - 4);
  if (SidecarReader(bytes.substr(summed.size())).number(4) != store::crc32_of(summed)) return {};
  SidecarReader reader(summed.substr(magic.size()));
  if (reader.number() != inode) return {};
  reader.covered_.bytes = reader.number();
  reader.covered_.tail_crc = static_cast<std::uint32_t>(reader.number(4));
  return reader;
}

std::uint64_t SidecarReader::number(std::size_t bytes) {
  std::uint64_t value = 0;
  const std::string_view text = take(bytes);
  std::memcpy(&value, text.data(), text.size());
  return value;
}

std::string SidecarReader::text() { return std::string(take(number(4))); }

std::string_view SidecarReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) {
    short_ = true;
    return "";
  }
  const std::string_view text = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return text;
}

}  // namespace sessiond::transcripts
