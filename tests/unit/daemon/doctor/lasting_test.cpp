// Tests what the doctor says of blobs and of the logs of sessions.
#include <doctest/doctest.h>

#include "daemon/doctor/repair.hpp"
#include "store/blobs/blob_store.hpp"
#include "tests/unit/daemon/doctor/tree.hpp"

using namespace sessiond;
using namespace sessiond::doctor;
using namespace sessiond::testing;

namespace {

std::string naming(const std::string& hash) {
  return R"({"type":"message","id":"dddddddd","parentId":null,"message":{"role":"user","content":[{"type":"image",)"
         R"("source":{"type":"blob","sha256":")" +
         hash + "\"}}]}}\n";
}

// A tree with a blob that a transcript names.
struct BlobTree : Tree {
  BlobTree() {
    blobs::BlobStore store(path());
    REQUIRE(store.put(hash, "a medium", 1000));
    file = store.path_of(hash);
    write(transcript(), read(transcript()) + naming(hash));
  }
  std::string hash = blobs::sha256_of("a medium");
  fs::path file{};
};

std::string log_line(int seq) {
  return R"({"seq":)" + std::to_string(seq) + R"(,"time":1795383598678,"type":"error","code":"c","id":"88698)" +
         std::to_string(seq) + "\"}\n";
}

struct LogTree : Tree {
  LogTree() {
    REQUIRE(store::make_dirs(logs()));
    write(log(), log_line(0) + log_line(1) + log_line(2));
  }
  fs::path logs() const { return path() / "agents/main/logs"; }
  fs::path log() const { return logs() / (id_a + ".jsonl"); }
};

}  // namespace

TEST_CASE("blobs: what is whole and named is well") {
  const BlobTree tree;
  const Report report = tree.examine();
  INFO(to_text(report));
  CHECK(faults(report).empty());
  CHECK(to_text(report).contains("1 blob, 8 bytes; 1 of those that are named are there"));
  CHECK(faults(Tree().examine()).empty());  // none were ever stored
}

