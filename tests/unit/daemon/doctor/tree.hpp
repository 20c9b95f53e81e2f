// A small sound state directory of one agent, and what its tests ask of a report.
#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <semaphore>
#include <sstream>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/doctor/doctor.hpp"
#include "store/files.hpp"
#include "store/journal/file_journal.hpp"
#include "tests/unit/temp_dir.hpp"

namespace sessiond::testing {

namespace fs = std::filesystem;
using Level = doctor::Level;

inline const std::string id_a = "11111111-1111-4111-8111-111111111111";
inline const std::string id_b = "22222222-2222-4222-8222-222222222222";

inline std::string header(const std::string& id) {
  return R"({"type":"session","version":3,"id":")" + id +
         R"(","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"})"
         "\n";
}
inline std::string message(const std::string& id) {
  return R"({"type":"message","id":")" + id +
         R"(","parentId":null,"message":{"role":"user","content":"x"}})"
         "\n";
}

// A small sound store of one agent; each test breaks something of it.
class Tree {
 public:
  Tree() {
    fs::permissions(dir_.path(), fs::perms::owner_all);
    REQUIRE(store::make_dirs(sessions()));
    write(sessions() / "sessions.json", R"({"agent:main:main":{"sessionId":")" + id_a +
                                            R"(","updatedAt":1},"agent:main:t:topic:7":{"sessionId":")" + id_b +
                                            R"(","updatedAt":2}})");
    write(sessions() / (id_a + ".jsonl"), header(id_a) + message("aaaaaaaa") + message("bbbbbbbb"));
    write(sessions() / (id_b + "-topic-7.jsonl"), header(id_b) + message("cccccccc"));
  }
  fs::path path() const { return dir_.path(); }
  fs::path sessions() const { return dir_ / "agents/main/sessions"; }
  fs::path journal() const { return dir_ / "journal"; }
  fs::path transcript() const { return sessions() / (id_a + ".jsonl"); }

  static void write(const fs::path& path, std::string_view text) {
    REQUIRE(store::replace_file(path, text));
    // As if it had been there for a while: what is fresh may be in flight.
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  static std::string read(const fs::path& path) { return store::read_file(path).value(); }

  void write_journal(int batches) const {
    auto journal_log = journal::FileJournal::open({.dir = journal(), .segment_bytes = 2000});
    REQUIRE(journal_log);
    std::binary_semaphore written{0};
    (*journal_log)->tail([&written](const journal::BatchOutcome&) { written.release(); });
    for (int i = 1; i <= batches; ++i) {
      const std::string event = R"({"seq":)" + std::to_string(i) + R"(,"pad":")" + std::string(300, 'x') + R"("})";
      (*journal_log)
          ->append({{.first_seq = static_cast<std::uint64_t>(i),
                     .events = {std::make_shared<const std::string>(event)},
                     .answers = {},
                     .line_positions = {}}});
      written.acquire();  // a line each
    }
  }
  std::vector<fs::path> segments() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(journal()))
      if (entry.path().extension() == ".jsonl") found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  }
  doctor::Report examine() const { return doctor::run_doctor({.state_dir = dir_.path()}); }

 private:
  TempDir dir_;
};

inline config::Config config_of(const Tree& tree) {
  config::Config config;
  config.state_dir = tree.path().native();
  config.store.damage_after_ms = 0;  // what was written a moment ago counts
  return config;
}

// Of one check, those that are not ok; the machine's disk and file system are none of these tests' business.
inline std::vector<doctor::Finding> faults(const doctor::Report& report) {
  std::vector<doctor::Finding> all;
  for (const doctor::Finding& finding : report.findings())
    if (finding.level != Level::ok && finding.check != "disk_space" && finding.check != "file_system")
      all.push_back(finding);
  return all;
}

inline void only(const doctor::Report& report, Level level, std::string_view check, std::string_view detail) {
  INFO(doctor::to_text(report));
  const auto found = faults(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].level == level);
  CHECK(found[0].check == check);
  CHECK(found[0].detail.contains(detail));
  CHECK_FALSE(found[0].advice.empty());
}

// Every file with its content, mode and time: what a look must not change.
inline std::string fingerprint(const fs::path& dir) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    struct stat status{};
    REQUIRE(::lstat(entry.path().c_str(), &status) == 0);
    std::ostringstream line;
    line << entry.path() << ' ' << status.st_ino << ' ' << status.st_mode << ' ' << status.st_size << ' '
         << status.st_mtim.tv_nsec << ' ' << status.st_ctim.tv_sec << '.' << status.st_ctim.tv_nsec;
    lines.push_back(line.str());
  }
  std::ranges::sort(lines);
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  return all;
}

}  // namespace sessiond::testing
