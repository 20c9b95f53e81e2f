// Finds foreign programs of the OpenClaw family that write the same tree: those that run now, from /proc, and the one
// that last wrote its configuration here. What each version does to a shared store:
//   to 2026.4.28   takes sessions.json.lock
//   from 2026.4.29 prunes a store to 500 entries, unless session.maintenance says otherwise
//   2026.5 - 2026.7 takes no lock
//   from 2026.8    keeps sessions in SQLite
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <ranges>

#include "config/syntax.hpp"
#include "daemon/doctor/examination.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::doctor {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 3> family{"openclaw", "moltbot", "clawdbot"};

using Version = std::array<int, 3>;

std::optional<Version> parse_version(std::string_view text) {
  Version version{};
  for (std::size_t i = 0; i < version.size(); ++i) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version[i]);
    if (error != std::errc()) return {};
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (i + 1 < version.size() && !text.starts_with('.')) return {};
    if (i + 1 < version.size()) text.remove_prefix(1);
  }
  return version;
}

// Says how this version harms a store that it shares with the daemon; "" when it follows the lock protocol.
std::string habits_of(const std::optional<Version>& version, bool maintenance_configured) {
  if (!version) return "if it is 2026.4.29 or later it prunes stores to 500 entries, from 2026.5 on without a lock";
  if (*version >= Version{2026, 8, 0}) return "it keeps sessions in SQLite, which sessiond does not read";
  std::string text;
  if (*version >= Version{2026, 4, 29} && !maintenance_configured)
    text = "it prunes a store to 500 entries unless session.maintenance says otherwise";
  if (*version >= Version{2026, 5, 0}) text += fmt::format("{}it takes no lock", text.empty() ? "" : ", and ");
  return text;
}

bool is_of_family(std::string_view argument) {
  return std::ranges::any_of(family, [&](std::string_view name) {
    const fs::path path(argument);
    return std::ranges::any_of(path, [&](const fs::path& part) {
      const std::string& text = part.native();
      return text == name || (text.starts_with(name) && (text[name.size()] == '-' || text[name.size()] == '.'));
    });
  });
}

std::vector<std::string> split_nul(std::string_view text) {
  std::vector<std::string> parts;
  for (const auto part : text | std::views::split('\0')) parts.emplace_back(std::string_view(part));
  return parts;
}

// Reads the version from the package.json above the program's file.
std::optional<Version> version_of(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (!is_of_family(argument)) continue;
    std::error_code error;
    fs::path dir = fs::canonical(argument, error).parent_path();
    for (int up = 0; up < 4 && !error && dir.has_relative_path(); ++up, dir = dir.parent_path()) {
      const auto package = store::read_file(dir / "package.json");
      if (package && json::check(*package))
        if (auto version = parse_version(json::string_at(*package, "version").value_or(""))) return version;
    }
  }
  return {};
}

// Returns the state directory of the process, from its environment; nothing when that cannot be read.
std::optional<fs::path> state_dir_of(const fs::path& process) {
  const auto environ = store::read_file(process / "environ");
  if (!environ) return {};
  std::string home;
  for (const std::string& variable : split_nul(*environ)) {
    for (const std::string_view name : {"OPENCLAW_STATE_DIR=", "MOLTBOT_STATE_DIR=", "CLAWDBOT_STATE_DIR="})
      if (variable.starts_with(name)) return variable.substr(name.size());
    if (variable.starts_with("HOME=")) home = variable.substr(5);
  }
  if (home.empty()) return {};
  return fs::path(home) / ".openclaw";
}

void look_at_process(Examination& exam, const fs::path& process) {
  const auto command = store::read_file(process / "cmdline");
  if (!command) return;  // it has ended meanwhile
  const auto arguments = split_nul(*command);
  if (std::ranges::none_of(arguments, is_of_family)) return;
  const auto state = state_dir_of(process);
  std::error_code error;
  const bool here = state && fs::equivalent(*state, exam.options.state_dir, error);
  if (state && !here) return;
  const std::string habits = habits_of(version_of(arguments), false);
  exam.report.warning("foreign_gateway", exam.options.state_dir.native(),
                      fmt::format("pid {} ({}) {}{}{}", process.filename().native(), arguments.front(),
                                  here ? "keeps its state here" : "may keep its state here; its environment is hidden",
                                  habits.empty() ? "" : ": ", habits),
                      "set store.mode to \"shared\" and session.maintenance in its configuration, or stop it");
}

// Reads openclaw.json beside agents/. It is JSON5, of which comments and trailing commas are understood; when it uses
// more of JSON5, nothing is reported.
void look_at_configuration(Examination& exam) {
  for (const std::string_view name : family) {
    const fs::path path = exam.options.state_dir / fmt::format("{}.json", name);
    const auto text = store::read_file(path);
    if (!text) continue;
    const auto document = config::parse_document(*text);
    if (!document) continue;
    const boost::json::value& root = document->root;
    boost::system::error_code none;
    const auto* touched = root.find_pointer("/meta/lastTouchedVersion", none);
    if (touched == nullptr || !touched->is_string()) continue;
    const bool configured = root.find_pointer("/session/maintenance/maxEntries", none) != nullptr;
    const std::string_view version = touched->get_string();
    const std::string habits = habits_of(parse_version(version), configured);
    if (habits.empty()) {
      exam.report.ok("foreign_gateway", path.native(), fmt::format("last written by version {}", version));
    } else {
      exam.report.warning("foreign_gateway", path.native(),
                          fmt::format("last written by version {}: {}", version, habits),
                          "if it still runs on this directory: set session.maintenance in it, and store.mode to "
                          "\"shared\"; else move the file away");
    }
  }
}

}  // namespace

void check_gateways(Examination& exam) {
  look_at_configuration(exam);
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().native();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(::getpid())) continue;
    look_at_process(exam, it->path());
  }
}

}  // namespace sessiond::doctor
