#include "daemon/cli/config_command.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <expected>
#include <filesystem>
#include <optional>
#include <utility>

#include "config/print.hpp"
#include "daemon/doctor/doctor.hpp"
#include "daemon/doctor/repair.hpp"
#include "daemon/doctor/state_owner.hpp"
#include "daemon/serve/settings.hpp"
#include "daemon/serve/state_lock.hpp"
#include "store/seal/keys.hpp"

namespace sessiond::cli {

int run(const ConfigShow& command) {
  const auto settings = load_settings(command.where);
  if (!settings) return 1;
  fmt::print(stderr, "from {}\n", serve::origin_of(*settings));
  fmt::print("{}\n", config::to_json(settings->config));
  return 0;
}

int run(const ConfigCheck& command) {
  auto settings = serve::load_settings(command.where.config, command.where.state_dir);
  if (settings) {
    if (auto faults = serve::file_faults(settings->config); !faults.empty())
      settings = std::unexpected(serve::SettingsFaults{.file = settings->file, .faults = std::move(faults)});
  }
  if (!settings) {
    const std::size_t count = settings.error().faults.size();
    fmt::print(stderr, "{}{}\n", serve::to_text(settings.error()), serve::counted(count, "fault"));
    return 1;
  }
  fmt::print(stderr, "no faults in {}\n", serve::origin_of(*settings));
  return 0;
}

int run(const ConfigDefaults&) {
  fmt::print("{}", config::print_defaults());
  return 0;
}

namespace {

constexpr int state_directory_in_use = 3;

// Repairs or migrates, holding the state lock so that no daemon can start. When a daemon runs (`in_use`), does nothing.
void mend_and_examine(const DoctorCommand& command, const config::Config& config, doctor::Report& report,
                      bool& in_use) {
  // Without its keys what is sealed would look damaged, and a repair would move it away.
  if (const auto keys = seal::start(config.store.encryption.key_file, config.state_dir); !keys)
    return report.error("encryption", config.store.encryption.key_file.value_or(config.state_dir), keys.error().detail,
                        "nothing else was examined: give back the key file with all its keys; sessiond serve refuses "
                        "to start until then");
  doctor::DoctorOptions options{.state_dir = config.state_dir,
                                .path_template = config.store.path_template,
                                .damage_after = std::chrono::milliseconds(config.store.damage_after_ms)};
  std::optional<serve::StateLock> lock;
  std::error_code error;
  if ((command.repair || command.migrate) && std::filesystem::is_directory(config.state_dir, error)) {
    auto taken = serve::StateLock::acquire(config.state_dir, command.repair ? "doctor --repair" : "doctor --migrate");
    in_use = !taken && taken.error().code == Code::degraded;
    if (!taken)
      return report.error(
          "daemon", config.state_dir, taken.error().detail,
          taken.error().code == Code::degraded
              ? "stop it first: files are changed only while no daemon runs"
              : fmt::format("run: mv '{0}' '{0}.damaged'", doctor::state_lock_file(config.state_dir).native()));
    lock = std::move(*taken);
    options.lock_held = true;
    if (command.repair) report.append(doctor::run_repair(config));
    if (command.migrate) report.append(doctor::run_migration(config));
  }
  report.append(doctor::run_doctor(options));
}

}  // namespace

int run(const DoctorCommand& command) {
  doctor::Report report;
  config::Config config;
  bool known = true;
  if (auto settings = serve::load_settings(command.where.config, command.where.state_dir)) {
    const auto faults = serve::file_faults(settings->config);
    for (const config::ConfigFault& fault : faults)
      report.error("config", settings->file, fmt::format("{}: {}", fault.pointer, fault.detail),
                   "sessiond config --check reports the same; create the file, or change the key");
    if (faults.empty())
      report.ok("config", settings->file, settings->file.empty() ? "no file, the defaults apply" : "no faults");
    config = std::move(settings->config);
  } else {
    const std::string& file = settings.error().file;
    for (const config::ConfigFault& fault : settings.error().faults)
      report.error("config", file, fmt::format("{}: {}", fault.pointer.empty() ? "/" : fault.pointer, fault.detail),
                   "sessiond config --check reports the same; sessiond config --print-defaults explains every key");
    // Without a valid configuration, only a state directory that was named can be examined.
    const auto named = serve::named_state_dir(command.where.state_dir);
    known = named.has_value();
    if (known) config.state_dir = *named;
  }
  bool in_use = false;
  if (known) mend_and_examine(command, config, report, in_use);
  if (command.json) {
    fmt::print("{}\n", doctor::to_json(report));
  } else {
    fmt::print("{}", doctor::to_text(report));
  }
  return in_use ? state_directory_in_use : report.exit_code();
}

}  // namespace sessiond::cli