TEST_CASE("blobs that are damaged or not there") {
  const BlobTree tree;
  SUBCASE("another content") {
    Tree::write(tree.file, "a medlum");
    only(tree.examine(), Level::error, "blobs", "have another hash");
  }
  SUBCASE("cut off") {
    Tree::write(tree.file, "");
    only(tree.examine(), Level::error, "blobs", "have another hash");
  }
  SUBCASE("gone, and a transcript names it") {
    fs::remove(tree.file);
    only(tree.examine(), Level::error, "blobs", "names the blob " + tree.hash + ", which is not there");
    CHECK(faults(tree.examine())[0].path == tree.transcript().native());
  }
  SUBCASE("gone, and nothing names it any more") {
    fs::remove(tree.file);
    Tree::write(tree.transcript(), header(id_a) + message("aaaaaaaa"));
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("gone, and an entry names it") {
    fs::remove(tree.file);
    Tree::write(tree.transcript(), header(id_a) + message("aaaaaaaa"));
    std::string text = Tree::read(tree.sessions() / "sessions.json");
    text.insert(text.find("\"updatedAt\""), R"("toolSchemas":{"$blob":")" + tree.hash + R"(","bytes":8},)");
    Tree::write(tree.sessions() / "sessions.json", text);
    only(tree.examine(), Level::error, "blobs", "names the blob");
  }
  SUBCASE("gone, and an archive or the entry beside it names it") {
    fs::remove(tree.file);
    Tree::write(tree.transcript(), header(id_a) + message("aaaaaaaa"));
    const fs::path archive = tree.sessions() / (id_b + ".jsonl.deleted.2026-02-21T21-31-50.885Z");
    SUBCASE("archive") { Tree::write(archive, header(id_b) + naming(tree.hash)); }
    SUBCASE("entry") {
      Tree::write(archive, header(id_b));
      Tree::write(archive.native() + ".entry",
                  R"({"sessionId":")" + id_b + R"(","toolSchemas":{"$blob":")" + tree.hash + R"(","bytes":8}})" + "\n");
    }
    only(tree.examine(), Level::error, "blobs", "names the blob");
  }
}

TEST_CASE("among the blobs") {
  const BlobTree tree;
  SUBCASE("a temporary file of a write that a kill ended") {
    Tree::write(tree.file.native() + ".tmp", "a med");
    only(tree.examine(), Level::warning, "temporary", "interrupted");
    CHECK(run_repair(config_of(tree)).steps().size() == 1);
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("foreign files are told") {
    for (const char* name : {"notes.txt", "sha256/notes.txt", "sha256/00/notes.txt"}) {
      REQUIRE(store::make_dirs((tree.path() / "blobs" / name).parent_path()));
      Tree::write(tree.path() / "blobs" / name, "x");
    }
    fs::copy_file(tree.file, tree.path() / "blobs/sha256/00" / tree.hash);  // in the folder of others
    const Report report = tree.examine();
    INFO(to_text(report));
    CHECK(faults(report).empty());
    CHECK(to_text(report).contains("1 foreign and not changed: notes.txt"));
    CHECK(to_text(report).contains("3 foreign and not changed: 00/" + tree.hash + ", 00/notes.txt, notes.txt"));
  }
  SUBCASE("modes") {
    fs::permissions(tree.file, fs::perms(0644));
    fs::permissions(tree.path() / "blobs", fs::perms(0755));
    only(tree.examine(), Level::warning, "modes", "2 files can be reached");
    CHECK(run_repair(config_of(tree)).steps().size() == 1);
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("a folder in a blob's place, and a file in a folder's") {
    fs::remove(tree.file);
    fs::create_directory(tree.file);
    fs::permissions(tree.file, fs::perms::owner_all);
    only(tree.examine(), Level::error, "kind", "is a folder");
    fs::remove_all(tree.path() / "blobs");
    Tree::write(tree.transcript(), header(id_a));
    Tree::write(tree.path() / "blobs", "x");
    only(tree.examine(), Level::error, "blobs", "is no folder");
    CHECK(run_repair(config_of(tree)).steps().size() == 1);
    CHECK(faults(tree.examine()).empty());
  }
}

TEST_CASE("logs of sessions") {
  const LogTree tree;
  const std::string good = Tree::read(tree.log());
  SUBCASE("whole") {
    const Report report = tree.examine();
    INFO(to_text(report));
    CHECK(faults(report).empty());
    CHECK(to_text(report).contains("1 file with logs of sessions, 3 lines"));
  }
  SUBCASE("a line of a foreign program has no seq of ours") {
    Tree::write(tree.log(), log_line(0) + "{\"type\":\"error\",\"seq\":9}\n" + log_line(2));
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("a line that cannot be read") {
    Tree::write(tree.log(), log_line(0) + "garbage\n" + log_line(2));
    only(tree.examine(), Level::warning, "logs", "1 of 3 lines cannot be read, the first is line 2 at offset ");
  }
  SUBCASE("lines that are missing") {
    Tree::write(tree.log(), log_line(0) + log_line(3) + log_line(4));
    only(tree.examine(), Level::warning, "logs", "2 lines are missing, from seq 1");
  }
  SUBCASE("a torn end, which a repair cuts off") {
    Tree::write(tree.log(), good + R"({"seq":3,"ti)");
    only(tree.examine(), Level::warning, "logs", "ends in a torn line (12 bytes)");
    const Report report = run_repair(config_of(tree));
    REQUIRE(report.steps().size() == 1);
    CHECK(Tree::read(tree.log()) == good);
    CHECK(Tree::read(report.steps()[0].kept) == R"({"seq":3,"ti)");
    only(tree.examine(), Level::warning, "quarantine", "put aside");
  }
  SUBCASE("empty") {
    Tree::write(tree.log(), "");
    only(tree.examine(), Level::warning, "logs", "is empty");
  }
  SUBCASE("foreign files are told, temporary ones are faults") {
    Tree::write(tree.logs() / "notes.txt", "x");
    CHECK(to_text(tree.examine()).contains("1 foreign and not changed: notes.txt"));
    CHECK(faults(tree.examine()).empty());
    Tree::write(tree.logs() / (id_a + ".jsonl.tmp"), "x");
    only(tree.examine(), Level::warning, "temporary", "interrupted");
  }
  SUBCASE("modes") {
    fs::permissions(tree.log(), fs::perms(0640));
    only(tree.examine(), Level::warning, "modes", "1 file can be reached");
  }
  SUBCASE("a folder in a log's place, and a file in the folder's") {
    fs::remove(tree.log());
    fs::create_directory(tree.log());
    fs::permissions(tree.log(), fs::perms::owner_all);
    only(tree.examine(), Level::error, "kind", "is a folder");
    fs::remove_all(tree.logs());
    Tree::write(tree.logs(), "x");
    only(tree.examine(), Level::error, "logs", "is no folder");
    CHECK(run_repair(config_of(tree)).steps().size() == 1);
    CHECK(faults(tree.examine()).empty());
  }
}
