#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "daemon/backup/tar.hpp"

namespace sessiond::backup {
namespace {

constexpr std::size_t name_size = 100;
constexpr std::uint64_t most_octal = 077777777777;  // 11 octal digits: 8 GiB - 1
constexpr std::uint64_t most_id = 07777777;

struct Header {
  std::array<char, tar_block_size> bytes{};

  void text(std::size_t at, std::size_t size, std::string_view value) {
    std::memcpy(bytes.data() + at, value.data(), std::min(size, value.size()));
  }
  // Octal digits and a NUL.
  void number(std::size_t at, std::size_t size, std::uint64_t value) {
    text(at, size, fmt::format("{:0{}o}", value, size - 1));
  }
};

void append_header(std::string& out, std::string_view name, char type, std::uint64_t size, std::uint64_t mtime) {
  const auto id = [](std::uint64_t value) { return value > most_id ? 0 : value; };
  Header header;
  header.text(0, name_size, name);
  header.number(100, 8, type == '5' ? 0700 : 0600);
  header.number(108, 8, id(::geteuid()));
  header.number(116, 8, id(::getegid()));
  header.number(124, 12, size > most_octal ? 0 : size);
  header.number(136, 12, mtime > most_octal ? 0 : mtime);
  header.text(148, 8, "        ");  // while the checksum is computed, its field holds blanks
  header.bytes[156] = type;
  header.text(257, 8, std::string_view("ustar\00000", 8));
  const std::string_view block(header.bytes.data(), header.bytes.size());
  header.text(148, 8, fmt::format("{:06o}", sum_of(block)) + std::string("\0 ", 2));
  out.append(block);
}

// "<length of all of it> <key>=<value>\n"
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (fmt::formatted_size("{}", length) + rest != length) length = fmt::formatted_size("{}", length) + rest;
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

void append_tar_header(std::string& out, const TarMember& member) {
  const bool directory = member.kind == TarMember::Kind::directory;
  const std::string name = directory ? member.name + "/" : member.name;
  std::string records;
  if (name.size() > name_size) records += pax_record("path", name);
  if (member.size > most_octal) records += pax_record("size", std::to_string(member.size));
  const auto mtime = static_cast<std::uint64_t>(member.mtime);
  if (mtime > most_octal) records += pax_record("mtime", std::to_string(member.mtime));  // before 1970, too
  if (!records.empty()) {
    append_header(out, "PaxHeader", 'x', records.size(), 0);
    out += records;
    append_tar_padding(out, records.size());
  }
  append_header(out, name, directory ? '5' : '0', member.size, mtime);
}

void append_tar_padding(std::string& out, std::uint64_t size) {
  out.append(static_cast<std::size_t>((tar_block_size - size % tar_block_size) % tar_block_size), '\0');
}

void append_tar_end(std::string& out) { out.append(2 * tar_block_size, '\0'); }

}  // namespace sessiond::backup
