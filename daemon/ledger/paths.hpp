// The paths of all files: below the state directory, but for the stores and transcripts of agents, which may lie below
// another folder (store.allowOutside).
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::ledger {

// The folders in journal/.
inline constexpr std::array<std::string_view, 12> journal_folders{
    "archives", "early", "ends", "index", "kept", "keys", "last", "messages", "outbox", "policies", "previous", "runs"};

class Paths {
 public:
  Paths(std::filesystem::path state_dir, std::string_view path_template);

  const std::filesystem::path& state_dir() const { return state_dir_; }
  // The folder below which the agents' folders lie: the state directory, or the folder that an absolute template names
  // before {agentId}.
  const std::filesystem::path& root() const { return root_; }
  bool outside() const { return root_ != state_dir_; }  // as configured: links are not resolved
  std::filesystem::path journal_dir() const { return state_dir_ / "journal"; }
  std::filesystem::path store_file(std::string_view agent) const;  // …/sessions.json
  std::string store_name(std::string_view agent) const;            // the same as text
  std::string sessions_dir(std::string_view agent) const;          // relative to root(), with its '/'
  // A file in that folder: sessions_dir(agent) + file, with `before` before it.
  std::string transcript(std::string_view agent, std::string_view file, std::string_view before = {}) const;
  // The template and an agent's folder in a backup, which is a state directory that needs nothing outside.
  std::string template_in_backup() const;
  std::string sessions_dir_in_backup(std::string_view agent) const;
  std::filesystem::path sidecar(std::string_view agent, std::string_view file) const;
  std::filesystem::path previous(std::string_view agent) const;
  std::filesystem::path known_ends(std::string_view agent) const;
  std::filesystem::path archive_records(std::string_view agent) const;
  // The folder that holds the agents' folders.
  std::filesystem::path agents_dir() const;
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
  std::filesystem::path state_dir_;
  std::filesystem::path root_;
  std::string before_;  // template below root_, up to {agentId}
  std::string after_;   // template after it
};

// A file of ours, relative to the root() or the state directory that it lies below.
std::filesystem::path relative(const Paths& paths, const std::filesystem::path& file);
// The folders of files beside transcripts (store::is_beside).
inline constexpr std::array<std::string_view, 2> folders_beside{"changes", "logs"};
// Where those of an agent lie, relative to root(), with its '/': beside the folder sessions, else in the folder of the
// store.
std::string dir_beside(const Paths& paths, std::string_view agent, std::string_view folder);
std::string dir_beside(const Paths& paths, std::string_view agent);  // the folder of these
std::string dir_beside_in_backup(const Paths& paths, std::string_view agent, std::string_view folder);
// A transcript in the agent's folder, or a file beside it, relative to root().
std::string file_path(const Paths& paths, std::string_view agent, std::string_view name);
// Tells whether the path of a transcript or log, relative to root(), is that of a log.
bool is_log_path(std::string_view path);

}  // namespace sessiond::ledger
