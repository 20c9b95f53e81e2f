#include "daemon/doctor/doctor.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/doctor/state_owner.hpp"
#include "store/files.hpp"
#include "store/journal/file_journal.hpp"
#include "store/json/raw_json.hpp"
#include "store/process.hpp"
#include "tests/unit/daemon/doctor/tree.hpp"
#include "tests/unit/store/child.hpp"

using namespace sessiond;
using namespace sessiond::doctor;
using namespace sessiond::testing;

TEST_CASE("a sound tree has no faults, with and without a journal, and nothing is touched") {
  Tree tree;
  CHECK(faults(tree.examine()).empty());
  tree.write_journal(20);
  REQUIRE(tree.segments().size() > 2);
  const std::string before = fingerprint(tree.path());
  const Report report = tree.examine();
  INFO(to_text(report));
  CHECK(faults(report).empty());
  CHECK(to_text(report).contains("seqs 1 to 20"));
  CHECK(fingerprint(tree.path()) == before);
}

TEST_CASE("a directory that is not there, and one that is none") {
  TempDir dir;
  CHECK(run_doctor({.state_dir = dir / "none"}).exit_code() == 2);
  std::ofstream(dir / "file") << "x";
  CHECK(run_doctor({.state_dir = dir / "file"}).exit_code() == 2);
}

TEST_CASE("modes that let others in") {
  Tree tree;
  SUBCASE("the directory can be read") {
    fs::permissions(tree.path(), fs::perms(0755));
    only(tree.examine(), Level::warning, "state_dir", "0755");
  }
  SUBCASE("the directory can be written") {
    fs::permissions(tree.path(), fs::perms(0777));
    only(tree.examine(), Level::error, "state_dir", "all users can write");
  }
  SUBCASE("files of an agent") {
    fs::permissions(tree.transcript(), fs::perms(0644));
    only(tree.examine(), Level::warning, "modes", "1 file can be reached");
  }
  SUBCASE("tokens.json") {
    Tree::write(tree.path() / "tokens.json", "{\"tokens\":[]}\n");
    CHECK(faults(tree.examine()).empty());
    fs::permissions(tree.path() / "tokens.json", fs::perms(0644));
    only(tree.examine(), Level::warning, "tokens", "0644");
    fs::permissions(tree.path() / "tokens.json", fs::perms(0620));
    only(tree.examine(), Level::error, "tokens", "0620");
  }
}

TEST_CASE("tokens.json and policy.json that say nothing valid") {
  Tree tree;
  SUBCASE("tokens") {
    Tree::write(tree.path() / "tokens.json", "{\"tokens\":[{\"id\":1}]}");
    only(tree.examine(), Level::error, "tokens", "/tokens/0/id");
  }
  SUBCASE("policy") {
    Tree::write(tree.path() / "policy.json", "{\"rules\":[{\"action\":\"maybe\"}]}");
    only(tree.examine(), Level::error, "policy", "/rules/0/action");
  }
}

TEST_CASE("sessions.json that is no JSON object") {
  Tree tree;
  for (const std::string& text : {std::string(), std::string("{\"a\":{"), std::string("[]"), std::string(40, '\0')}) {
    Tree::write(tree.sessions() / "sessions.json", text);
    only(tree.examine(), Level::error, "sessions", "is damaged");
  }
}

TEST_CASE("oddities of sessions.json are warnings") {
  Tree tree;
  SUBCASE("a key twice") {
    const std::string entry = R"({"sessionId":")" + id_a + R"("})";
    const std::string topic = R"("agent:main:t:topic:7":{"sessionId":")" + id_b + R"("})";
    Tree::write(tree.sessions() / "sessions.json", R"({"k":)" + entry + R"(,"k":)" + entry + "," + topic + "}");
    only(tree.examine(), Level::warning, "sessions", "appears twice");
  }
  SUBCASE("an entry that is no object") {
    std::string text = Tree::read(tree.sessions() / "sessions.json");
    text.insert(1, R"("odd":17,)");
    Tree::write(tree.sessions() / "sessions.json", text);
    only(tree.examine(), Level::warning, "sessions", "is not an object");
  }
  SUBCASE("a link is an error: the daemon would refuse it") {
    fs::rename(tree.sessions() / "sessions.json", tree.path() / "elsewhere.json");
    fs::create_symlink(tree.path() / "elsewhere.json", tree.sessions() / "sessions.json");
    CHECK(tree.examine().exit_code() == 2);
  }
}

