#include "daemon/backup/tar.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <vector>

using namespace sessiond;
using namespace sessiond::backup;

namespace {

struct Seen {
  TarMember member{};
  std::string data{};
};

struct Reading {
  std::vector<Seen> seen{};
  TarReader reader{{.member =
                        [this](const TarMember& member) {
                          seen.push_back({.member = member});
                          return Result<void>{};
                        },
                    .data =
                        [this](std::string_view bytes) {
                          seen.back().data += bytes;
                          return Result<void>{};
                        }}};
  Reading() = default;
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  Result<void> read(std::string_view archive, std::size_t piece = 1 << 20) {
    for (; !archive.empty(); archive.remove_prefix(std::min(piece, archive.size()))) {
      if (auto fed = reader.feed(archive.substr(0, piece)); !fed) return fed;
    }
    return reader.finish();
  }
};

std::string file(const std::string& name, std::string_view data, std::int64_t mtime = 1'770'000'000) {
  std::string out;
  append_tar_header(out, {.name = name, .size = data.size(), .mtime = mtime});
  out += data;
  append_tar_padding(out, data.size());
  return out;
}
std::string ended(std::string members) {
  append_tar_end(members);
  return members;
}

// A header with something changed in it, its sum made to fit again.
std::string changed(std::string archive, std::size_t at, std::string_view bytes) {
  archive.replace(at, bytes.size(), bytes);
  archive.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : std::string_view(archive).substr(0, 512)) sum += static_cast<unsigned char>(c);
  archive.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  return archive;
}

Result<void> verdict(const std::string& archive) { return Reading().read(archive); }

}  // namespace

TEST_CASE("what is written is read again, in whatever pieces it comes") {
  const std::string long_part(255, 'n');
  const std::vector<std::string> names = {"a",
                                          std::string(100, 'x'),
                                          std::string(101, 'y'),
                                          "agents/main/sessions/" + long_part,
                                          "ü%2F \"quoted\"\n",
                                          long_part + "/" + long_part + "/" + long_part};
  std::string archive;
  append_tar_header(archive, {.kind = TarMember::Kind::directory, .name = long_part, .mtime = 5});
  for (std::size_t i = 0; i < names.size(); ++i) archive += file(names[i], std::string(i * 511, 'd'));
  append_tar_end(archive);
  for (const std::size_t piece : {1UZ, 7UZ, 511UZ, 512UZ, 1UZ << 20}) {
    Reading reading;
    REQUIRE(reading.read(archive, piece));
    REQUIRE(reading.seen.size() == names.size() + 1);
    CHECK(reading.seen[0].member.kind == TarMember::Kind::directory);
    CHECK(reading.seen[0].member.name == long_part);
    for (std::size_t i = 0; i < names.size(); ++i) {
      CHECK(reading.seen[i + 1].member.name == names[i]);
      CHECK(reading.seen[i + 1].member.mtime == 1'770'000'000);
      CHECK(reading.seen[i + 1].data == std::string(i * 511, 'd'));
    }
  }
}

TEST_CASE("sizes over 8 GiB and times before 1970 take a pax header") {
  for (const std::uint64_t size : {8ULL << 30, (8ULL << 30) - 1, 1ULL << 50}) {
    std::string archive;
    append_tar_header(archive, {.name = "large", .size = size, .mtime = -1});
    Reading reading;
    REQUIRE(reading.reader.feed(archive));
    REQUIRE(reading.seen.size() == 1);
    CHECK(reading.seen[0].member.size == size);
    CHECK(reading.seen[0].member.mtime == -1);
    CHECK_FALSE(reading.reader.finish());
  }
}

TEST_CASE("base-256 numbers and long names as GNU tar writes them") {
  std::string size(12, '\0');
  size[0] = '\x80';
  size[7] = 3;  // 3 * 2^32
  Reading large;
  REQUIRE(large.reader.feed(changed(file("g", ""), 124, size)));
  CHECK(large.seen.at(0).member.size == 3ULL << 32);

  const std::string name = "agents/" + std::string(300, 'l');
  Reading named;
  const std::string gnu = changed(file("././@LongLink", name + std::string(1, '\0')), 156, "L");
  REQUIRE(named.read(ended(gnu + file("cut", "data"))));
  CHECK(named.seen.at(0).member.name == name);
  CHECK(named.seen.at(0).data == "data");
}

TEST_CASE("names lose ./ and a slash at the end, and never lead out") {
  Reading reading;
  REQUIRE_FALSE(reading.read(ended(file("./a//./b", "1") + file("..c", "2") + file("d..", "3") + file(".", ""))));
  CHECK(reading.seen.at(0).member.name == "a/b");
  CHECK(reading.seen.at(1).member.name == "..c");
  for (const std::string name : {"/etc/passwd", "..", "../x", "a/../b", "a/..", "/", ""}) {
    CAPTURE(name);
    CHECK_FALSE(verdict(ended(file(name, ""))));
  }
  CHECK_FALSE(verdict(ended(file(std::string(150, 'a') + "/../x", ""))));  // in a pax header
  CHECK_FALSE(verdict(ended(file(std::string(5000, 'a'), ""))));
}

TEST_CASE("links, devices and unknown members are refused") {
  for (const char type : std::string_view("12346SMVDNz\x7f")) {
    CAPTURE(type);
    CHECK_FALSE(verdict(ended(changed(file("name", ""), 156, {&type, 1}))));
  }
  CHECK(verdict(ended(changed(file("name", ""), 156, std::string_view("\0", 1)))));
  CHECK_FALSE(verdict(ended(changed(file("dir/", "content"), 156, "5"))));
}

TEST_CASE("sizes and pax headers that are none are refused") {
  const std::string good = ended(file("a", "b"));
  for (const std::string_view size : {"99999999999", "-1", "7x", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    CAPTURE(size);
    CHECK_FALSE(verdict(changed(good, 124, size)));
  }
  for (const std::string records :
       {"", "x", "5 a=b", "99 path=x\n", "0 path=x\n", "10 path\nxx\n", "9 path=x\n10 path=x\n99",
        "18 size=999999999\n1", "30 size=99999999999999999999\n", "22 GNU.sparse.major=1\n"}) {
    CAPTURE(records);
    CHECK_FALSE(verdict(ended(changed(file("p", records), 156, "x") + file("a", "b"))));
  }
  CHECK_FALSE(verdict(changed(good, 124, "77777777777")));  // cut off
  CHECK_FALSE(verdict(ended(changed(file("p", std::string(2 << 20, 'x')), 156, "L"))));
}

TEST_CASE("an archive that is cut anywhere, or is none, is told from a whole one") {
  const std::string members = file("a", std::string(700, 'a')) + file(std::string(200, 'n'), "b");
  for (std::size_t size = 0; size < members.size() + 512; size += 37) {
    CAPTURE(size);
    CHECK_FALSE(verdict(ended(members).substr(0, size)));
  }
  CHECK(verdict(ended(members)));
  CHECK(verdict(ended(members) + "whatever follows"));
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string garbage(2048, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    const auto refused = verdict(garbage);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::validation_failed);
  }
}

TEST_CASE("no change of one byte of a header is taken for anything it was not") {
  const std::string good = ended(file("name", "content"));
  for (std::size_t at = 0; at < 512; ++at) {
    if (at == 155) continue;  // behind the NUL that ends the sum
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x15);
    CAPTURE(at);
    CHECK_FALSE(verdict(bad));
  }
}
