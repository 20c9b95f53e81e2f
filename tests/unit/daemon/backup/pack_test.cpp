#include "daemon/backup/pack.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "daemon/backup/unpack.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::backup;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A state directory with one of everything.
void make_state(const fs::path& dir) {
  write(dir / "journal/00000000000000000001.jsonl", "12345678 {}\n");
  write(dir / "journal/00000000000000000001.idx", "made again");
  write(dir / "journal/CHECKPOINT", "{}");
  write(dir / "journal/EPOCH", R"({"epoch":"01234567","holes":[]})");
  write(dir / "journal/cursor.key", std::string(64, 'k'));
  write(dir / "journal/backup.1.x.tmp/0", "a link");
  write(dir / "journal/index/main/s.jsonl.idx", "made again");
  write(dir / "journal/keys/00000000000000000005.jsonl", "{}\n");
  write(dir / "journal/previous/main.json", "{}");
  write(dir / "journal/previous/main.current.json", "{}");
  write(dir / "journal/previous/main.note", "{}");
  write(dir / "agents/main/sessions/sessions.json", "{}");
  write(dir / "agents/main/sessions/sessions.json.lock", "{}");
  write(dir / "agents/main/sessions/sessions.json.5.x.tmp", "{");
  write(dir / "agents/main/sessions/s.jsonl", std::string(3'000'000, 's'));
  write(dir / "agents/main/sessions" / (std::string(200, 't') + ".jsonl.reset.2026-02-25T10-00-00.123Z"), "archived");
  write(dir / "agents/main/sessions/empty.jsonl", "");
  write(dir / "agents/main/sessions/skills/a.json", "{}");
  write(dir / "agents/main/agent/auth-profiles.json", "secret");
  write(dir / "sessiond.lock", "{}");
  write(dir / "tokens.json", "{}");
  write(dir / "openclaw.json", "secret");
  fs::create_symlink(dir / "openclaw.json", dir / "agents/main/sessions/link.jsonl");
}

ledger::StateSnapshot cut_of(const fs::path& dir) {
  auto cut = ledger::snapshot_at_rest(ledger::Paths(dir, "agents/{agentId}/sessions/sessions.json"));
  REQUIRE(cut);
  return std::move(*cut);
}

std::string archive_of(Packer packer) {
  std::string archive;
  for (;;) {
    const auto bytes = packer.next();
    REQUIRE(bytes);
    if (bytes->empty()) return archive;
    CHECK(bytes->size() < 3U << 20);
    archive += *bytes;
  }
}
std::string archive_of(const fs::path& dir) {
  return archive_of(Packer(cut_of(dir), "agents/{agentId}/sessions/sessions.json", 1'770'000'000'000));
}

Result<Manifest> unpacked(const std::string& archive, const fs::path& dir = {}) {
  Unpacker unpacker(dir);
  if (auto fed = unpacker.feed(archive); !fed) return std::unexpected(fed.error());
  return unpacker.finish();
}

}  // namespace

TEST_CASE("a backup holds what is ours and not what passes or is made again") {
  const TempDir temp;
  make_state(temp / "state");
  const auto manifest = unpacked(archive_of(temp / "state"));
  REQUIRE(manifest);
  std::vector<std::string> names;
  for (const auto& [name, file] : manifest->files) names.push_back(name);
  CHECK(names == std::vector<std::string>{
                     "agents/main/sessions/empty.jsonl",
                     "agents/main/sessions/s.jsonl",
                     "agents/main/sessions/sessions.json",
                     "agents/main/sessions/skills/a.json",
                     "agents/main/sessions/" + std::string(200, 't') + ".jsonl.reset.2026-02-25T10-00-00.123Z",
                     "journal/00000000000000000001.jsonl",
                     "journal/CHECKPOINT",
                     "journal/EPOCH",
                     "journal/cursor.key",
                     "journal/keys/00000000000000000005.jsonl",
                     "journal/previous/main.json",
                     "tokens.json",
                 });
  CHECK(manifest->path_template == "agents/{agentId}/sessions/sessions.json");
  CHECK(manifest->created_at == 1'770'000'000'000);
}

TEST_CASE("unpacked it is the same, modes and times too; a backup directory packs to the same files") {
  const TempDir temp;
  make_state(temp / "state");
  fs::create_directory(temp / "out");
  fs::create_directory(temp / "again");
  Unpacker unpacker(temp / "out");
  REQUIRE(unpacker.feed(archive_of(temp / "state")));
  const auto manifest = unpacker.finish();
  REQUIRE(manifest);
  CHECK_FALSE(fs::exists(temp / "out/MANIFEST.json"));
  for (const auto& [name, file] : manifest->files) {
    struct stat was{};
    struct stat is{};
    REQUIRE(::lstat((temp / "state" / name).c_str(), &was) == 0);
    REQUIRE(::lstat((temp / "out" / name).c_str(), &is) == 0);
    CHECK(store::read_file(temp / "state" / name).value() == store::read_file(temp / "out" / name).value());
    CHECK((is.st_mode & 07777) == 0600);
    CHECK(is.st_mtim.tv_sec == was.st_mtim.tv_sec);
  }
  struct stat folder{};
  REQUIRE(::lstat((temp / "out/agents/main/sessions").c_str(), &folder) == 0);
  CHECK((folder.st_mode & 07777) == 0700);

  REQUIRE(store::replace_file(temp / "out/MANIFEST.json", unpacker.manifest_text()));
  auto again = cut_of_backup(temp / "out");
  REQUIRE(again);
  const auto same = unpacked(archive_of(Packer(std::move(*again))), temp / "again");
  REQUIRE(same);
  CHECK(same->files == manifest->files);
  fs::create_symlink("/etc/passwd", temp / "out/tokens.link");
  CHECK_FALSE(cut_of_backup(temp / "out"));
}

