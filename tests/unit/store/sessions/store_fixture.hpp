// A store of one agent in a directory of its own, and what other programs do to it.
#pragma once

#include <fmt/format.h>

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/sessions/sessions_file.hpp"
#include "tests/unit/temp_dir.hpp"

namespace sessiond::testing {

inline sessions::RawEntry entry(std::string text) { return std::make_shared<const std::string>(std::move(text)); }
inline sessions::NamedEntry named(std::string key, std::string text) {
  return {std::move(key), entry(std::move(text))};
}

struct StoreFixture {
  TempDir dir;
  std::filesystem::path sessions = dir / "agents/main/sessions";
  std::filesystem::path path = sessions / "sessions.json";
  std::filesystem::path generations = dir / "journal/previous";
  std::filesystem::path previous = generations / "main.json";
  bool exchange = true;
  sessions::Patience patience{.unchanged = {}};  // a store that is not whole is damaged at once

  explicit StoreFixture(TempDir::On on = TempDir::On::disk) : dir(on) { REQUIRE(store::make_dirs(sessions)); }

  sessions::SessionsFile::Options options() const {
    return {.path = path,
            .previous = previous,
            .lock = {.timeout = std::chrono::seconds(60), .poll_interval = std::chrono::milliseconds(1)},
            .exchange = exchange,
            .patience = patience};
  }
  // Writes as a foreign program does: a new file by rename.
  void replace(std::string_view text) const { REQUIRE(store::replace_file(path, text)); }
  // Writes as an editor does.
  void rewrite(std::string_view text) const { std::ofstream(path, std::ios::trunc) << text; }
  std::string text() const { return store::read_file(path).value_or("(none)"); }
  std::set<std::string> names(const std::filesystem::path& where) const {
    std::set<std::string> found;
    for (const auto& file : std::filesystem::directory_iterator(where)) found.insert(file.path().filename());
    return found;
  }
  // The only file in the store's folder whose name begins so.
  std::string the_file(std::string_view beginning) const {
    std::string found;
    for (const std::string& name : names(sessions)) {
      if (!name.starts_with(beginning)) continue;
      CHECK(found.empty());
      found = name;
    }
    return found;
  }
};

inline sessions::LoadReport loaded(sessions::SessionsFile& file) {
  auto report = file.load();
  REQUIRE_MESSAGE(report, (report ? "" : report.error().detail));
  return std::move(*report);
}
inline sessions::CheckpointResult checkpointed(sessions::SessionsFile& file,
                                               const std::vector<sessions::NamedEntry>& changes) {
  auto result = file.checkpoint(changes);
  REQUIRE_MESSAGE(result, (result ? "" : result.error().detail));
  return std::move(*result);
}
inline std::optional<sessions::ForeignChange> polled(sessions::SessionsFile& file) {
  auto change = file.poll();
  REQUIRE_MESSAGE(change, (change ? "" : change.error().detail));
  return std::move(*change);
}
inline std::string keys(const std::vector<sessions::NamedEntry>& entries) {
  std::string text;
  for (const sessions::NamedEntry& one : entries) text += one.key + " ";
  return text;
}

}  // namespace sessiond::testing
