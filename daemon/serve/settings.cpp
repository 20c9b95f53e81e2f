#include "daemon/serve/settings.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "config/locate.hpp"
#include "policy/send_policy.hpp"

namespace sessiond::serve {
namespace {

std::vector<config::ConfigFault> send_policy_faults(std::string_view json) {
  std::vector<config::ConfigFault> faults;
  const auto policy = policy::parse_send_policy(json, "/sendPolicy");
  if (policy) return faults;
  for (const Fault& fault : policy.error().errors) faults.push_back({fault.pointer, fault.detail});
  if (faults.empty()) faults.push_back({"/sendPolicy", policy.error().detail});
  return faults;
}

}  // namespace

std::expected<Settings, SettingsFaults> load_settings(const std::optional<std::string>& config_option,
                                                      const std::optional<std::string>& state_dir_option) {
  const config::Environment environment = config::process_environment();
  std::string file = config::locate_config(config_option, environment);
  auto config = config::load_config(file, environment, state_dir_option, send_policy_faults);
  if (!config) return std::unexpected(SettingsFaults{.file = std::move(file), .faults = std::move(config.error())});
  return Settings{.config = std::move(*config), .file = std::move(file)};
}

std::optional<std::string> named_state_dir(const std::optional<std::string>& state_dir_option) {
  if (state_dir_option) return state_dir_option;
  config::Config config;
  config.state_dir.clear();
  const config::Environment environment = config::process_environment();
  config::apply_environment(config, environment);
  if (config.state_dir.empty()) return {};
  config::resolve_paths(config, environment);
  return config.state_dir;
}

Result<std::filesystem::path> admin_token_path() {
  if (const auto dir = config::user_config_dir(config::process_environment()))
    return std::filesystem::path(*dir) / "admin.token";
  return fail(Code::not_found, "admin.token has no place: neither XDG_CONFIG_HOME nor HOME is set");
}

Result<void> require_state_dir(const config::Config& config) {
  std::error_code error;
  if (std::filesystem::is_directory(config.state_dir, error)) return {};
  return fail(Code::not_found,
              fmt::format("there is no state directory {}: name the one that the daemon uses (--state-dir, "
                          "SESSIOND_STATE_DIR, or stateDir in the configuration); sessiond serve makes it",
                          config.state_dir));
}

std::filesystem::path socket_of(const config::Config& config) {
  return config.listen.unix ? std::filesystem::path(*config.listen.unix)
                            : std::filesystem::path(config.state_dir) / "sessiond.sock";
}

http::TlsFiles tls_files(const config::Config& config) {
  const config::Config::Tls& tls = config.listen.tls;
  return {.cert = tls.cert.value_or(""), .key = tls.key.value_or(""), .client_ca = tls.client_ca.value_or("")};
}

std::vector<config::ConfigFault> file_faults(const config::Config& config) {
  std::vector<config::ConfigFault> faults;
  const http::TlsFiles tls = tls_files(config);
  for (const auto& [pointer, file] : {std::pair("/listen/tls/cert", &tls.cert), std::pair("/listen/tls/key", &tls.key),
                                      std::pair("/listen/tls/clientCa", &tls.client_ca)}) {
    if (auto fine = http::check_readable(*file); !fine) faults.push_back({pointer, std::move(fine.error().detail)});
  }
  if (faults.empty() && !tls.cert.empty()) {
    if (auto context = http::make_tls_context(tls); !context)
      faults.push_back({"/listen/tls", std::move(context.error().detail)});
  }
  if (!config.audit.path) return faults;
  struct stat status{};
  const bool there = ::stat(config.audit.path->c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode)) {
    faults.push_back({"/audit/path", fmt::format("{} is {}, not a file", *config.audit.path,
                                                 S_ISDIR(status.st_mode) ? "a folder" : "something else")});
  } else if (!there && errno != ENOENT) {
    faults.push_back(
        {"/audit/path", fmt::format("{}: {}", *config.audit.path, std::generic_category().message(errno))});
  }
  return faults;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string to_text(const SettingsFaults& faults) {
  const std::string file = faults.file.empty() ? "(no configuration file)" : faults.file;
  std::string text;
  for (const config::ConfigFault& fault : faults.faults)
    text += fmt::format("{}: {}: {}\n", file, fault.pointer.empty() ? "/" : fault.pointer, fault.detail);
  return text;
}

std::string origin_of(const Settings& settings) {
  return settings.file.empty() ? "the defaults (there is no configuration file)" : settings.file;
}

void take_reloadable(config::Config& config, const config::Config& fresh) {
  config.limits = fresh.limits;
  config.stream = fresh.stream;
  config.session = fresh.session;
  config.context = fresh.context;
  config.doom_loop = fresh.doom_loop;
  config.content = fresh.content;
  config.work = fresh.work;
  config.send_policy_json = fresh.send_policy_json;
  config.policy = fresh.policy;
  config.api = fresh.api;
  config.cors = fresh.cors;
  config.audit = fresh.audit;
  config.log = fresh.log;
  config.listen.hosts = fresh.listen.hosts;
}

}  // namespace sessiond::serve