TEST_CASE("a backup that was cut, changed or added to is refused") {
  const TempDir temp;
  make_state(temp / "state");
  write(temp / "state/agents/main/sessions/s.jsonl", "short\n");
  const std::string archive = archive_of(temp / "state");
  REQUIRE(unpacked(archive));
  for (std::size_t size = 0; size + 1024 < archive.size(); size += 211) {
    CAPTURE(size);
    CHECK_FALSE(unpacked(archive.substr(0, size)));
  }
  std::size_t refused = 0;
  for (std::size_t at = 0; at < archive.size(); at += 13) {
    std::string bad = archive;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    const auto manifest = unpacked(bad);
    if (!manifest) ++refused;
    // Padding, or what the manifest says of the backup itself.
    else
      CHECK(manifest->files == unpacked(archive)->files);
  }
  CHECK(refused > 100);

  std::string more;
  append_tar_header(more, {.name = "agents/evil/sessions/sessions.json", .size = 0});
  CHECK_FALSE(unpacked(more + archive));
  more.clear();
  append_tar_header(more, {.name = "tokens.json", .size = 0});
  CHECK_FALSE(unpacked(more + archive));
  CHECK_FALSE(unpacked(std::string(1024, '\0')));
}

TEST_CASE("an archive of a backup directory has its files one below") {
  const TempDir temp;
  make_state(temp / "state");
  REQUIRE(unpacked(archive_of(temp / "state")));
  const fs::path dir = temp / "all/backup-1";
  fs::create_directories(dir);
  Unpacker first(dir);
  REQUIRE(first.feed(archive_of(temp / "state")));
  REQUIRE(first.finish());
  REQUIRE(store::replace_file(dir / "MANIFEST.json", first.manifest_text()));
  auto cut = cut_of_backup(temp / "all");
  REQUIRE(cut);
  fs::create_directory(temp / "out");
  Unpacker second(temp / "out");
  REQUIRE(second.feed(archive_of(Packer(std::move(*cut)))));
  REQUIRE(second.finish());
  CHECK(second.root() == temp / "out/backup-1");
  CHECK(fs::exists(second.root() / "journal/EPOCH"));
}

TEST_CASE("a file that becomes shorter under the cut makes it fail, one that grows does not") {
  const TempDir temp;
  make_state(temp / "state");
  ledger::StateSnapshot cut = cut_of(temp / "state");
  write(temp / "state/journal/CHECKPOINT", "{} and more");
  REQUIRE(unpacked(archive_of(Packer(std::move(cut), "x", 1))));
  ledger::StateSnapshot shorter = cut_of(temp / "state");
  fs::resize_file(temp / "state/agents/main/sessions/s.jsonl", 10);
  Packer packer(std::move(shorter), "x", 1);
  auto bytes = packer.next();
  while (bytes && !bytes->empty()) bytes = packer.next();
  CHECK_FALSE(bytes);
}

TEST_CASE("a store that is written in place under the cut makes it fail, one that is replaced does not") {
  const TempDir temp;
  make_state(temp / "state");
  const fs::path store = temp / "state/agents/main/sessions/sessions.json";
  const auto whole = [](Packer packer) {
    auto bytes = packer.next();
    while (bytes && !bytes->empty()) bytes = packer.next();
    return bytes.has_value();
  };
  SUBCASE("as long as it was") {
    ledger::StateSnapshot cut = cut_of(temp / "state");
    const auto cut_at = fs::last_write_time(store);
    write(store, "[]");
    fs::last_write_time(store, cut_at + std::chrono::milliseconds(3));
    CHECK_FALSE(whole(Packer(std::move(cut), "x", 1)));
  }
  SUBCASE("longer") {
    ledger::StateSnapshot cut = cut_of(temp / "state");
    write(store, "{} ");
    CHECK_FALSE(whole(Packer(std::move(cut), "x", 1)));
  }
  SUBCASE("not at all") { CHECK(whole(Packer(cut_of(temp / "state"), "x", 1))); }
}

TEST_CASE("links keep what was cut, whatever becomes of the names, and go with the cut") {
  const TempDir temp;
  make_state(temp / "state");
  const fs::path journal = temp / "state/journal";
  ledger::LinkDir::remove_left(journal);
  CHECK_FALSE(fs::exists(journal / "backup.1.x.tmp"));
  const ledger::Paths paths(temp / "state", "agents/{agentId}/sessions/sessions.json");
  const fs::path transcript = temp / "state/agents/main/sessions/s.jsonl";
  ledger::StateSnapshot cut;
  auto links = ledger::LinkDir::make(journal);
  REQUIRE(links);
  cut.links = std::move(*links);
  REQUIRE(ledger::take_stores(cut, paths));
  REQUIRE(ledger::take_transcripts(cut, paths, "main"));
  fs::rename(transcript, transcript.native() + ".reset.x");
  write(transcript, "another");
  fs::remove(temp / "state/agents/main/sessions/sessions.json");
  fs::create_directory(temp / "out");
  REQUIRE(unpacked(archive_of(Packer(std::move(cut), "x", 1)), temp / "out"));
  CHECK(fs::file_size(temp / "out/agents/main/sessions/s.jsonl") == 3'000'000);
  CHECK(fs::exists(temp / "out/agents/main/sessions/sessions.json"));
  for (const auto& entry : fs::directory_iterator(journal))
    CHECK_FALSE(entry.path().filename().native().starts_with("backup."));
}
