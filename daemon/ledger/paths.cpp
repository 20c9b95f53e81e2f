#include "daemon/ledger/paths.hpp"

#include <algorithm>

#include "store/files.hpp"
#include "store/names.hpp"

namespace sessiond::ledger {

namespace {
// The folder of a backup that holds the stores.
std::string backup_folder(const Paths& paths) { return paths.outside() ? "stores/" : ""; }
}  // namespace

Paths::Paths(std::filesystem::path state_dir, std::string_view path_template)
    : state_dir_(std::move(state_dir)), root_(state_dir_) {
  constexpr std::string_view mark = "{agentId}";
  const std::size_t at = path_template.find(mark);
  before_ = path_template.substr(0, at);
  after_ = at == path_template.npos ? "" : path_template.substr(at + mark.size());
  if (!before_.starts_with('/')) return;
  const std::size_t slash = before_.find_last_of('/');
  root_ = before_.substr(0, std::max<std::size_t>(slash, 1));
  before_.erase(0, slash + 1);
}

std::filesystem::path Paths::store_file(std::string_view agent) const { return store_name(agent); }
std::string Paths::store_name(std::string_view agent) const {
  const std::string& root = root_.native();
  std::string name;
  name.reserve(root.size() + 1 + before_.size() + agent.size() + after_.size());
  name.append(root);
  if (!root.ends_with('/')) name += '/';
  return name.append(before_).append(agent).append(after_);
}

std::string Paths::sessions_dir(std::string_view agent) const {
  std::string dir;
  dir.reserve(before_.size() + agent.size() + after_.size());
  dir.append(before_).append(agent).append(after_);
  dir.resize(dir.find_last_of('/') + 1);
  return dir;
}

std::string Paths::transcript(std::string_view agent, std::string_view file, std::string_view before) const {
  const std::string_view folder = std::string_view(after_).substr(0, after_.rfind('/') + 1);
  std::string path;
  path.reserve(before.size() + before_.size() + agent.size() + folder.size() + file.size());
  return path.append(before).append(before_).append(agent).append(folder).append(file);
}

std::filesystem::path relative(const Paths& paths, const std::filesystem::path& file) {
  const auto below = file.lexically_relative(paths.root());
  return below.empty() || *below.begin() == ".." ? file.lexically_relative(paths.state_dir()) : below;
}

std::string Paths::template_in_backup() const { return backup_folder(*this) + before_ + "{agentId}" + after_; }

std::string Paths::sessions_dir_in_backup(std::string_view agent) const {
  return backup_folder(*this) + sessions_dir(agent);
}

std::filesystem::path Paths::sidecar(std::string_view agent, std::string_view file) const {
  return journal_dir() / "index" / agent / (std::string(file) + ".idx");
}

std::filesystem::path Paths::previous(std::string_view agent) const {
  return journal_dir() / "previous" / (std::string(agent) + ".json");
}

std::filesystem::path Paths::known_ends(std::string_view agent) const {
  return journal_dir() / "ends" / (std::string(agent) + ".jsonl");
}

std::filesystem::path Paths::archive_records(std::string_view agent) const {
  return journal_dir() / "archives" / (std::string(agent) + ".jsonl");
}

std::string Paths::agent_of_dir(std::string_view name) const {
  const std::string prefix = before_.substr(before_.find_last_of('/') + 1);
  const std::string suffix = after_.substr(0, after_.find('/'));
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix)) return {};
  const std::string_view agent = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  return store::valid_agent_id(agent) ? std::string(agent) : std::string();
}

std::filesystem::path Paths::agents_dir() const {
  const auto slash = before_.find_last_of('/');
  return slash == std::string::npos ? root_ : root_ / before_.substr(0, slash);
}

std::vector<std::filesystem::path> Paths::agent_parent_dirs() const {
  std::error_code error;
  std::filesystem::path top = agents_dir();
  while (top != root_ && !std::filesystem::exists(top, error)) top = top.parent_path();
  std::vector<std::filesystem::path> out{std::move(top)};
  store::each_in(agents_dir(), [&](const std::filesystem::directory_entry& entry) {
    const std::string agent = agent_of_dir(entry.path().filename().string());
    if (!agent.empty() && entry.is_directory(error) && !std::filesystem::exists(root_ / sessions_dir(agent), error))
      out.push_back(entry.path());
    // A database may appear there.
    if (!agent.empty() && std::filesystem::is_directory(entry.path() / "agent", error))
      out.push_back(entry.path() / "agent");
  });
  return out;
}

std::vector<std::filesystem::path> Paths::databases() const {
  std::vector<std::filesystem::path> out;
  std::error_code error;
  const auto look = [&](std::filesystem::path path) {
    if (std::filesystem::is_regular_file(path, error)) out.push_back(std::move(path));
  };
  look(state_dir_ / "state" / "openclaw.sqlite");
  store::each_in(state_dir_ / "agents", [&](const std::filesystem::directory_entry& entry) {
    look(entry.path() / "agent" / "openclaw-agent.sqlite");
  });
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> Paths::kept_agents() const {
  std::vector<std::string> out;
  store::each_in(journal_dir() / "previous", [&](const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    std::string agent = name.substr(0, name.find('.'));  // an agent id has none
    if (name.ends_with(".json") && store::valid_agent_id(agent)) out.push_back(std::move(agent));
  });
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

std::vector<std::string> Paths::agents() const {
  std::vector<std::string> out;
  std::error_code error;
  store::each_in(agents_dir(), [&](const std::filesystem::directory_entry& entry) {
    std::string agent = agent_of_dir(entry.path().filename().string());
    if (!agent.empty() && std::filesystem::exists(root_ / sessions_dir(agent), error)) out.push_back(std::move(agent));
  });
  std::ranges::sort(out);
  return out;
}

std::string dir_beside(const Paths& paths, std::string_view agent) {
  constexpr std::string_view usual = "/sessions/";
  std::string dir = paths.sessions_dir(agent);
  if (dir.ends_with(usual)) dir.resize(dir.size() - usual.size() + 1);
  return dir;
}

std::string dir_beside(const Paths& paths, std::string_view agent, std::string_view folder) {
  return dir_beside(paths, agent).append(folder).append("/");
}

std::string dir_beside_in_backup(const Paths& paths, std::string_view agent, std::string_view folder) {
  return backup_folder(paths) + dir_beside(paths, agent, folder);
}

std::string file_path(const Paths& paths, std::string_view agent, std::string_view name) {
  if (!store::is_beside(name)) return paths.transcript(agent, name);
  const std::size_t slash = name.find('/');
  return dir_beside(paths, agent, name.substr(0, slash)).append(name.substr(slash + 1));
}

bool is_log_path(std::string_view path) {
  const std::size_t slash = path.find_last_of('/');
  return slash != path.npos && (path.substr(0, slash).ends_with("/logs") || path.substr(0, slash) == "logs");
}

}  // namespace sessiond::ledger
