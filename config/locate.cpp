#include "config/locate.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>

#include "config/read.hpp"
#include "config/search_path.hpp"

namespace sessiond::config {
namespace {

constexpr std::size_t most_file_bytes = 1U << 20;
constexpr std::string_view ttl_variable = "OPENCLAW_SESSION_CACHE_TTL_MS";

std::string_view lookup(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view{} : std::string_view(found->second);
}

std::string home_of_user() {
  std::array<char, std::size_t{16} * 1024> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return entry.pw_dir == nullptr ? "" : entry.pw_dir;
}

std::string working_dir() {
  std::array<char, PATH_MAX> buffer{};
  return getcwd(buffer.data(), buffer.size()) == nullptr ? std::string(".") : std::string(buffer.data());
}

// Whether the file certainly does not exist. A dangling link or a folder without access does not count.
bool certainly_absent(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

std::expected<std::string, ConfigFault> read_file_at(const std::string& path) {
  const auto failed = [&](int error) {
    return std::unexpected(
        ConfigFault{"", fmt::format("reading {}: {}", path, std::generic_category().message(error))});
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (!file) return failed(errno);
  std::string text(most_file_bytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return failed(errno);
  if (text.size() > most_file_bytes)
    return std::unexpected(ConfigFault{"", fmt::format("{} is larger than 1 MiB, which no configuration is", path)});
  return text;
}

// Replaces "~" and "~/…" by HOME; adds a fault when HOME is not set.
void expand_home(std::string& path, std::string_view home, std::string_view pointer, std::vector<ConfigFault>& faults) {
  if (path != "~" && !path.starts_with("~/")) return;
  if (home.starts_with('/'))
    path.replace(0, 1, home);
  else
    faults.push_back({std::string(pointer), fmt::format("{}: there is no home directory: set HOME or write an absolute "
                                                        "path",
                                                        path)});
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text(*each);
    if (const std::size_t equals = text.find('='); equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  if (!lookup(environment, "HOME").starts_with('/')) environment["HOME"] = home_of_user();
  return environment;
}

std::optional<std::string> user_config_dir(const Environment& environment) {
  // The XDG specification says to ignore a relative path.
  if (const auto dir = lookup(environment, "XDG_CONFIG_HOME"); dir.starts_with('/'))
    return fmt::format("{}/sessiond", dir);
  if (const auto home = lookup(environment, "HOME"); home.starts_with('/'))
    return fmt::format("{}/.config/sessiond", home);
  return std::nullopt;
}

std::string locate_config(const std::optional<std::string>& cli_option, const Environment& environment) {
  if (cli_option && !cli_option->empty()) return *cli_option;
  if (const auto named = lookup(environment, "SESSIOND_CONFIG"); !named.empty()) return std::string(named);
  const auto dir = user_config_dir(environment);
  return !dir || certainly_absent(*dir + "/sessiond.json") ? "" : *dir + "/sessiond.json";
}

std::vector<ConfigFault> apply_environment(Config& config, const Environment& environment) {
  if (const auto dir = lookup(environment, state_dir_variable); !dir.empty()) {
    config.state_dir = dir;
    if (!dir.starts_with('/') && !dir.starts_with('~')) config.state_dir = fmt::format("{}/{}", working_dir(), dir);
  }
  const auto ttl = lookup(environment, ttl_variable);
  if (ttl.empty()) return {};
  const bool digits = std::ranges::all_of(ttl, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || ttl.size() > 18)
    return {
        {"/store/cacheTtlMs", fmt::format("{} must be a whole number of milliseconds, is \"{}\"", ttl_variable, ttl)}};
  std::vector<ConfigFault> faults;
  overlay(config, fmt::format(R"({{"store":{{"cacheTtlMs":{}}}}})", std::stoll(std::string(ttl))), faults);
  for (ConfigFault& fault : faults) fault.detail = fmt::format("{} {}", ttl_variable, fault.detail);
  return faults;
}

namespace {

void check_encryption(const Config& config, std::vector<ConfigFault>& faults) {
  const auto& key_file = config.store.encryption.key_file;
  if (!key_file) return;
  if (config.store.mode == Config::StoreMode::shared)
    faults.push_back({"/store/encryption/keyFile",
                      "in store.mode shared other programs read and write the same files, and they have no keys: set "
                      "store.mode to own, or leave keyFile out"});
  if (key_file->starts_with(config.state_dir + "/"))
    faults.push_back({"/store/encryption/keyFile",
                      "must not be in the state directory: whoever has a copy of that would have the keys, too"});
  // A sealed line belongs to its agent, whose name is that of the folder above (transcripts/sealed_lines.hpp).
  const std::string& path = config.store.path_template;
  if (constexpr std::string_view folder = "{agentId}/sessions/";
      path.rfind('/') + 1 < folder.size() || !path.substr(0, path.rfind('/') + 1).ends_with(folder))
    faults.push_back(
        {"/store/pathTemplate", "with store.encryption.keyFile it must end with {agentId}/sessions/ and a file name"});
}

}  // namespace

std::vector<ConfigFault> resolve_paths(Config& config, const Environment& environment) {
  static constexpr std::string_view placeholder = "{stateDir}";
  std::vector<ConfigFault> faults;
  const auto home = lookup(environment, "HOME");
  expand_home(config.state_dir, home, "/stateDir", faults);
  while (config.state_dir.size() > 1 && config.state_dir.ends_with('/')) config.state_dir.pop_back();

  const auto resolve = [&](std::optional<std::string>& path, std::string_view pointer) {
    if (!path) return;
    if (path->starts_with(placeholder))
      path->replace(0, placeholder.size(), config.state_dir);
    else
      expand_home(*path, home, pointer, faults);
  };
  if (config.store.path_template.starts_with('~'))
    expand_home(config.store.path_template, home, "/store/pathTemplate", faults);
  for (const char* own : {"journal", "search"})
    if (config.store.path_template.starts_with(fmt::format("{}/{}/", config.state_dir, own)))
      faults.push_back({"/store/pathTemplate", fmt::format("must not be in {}/, which belongs to the daemon", own)});
  resolve(config.listen.tls.cert, "/listen/tls/cert");
  resolve(config.listen.tls.key, "/listen/tls/key");
  resolve(config.listen.tls.client_ca, "/listen/tls/clientCa");
  resolve(config.audit.path, "/audit/path");
  std::optional<std::string> index = config.store.search.path;
  resolve(index, "/search/path");
  config.store.search.path = index.value_or("");
  resolve(config.store.encryption.key_file, "/store/encryption/keyFile");
  check_encryption(config, faults);
  resolve(config.listen.unix, "/listen/unix");
  if (std::string fault = check_search_path(config); !fault.empty() && faults.empty())
    faults.push_back({"/search/path", std::move(fault)});
  if (!config.listen.unix) return faults;
  const std::string& socket = *config.listen.unix;
  constexpr std::size_t most = sizeof(sockaddr_un::sun_path) - 1;
  if (faults.empty() && socket.size() > most)
    faults.push_back({"/listen/unix", fmt::format("{} is {} bytes long, the kernel takes {}: name a shorter path",
                                                  socket, socket.size(), most)});
  return faults;
}

std::expected<Config, std::vector<ConfigFault>> load_config(const std::string& file, const Environment& environment,
                                                            const std::optional<std::string>& state_dir,
                                                            const SendPolicyCheck& check_send_policy) {
  std::vector<ConfigFault> faults;
  Config config;
  if (!file.empty()) {
    const auto text = read_file_at(file);
    if (!text) return std::unexpected(std::vector{text.error()});
    auto parsed = parse_config(*text, check_send_policy);
    if (parsed)
      config = std::move(*parsed);
    else
      faults = std::move(parsed.error());
  }
  const auto add = [&](std::vector<ConfigFault> more) { std::ranges::move(more, std::back_inserter(faults)); };
  add(apply_environment(config, environment));
  if (state_dir) config.state_dir = *state_dir;
  add(resolve_paths(config, environment));
  if (!faults.empty()) return std::unexpected(std::move(faults));
  return config;
}

}  // namespace sessiond::config
