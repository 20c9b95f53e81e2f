#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "daemon/backup/tar.hpp"
#include "store/number.hpp"
#include "store/try.hpp"

namespace sessiond::backup {
namespace {

constexpr std::uint64_t most_believed = 1ULL << 60;   // largest size of a member
constexpr std::uint64_t most_extension = 1ULL << 20;  // largest size of a pax header or long name
constexpr std::size_t most_name = 4096;

std::unexpected<Problem> refuse_archive(std::string detail) { return fail(Code::validation_failed, std::move(detail)); }

std::string_view until_nul(std::string_view field) { return field.substr(0, field.find('\0')); }

// Parses a number: octal digits among blanks and NULs, or GNU's base-256 (first bit set, big-endian). Nothing when it
// is neither, or negative.
std::optional<std::uint64_t> number(std::string_view field) {
  if ((static_cast<unsigned char>(field.front()) & 0x80U) != 0) {
    std::uint64_t value = static_cast<unsigned char>(field.front()) & 0x7FU;
    for (const char c : field.substr(1)) {
      if (value > most_believed >> 8U) return {};
      value = value << 8U | static_cast<unsigned char>(c);
    }
    return value;
  }
  field = until_nul(field);
  while (field.starts_with(' ')) field.remove_prefix(1);
  while (field.ends_with(' ')) field.remove_suffix(1);
  return field.empty() ? 0 : store::parse_number<std::uint64_t>(field, 8);
}

bool sum_fits(std::string_view block) {
  const std::string_view field = block.substr(148, 8);
  return number(field) == sum_of(block) - sum_of(field) + field.size() * ' ';
}

// Returns the name without "./" in front and '/' at the end. Nothing when it is empty or leads out of the folder.
std::optional<std::string> plain_name(std::string_view name) {
  std::string out;
  if (name.starts_with('/') || name.size() > most_name || name.contains('\0')) return {};
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    name.remove_prefix(std::min(name.size(), part.size() + 1));
    if (part == "..") return {};
    if (part.empty() || part == ".") continue;
    out.append(out.empty() ? "" : "/").append(part);
  }
  return out;
}

}  // namespace

Result<void> TarReader::feed(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    if (left_ > 0) {
      const std::string_view piece = bytes.substr(0, std::min<std::uint64_t>(left_, bytes.size()));
      bytes.remove_prefix(piece.size());
      left_ -= piece.size();
      if (extending_ == 0) {
        TRY(sink_.data(piece));
      } else {
        extension_ += piece;
        if (left_ == 0) TRY(extension());
      }
    } else if (padding_ > 0) {
      const auto skipped = std::min<std::uint64_t>(padding_, bytes.size());
      bytes.remove_prefix(skipped);
      padding_ -= skipped;
    } else {
      const std::string_view piece = bytes.substr(0, tar_block_size - block_.size());
      bytes.remove_prefix(piece.size());
      block_ += piece;
      if (block_.size() < tar_block_size) break;
      const std::string block = std::exchange(block_, {});
      TRY(header(block));
    }
  }
  return {};
}

Result<void> TarReader::finish() const {
  if (ended_) return {};
  return refuse_archive(begun_ ? "the archive is cut short: its end is missing" : "the archive is empty");
}

Result<void> TarReader::header(std::string_view block) {
  if (block.find_first_not_of('\0') == std::string_view::npos) {
    ended_ = true;
    return {};
  }
  if (!sum_fits(block))
    return refuse_archive(begun_ ? "the archive is damaged: the checksum of a header is wrong"
                                 : "this is not a tar archive (unpack a compressed one first: zcat FILE | …)");
  begun_ = true;
  const char type = block[156];
  const auto size = number(block.substr(124, 12));
  const auto mtime = number(block.substr(136, 12));
  if (!size || *size > most_believed) return refuse_archive("the archive is damaged: a size is not valid");
  left_ = *size;
  padding_ = (tar_block_size - *size % tar_block_size) % tar_block_size;
  if (type == 'x' || type == 'g' || type == 'L') {
    if (*size > most_extension || *size == 0)
      return refuse_archive("the archive is damaged: an extended header is too large");
    extending_ = type;
    return {};
  }
  extending_ = 0;
  std::string name(until_nul(block.substr(0, 100)));
  const std::string_view prefix = until_nul(block.substr(345, 155));
  // GNU's format uses this field for something else.
  if (block.substr(257, 6) == std::string_view("ustar\0", 6) && !prefix.empty())
    name = fmt::format("{}/{}", prefix, name);
  if (!long_name_.empty()) name = std::exchange(long_name_, {});
  const auto plain = plain_name(name);
  if (!plain) return refuse_archive(fmt::format("\"{}\" leads out of the archive", name));
  TarMember member{.name = *plain, .size = *size, .mtime = static_cast<std::int64_t>(mtime.value_or(0))};
  const bool file = type == '0' || type == '\0' || type == '7';
  if (!file && type != '5')
    return refuse_archive(
        fmt::format("\"{}\" is not a regular file (a link, device or sparse file, type {:?})", name, type));
  // In pre-POSIX archives, a directory is a file whose name ends in a slash.
  if (type == '5' || name.ends_with('/')) member.kind = TarMember::Kind::directory;
  return start(std::move(member));
}

Result<void> TarReader::start(TarMember member) {
  if (const std::string size = std::exchange(long_size_, {}); !size.empty()) {
    const auto bytes = store::parse_number<std::uint64_t>(size);
    if (!bytes || *bytes > most_believed) return refuse_archive("the archive is damaged: a size is not valid");
    member.size = left_ = *bytes;
    padding_ = (tar_block_size - *bytes % tar_block_size) % tar_block_size;
  }
  if (const std::string mtime = std::exchange(long_mtime_, {}); !mtime.empty())
    member.mtime = store::parse_number<std::int64_t>(mtime.substr(0, mtime.find('.'))).value_or(member.mtime);
  const bool directory = member.kind == TarMember::Kind::directory;
  if (directory && member.size != 0)
    return refuse_archive(fmt::format("the directory \"{}\" has content", member.name));
  if (!directory && member.name.empty()) return refuse_archive("a file has no name");
  return sink_.member(member);
}

Result<void> TarReader::extension() {
  const std::string text = std::exchange(extension_, {});
  if (extending_ == 'x') return pax(text);
  if (extending_ == 'L') long_name_ = until_nul(text);
  return {};  // a global header ('g') has nothing that a backup needs
}

Result<void> TarReader::pax(std::string_view records) {
  while (!records.empty()) {
    const std::size_t blank = records.find(' ');
    const auto length = store::parse_number<std::size_t>(records.substr(0, blank));
    if (blank == std::string_view::npos || !length || *length < blank + 3 || *length > records.size() ||
        records[*length - 1] != '\n')
      return refuse_archive("the archive is damaged: a pax header is not valid");
    const std::string_view record = records.substr(blank + 1, *length - blank - 2);
    records.remove_prefix(*length);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return refuse_archive("the archive is damaged: a pax header is not valid");
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse."))
      return refuse_archive("sparse files are not supported: make the archive without -S");
    if (key == "path") long_name_ = value;
    if (key == "size") long_size_ = value;
    if (key == "mtime") long_mtime_ = value;
  }
  return {};
}

}  // namespace sessiond::backup