TEST_CASE("transcripts: what cannot be read is counted and placed") {
  Tree tree;
  const std::string good = Tree::read(tree.transcript());
  SUBCASE("garbage between entries") {
    Tree::write(tree.transcript(), good + "garbage\n[1]\n" + message("dddddddd"));
    only(tree.examine(), Level::warning, "transcript",
         "2 of 6 lines cannot be read, the first is line 4 at offset " + std::to_string(good.size()));
  }
  SUBCASE("NULs, as after a power failure") {
    Tree::write(tree.transcript(), good + std::string(5000, '\0') + "\n" + message("dddddddd"));
    only(tree.examine(), Level::warning, "transcript", "1 of 5 lines");
  }
  SUBCASE("a torn tail") {
    Tree::write(tree.transcript(), good + R"({"type":"message","id":"dd)");
    only(tree.examine(), Level::warning, "transcript", "torn line (26 bytes)");
  }
  SUBCASE("a whole last line without its newline is well") {
    Tree::write(tree.transcript(), good.substr(0, good.size() - 1));
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("empty") {
    Tree::write(tree.transcript(), "");
    only(tree.examine(), Level::warning, "transcript", "is empty");
  }
  SUBCASE("blank lines") {
    Tree::write(tree.transcript(), good + "\n \r\n");
    only(tree.examine(), Level::warning, "transcript", "2 blank lines");
  }
  SUBCASE("another session's header") {
    Tree::write(tree.transcript(), header(id_b) + message("aaaaaaaa"));
    only(tree.examine(), Level::warning, "transcript", "header names session " + id_b);
  }
  SUBCASE("no header at all is well") {
    Tree::write(tree.transcript(), "{\"role\":\"user\",\"content\":\"x\"}\n");
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("a line deeper than any stack") {
    Tree::write(tree.transcript(), good + std::string(300'000, '[') + "\n");
    only(tree.examine(), Level::warning, "transcript", "1 of 4 lines");
  }
  SUBCASE("a FIFO in its place does not hang") {
    fs::remove(tree.transcript());
    REQUIRE(::mkfifo(tree.transcript().c_str(), 0600) == 0);
    only(tree.examine(), Level::error, "kind", "not a regular file");
  }
}

TEST_CASE("a line longer than the longest is unreadable, what follows it is not") {
  Tree tree;
  {
    std::ofstream out(tree.transcript(), std::ios::app | std::ios::binary);
    out << "{\"type\":\"message\",\"pad\":\"";
    const std::string block(1 << 20, 'x');
    for (int i = 0; i < 65; ++i) out << block;
    out << "\"}\n" << message("dddddddd");
  }
  only(tree.examine(), Level::warning, "transcript", "1 of 5 lines cannot be read, the first is line 4");
}

TEST_CASE("transcripts that are nobody's, entries that have none") {
  Tree tree;
  const std::string other = "33333333-3333-4333-8333-333333333333";
  SUBCASE("an orphan") {
    Tree::write(tree.sessions() / (other + ".jsonl"), header(other) + message("eeeeeeee"));
    only(tree.examine(), Level::warning, "orphan", "no entry in sessions.json has it (1 entries");
  }
  SUBCASE("a topic of a session is none, one of nobody is") {
    Tree::write(tree.sessions() / (id_a + "-topic-a%2Fb.jsonl"), header(id_a));
    CHECK(faults(tree.examine()).empty());
    Tree::write(tree.sessions() / (other + "-topic-1.jsonl"), header(other));
    CHECK(faults(tree.examine()).size() == 1);
  }
  SUBCASE("an entry that names another file") {
    const std::string name = "2026-01-27T07-59-39-146Z_" + other + ".jsonl";
    Tree::write(tree.sessions() / name, header(other));
    CHECK(faults(tree.examine()).size() == 1);
    std::string store = Tree::read(tree.sessions() / "sessions.json");
    store.insert(1, R"("fork":{"sessionId":")" + other + R"(","sessionFile":"/elsewhere/)" + name + R"("},)");
    Tree::write(tree.sessions() / "sessions.json", store);
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("a missing one is only told") {
    fs::remove(tree.transcript());
    const Report report = tree.examine();
    CHECK(faults(report).empty());
    CHECK(to_text(report).contains("1 session has no transcript yet"));
  }
  SUBCASE("archives and sidecars are no orphans") {
    Tree::write(tree.sessions() / (other + ".jsonl.reset.2026-02-21T21-31-50.885Z"), header(other));
    Tree::write(tree.sessions() / (other + ".trajectory.jsonl"), "{}\n");
    CHECK(faults(tree.examine()).empty());
  }
}

TEST_CASE("what crashes and other programs leave") {
  Tree tree;
  const auto dead = [] {
    Child child([] { return 0; });
    const pid_t pid = child.pid();
    child.wait();
    return std::to_string(pid);
  }();
  SUBCASE("a temporary file of a process that is gone") {
    Tree::write(tree.sessions() / ("sessions.json." + dead + ".0a1b.tmp"), "{");
    only(tree.examine(), Level::warning, "temporary", "interrupted");
  }
  SUBCASE("one of tokens.json") {
    Tree::write(tree.path() / ("tokens.json." + dead + ".0a1b.tmp"), "{");
    only(tree.examine(), Level::warning, "temporary", "interrupted");
  }
  SUBCASE("one of a process that lives is in flight") {
    std::ofstream(tree.sessions() / ("sessions.json." + std::to_string(::getpid()) + ".0a1b.tmp")) << "{";
    fs::permissions(tree.sessions() / ("sessions.json." + std::to_string(::getpid()) + ".0a1b.tmp"), fs::perms(0600));
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("a damaged store that was put aside") {
    Tree::write(tree.sessions() / "sessions.json.corrupt.2026-01-01T00-00-00.000Z", "");
    only(tree.examine(), Level::warning, "quarantine", "put aside");
  }
  SUBCASE("a database") {
    Tree::write(tree.sessions() / "sessions.sqlite", "SQLite format 3");
    only(tree.examine(), Level::warning, "foreign_gateway", "2026.8");
  }
  SUBCASE("anything else is only told") {
    Tree::write(tree.sessions() / "notes.txt", "x");
    const Report report = tree.examine();
    CHECK(faults(report).empty());
    CHECK(to_text(report).contains("notes.txt"));
  }
  SUBCASE("a folder that is no agent") {
    REQUIRE(store::make_dirs(tree.path() / "agents/Not An Agent/sessions"));
    only(tree.examine(), Level::warning, "agents", "is not an agent id");
  }
}

TEST_CASE("locks: a dead holder, a living one, none that can be read") {
  Tree tree;
  const fs::path lock = tree.sessions() / "sessions.json.lock";
  SUBCASE("dead") {
    Child child([] { return 0; });
    const pid_t pid = child.pid();
    child.wait();
    Tree::write(lock, R"({"pid":)" + std::to_string(pid) + "}");
    only(tree.examine(), Level::warning, "lock", "is gone");
  }
  SUBCASE("alive: another program writes here") {
    Child child([] {
      for (;;) ::pause();
      return 0;
    });
    Tree::write(lock, R"({"pid":)" + std::to_string(child.pid()) + R"(,"createdAt":"2026-01-01T00:00:00.000Z"})");
    only(tree.examine(), Level::warning, "foreign_gateway", "held by pid " + std::to_string(child.pid()));
  }
  SUBCASE("unreadable") {
    Tree::write(lock, "");
    only(tree.examine(), Level::warning, "lock", "does not name its holder");
  }
  SUBCASE("of a transcript, by the daemon itself") {
    Tree::write(tree.path() / "sessiond.lock", to_json(this_process(0)));
    Tree::write(tree.sessions() / (id_a + ".jsonl.lock"), R"({"pid":)" + std::to_string(::getpid()) + "}");
    CHECK(faults(tree.examine()).empty());
  }
}

TEST_CASE("the journal: damage is placed, and judged as the next start will") {
  Tree tree;
  tree.write_journal(20);
  const auto segments = tree.segments();
  REQUIRE(segments.size() > 2);
  const fs::path last = segments.back();
  const std::string tail = Tree::read(last);
  SUBCASE("a torn last batch, the normal mark of a kill") {
    Tree::write(last, tail + "0123abcd {\"seq\":21,\"ev");
    const Report report = tree.examine();
    CHECK(faults(report).empty());
    CHECK(to_text(report).contains("torn batch at offset " + std::to_string(tail.size())));
  }
  SUBCASE("the same is normal beside a daemon that writes") {
    Tree::write(last, tail + "0123abcd {\"seq\":21,\"ev");
    Tree::write(tree.path() / "sessiond.lock", to_json(this_process(0)));
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("a flipped bit in the middle") {
    std::string text = Tree::read(segments[0]);
    text[30] = static_cast<char>(text[30] ^ 1);
    Tree::write(segments[0], text);
    const Report report = tree.examine();
    INFO(to_text(report));
    CHECK(report.exit_code() == 2);
    CHECK(to_text(report).contains("is damaged at offset 0"));
    CHECK(to_text(report).contains("seq 1 is missing"));
    CHECK(to_text(report).contains("--repair"));
  }
  SUBCASE("a segment that is gone") {
    fs::remove(segments[1]);
    const Report report = tree.examine();
    INFO(to_text(report));
    CHECK(report.exit_code() == 2);
    CHECK(to_text(report).contains("missing"));
  }
  SUBCASE("holes that a repair knows are only told") {
    fs::remove(segments[1]);
    {
      REQUIRE(journal::FileJournal::open({.dir = tree.journal(), .repair = true}));
    }
    const Report report = tree.examine();
    INFO(to_text(report));
    CHECK(report.exit_code() < 2);
    CHECK(to_text(report).contains("known to be lost"));
  }
  SUBCASE("EPOCH is gone") {
    fs::remove(tree.journal() / "EPOCH");
    only(tree.examine(), Level::warning, "journal", "missing or unreadable");
  }
  SUBCASE("a checkpoint that knows more than the journal") {
    Tree::write(tree.journal() / "CHECKPOINT", R"({"epoch":"00000000","seq":21,"agents":{}})");
    only(tree.examine(), Level::error, "checkpoint", "to seq 21, the journal ends at 20");
    Tree::write(tree.journal() / "CHECKPOINT", R"({"epoch":"00000000","seq":20,"agents":{}})");
    only(tree.examine(), Level::warning, "checkpoint", "of epoch 00000000");
    Tree::write(tree.journal() / "CHECKPOINT", "{\"seq\":");
    only(tree.examine(), Level::warning, "checkpoint", "is damaged");
  }
  SUBCASE("a copy of an earlier generation that is damaged") {
    REQUIRE(store::make_dirs(tree.journal() / "previous"));
    Tree::write(tree.journal() / "previous/main.json", "");
    only(tree.examine(), Level::warning, "previous", "damaged");
  }
  SUBCASE("a file of somebody else") {
    Tree::write(tree.journal() / "readme", "x");
    only(tree.examine(), Level::warning, "foreign_file", "not a sessiond file");
  }
  SUBCASE("what it says is what a start does") {
    std::string text = Tree::read(segments[0]);
    text[30] = static_cast<char>(text[30] ^ 1);
    Tree::write(segments[0], text);
    fs::remove(fs::path(segments[0]).replace_extension(".idx"));
    CHECK(tree.examine().exit_code() == 2);
    CHECK_FALSE(journal::FileJournal::open({.dir = tree.journal()}));
  }
}

TEST_CASE("another path template") {
  TempDir dir;
  fs::permissions(dir.path(), fs::perms::owner_all);
  REQUIRE(store::make_dirs(dir / "s/main"));
  Tree::write(dir / "s/main/store.json", "");
  const Report report = run_doctor({.state_dir = dir.path(), .path_template = "s/{agentId}/store.json"});
  only(report, Level::error, "sessions", "is damaged");
}

TEST_CASE("a cancelled examination says so") {
  Tree tree;
  const std::atomic<bool> cancel = true;
  const Report report = run_doctor({.state_dir = tree.path(), .cancel = &cancel});
  CHECK(report.exit_code() == 1);
  CHECK(to_text(report).contains("interrupted"));
}

TEST_CASE("the real trees have no errors") {
  const fs::path trees = fs::path(SESSIOND_SOURCE_DIR) / "../shared/data/openclaw";
  if (!fs::exists(trees)) return;
  int count = 0;
  for (const auto& version : fs::directory_iterator(trees)) {
    if (!version.is_directory()) continue;
    TempDir dir;
    fs::copy(version.path(), dir.path(), fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(dir.path()))
      fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0700) : fs::perms(0600));
    const Report report = run_doctor({.state_dir = dir.path()});
    INFO(to_text(report));
    for (const Finding& finding : report.findings()) {
      const bool fine = finding.level == Level::ok || finding.check == "disk_space" || finding.check == "file_system" ||
                        finding.check == "orphan";
      CHECK(fine);
    }
    ++count;
  }
  CHECK(count == 4);
}

TEST_CASE("entries that were counted and are not there") {
  Tree tree;
  std::string store = Tree::read(tree.sessions() / "sessions.json");
  store.replace(store.find("\"updatedAt\":1"), 13, "\"messageCount\":2,\"updatedAt\":1");
  Tree::write(tree.sessions() / "sessions.json", store);
  CHECK(faults(tree.examine()).empty());
  SUBCASE("some") {
    Tree::write(tree.transcript(), header(id_a) + message("aaaaaaaa"));
    only(tree.examine(), Level::warning, "missing", "had 2 entries, 1 are there");
  }
  SUBCASE("all") {
    fs::remove(tree.transcript());
    only(tree.examine(), Level::warning, "missing", "is not there");
    tree.write_journal(3);  // which may bring them
    CHECK(faults(tree.examine()).empty());
  }
}

TEST_CASE("links out of the state directory") {
  Tree tree;
  TempDir outside;
  SUBCASE("a transcript") {
    fs::create_symlink(outside / "x.jsonl", tree.sessions() / "x.jsonl");
    only(tree.examine(), Level::error, "symlink", "not in the state directory");
  }
  SUBCASE("an agent's folder, which is not looked into") {
    Tree::write(outside / "sessions.json", "damaged");
    REQUIRE(store::make_dirs(tree.path() / "agents/evil"));
    fs::create_directory_symlink(outside.path(), tree.path() / "agents/evil/sessions");
    only(tree.examine(), Level::error, "agents", "symbolic link out of");
  }
}

TEST_CASE("store and journal that do not belong together, a store that is gone") {
  Tree tree;
  tree.write_journal(3);
  const fs::path file = tree.sessions() / "sessions.json";
  std::string store = Tree::read(file);
  SUBCASE("a rev that the journal has not given") {
    store.replace(store.find("\"updatedAt\":1"), 13, "\"rev\":4,\"updatedAt\":1");
    Tree::write(file, store);
    only(tree.examine(), Level::error, "checkpoint", "above the journal's last seq 3");
  }
  SUBCASE("gone, with an earlier generation") {
    REQUIRE(store::make_dirs(tree.journal() / "previous"));
    Tree::write(tree.journal() / "previous/main.json", store);
    fs::remove(file);
    const Report report = tree.examine();
    CHECK(report.exit_code() == 2);
    CHECK(to_text(report).contains("is missing; an earlier generation has 2 entries"));
  }
}

TEST_CASE("idempotency answers that cannot be read") {
  Tree tree;
  tree.write_journal(3);
  REQUIRE(store::make_dirs(tree.journal() / "keys"));
  Tree::write(tree.journal() / "keys/00000000000000000001.jsonl", "garbage\n");
  only(tree.examine(), Level::warning, "idempotency", "");
}

TEST_CASE("gateways of the OpenClaw family") {
  Tree tree;
  SUBCASE("by what they wrote here") {
    const fs::path file = tree.path() / "openclaw.json";
    Tree::write(file, "{ // JSON5\n \"meta\": {\"lastTouchedVersion\": \"2026.4.28\"},}");
    CHECK(faults(tree.examine()).empty());
    Tree::write(file, "{\"meta\":{\"lastTouchedVersion\":\"2026.4.29\"}}");
    only(tree.examine(), Level::warning, "foreign_gateway", "prunes a store to 500 entries");
    Tree::write(file,
                "{\"meta\":{\"lastTouchedVersion\":\"2026.4.29\"},\"session\":{\"maintenance\":{\"maxEntries\":9}}}");
    CHECK(faults(tree.examine()).empty());
    Tree::write(file, "{\"meta\":{\"lastTouchedVersion\":\"2026.6.11\"}}");
    only(tree.examine(), Level::warning, "foreign_gateway", "takes no lock");
    Tree::write(file, "{\"meta\":{\"lastTouchedVersion\":\"2026.8.1\"}}");
    only(tree.examine(), Level::warning, "foreign_gateway", "SQLite");
    Tree::write(file, "no JSON");
    CHECK(faults(tree.examine()).empty());
  }
  SUBCASE("by the process that runs on this directory") {
    int ready[2];
    REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);  // closed by a successful exec
    const std::string state = "OPENCLAW_STATE_DIR=" + tree.path().native();
    Child child([&] {
      const char* arguments[] = {"openclaw-gateway", "60", nullptr};
      const char* environment[] = {state.c_str(), nullptr};
      ::execve("/bin/sleep", const_cast<char**>(arguments), const_cast<char**>(environment));
      return 1;
    });
    ::close(ready[1]);
    char none = 0;
    REQUIRE(::read(ready[0], &none, 1) == 0);
    ::close(ready[0]);
    only(tree.examine(), Level::warning, "foreign_gateway", "pid " + std::to_string(child.pid()));
  }
}

TEST_CASE("the index of the search") {
  Tree tree;
  REQUIRE(store::make_dirs(tree.path() / "search"));
  Tree::write(tree.path() / "search/index.db", "SQLite format 3 and more");
  Tree::write(tree.path() / "search/index.db-wal", "anything");
  Tree::write(tree.path() / "search/index.db-journal", "anything");  // there while the file is made
  CHECK(faults(tree.examine()).empty());
  CHECK(to_text(tree.examine()).contains("an index of "));
  SUBCASE("damaged: nothing is to be done") {
    Tree::write(tree.path() / "search/index.db", "garbage");
    only(tree.examine(), Level::warning, "search", "is damaged");
  }
  SUBCASE("a folder in its place") {
    fs::remove(tree.path() / "search/index.db");
    fs::create_directory(tree.path() / "search/index.db");
    fs::permissions(tree.path() / "search/index.db", fs::perms::owner_all);
    only(tree.examine(), Level::error, "kind", "is a folder");
  }
  SUBCASE("a file in the folder's place") {
    fs::remove_all(tree.path() / "search");
    Tree::write(tree.path() / "search", "x");
    only(tree.examine(), Level::error, "search", "is no folder");
  }
  SUBCASE("readable by others") {
    fs::permissions(tree.path() / "search/index.db", fs::perms(0644));
    only(tree.examine(), Level::warning, "modes", "1 file can be reached");
  }
}
