#include "config/search_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "config/rules.hpp"

namespace sessiond::config {
namespace {

std::string normal(std::string_view path) { return std::filesystem::path(path).lexically_normal().native(); }

bool is_below(const std::string& path, std::string folder) {
  if (!folder.ends_with('/')) folder += '/';
  return path.starts_with(folder);
}

// The files that the daemon has by its configuration, beside the stores.
std::vector<std::string> other_files(const Config& config) {
  std::vector<std::string> files;
  for (const auto* file : {&config.listen.unix, &config.listen.tls.cert, &config.listen.tls.key,
                           &config.listen.tls.client_ca, &config.audit.path})
    if (*file) files.push_back(normal(**file));
  if (!config.audit.path) return files;
  for (int older = 1; older <= 4; ++older) files.push_back(normal(*config.audit.path) + fmt::format(".{}", older));
  return files;
}

}  // namespace

std::string search_folder(std::string_view state_dir) { return normal(state_dir) + "/search/"; }

std::string check_search_path(Config& config) {
  const std::string path = config.store.search.path = normal(config.store.search.path);
  const std::vector<std::string> others = other_files(config);
  for (const char* suffix : {"", "-wal", "-shm"})
    if (std::ranges::find(others, path + suffix) != others.end())
      return fmt::format("{}{} is another file of this configuration", path, suffix);
  if (is_below(path, search_folder(config.state_dir))) return {};
  if (is_below(path, normal(config.state_dir)))
    return "in the state directory it must be in search/, where nothing else is";
  const std::string& store = config.store.path_template;
  if (!is_outside(store)) return {};
  const std::string agents = normal(store.substr(0, store.find("{agentId}")));
  if (is_below(path, agents)) return fmt::format("must not be in {}, where the agents' stores are", agents);
  return {};
}

}  // namespace sessiond::config
