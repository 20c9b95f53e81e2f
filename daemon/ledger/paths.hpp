// The paths of all files below the state directory.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::ledger {

class Paths {
 public:
  Paths(std::filesystem::path state_dir, std::string_view path_template);

  const std::filesystem::path& state_dir() const { return state_dir_; }
  std::filesystem::path journal_dir() const { return state_dir_ / "journal"; }
  std::filesystem::path store_file(std::string_view agent) const;  // …/sessions.json
  std::string sessions_dir(std::string_view agent) const;          // relative to the state directory, with its '/'
  std::filesystem::path sidecar(std::string_view agent, std::string_view file) const;
  std::filesystem::path previous(std::string_view agent) const;
  std::filesystem::path known_ends(std::string_view agent) const;
  std::filesystem::path archive_records(std::string_view agent) const;
  // Agents that have a folder on disk, sorted. Blocks.
  std::vector<std::string> agents() const;
  // Agents that have a file in journal/previous, sorted. Blocks.
  std::vector<std::string> kept_agents() const;
  // Folders in which agents' folders are made: the one that holds all agents (if it is missing, as much of its path as
  // exists), and the folders in it that have no sessions yet. Blocks.
  std::vector<std::filesystem::path> agent_parent_dirs() const;
  // Databases in which OpenClaw 2026.8 and later keep what they kept in sessions.json, sorted. Blocks.
  std::vector<std::filesystem::path> databases() const;
  // The agent whose store lies in this folder of the template, or "".
  std::string agent_of_dir(std::string_view name) const;

 private:
  std::filesystem::path agents_dir() const;

  std::filesystem::path state_dir_;
  std::string before_;  // template up to {agentId}
  std::string after_;   // template after it
};

}  // namespace sessiond::ledger
