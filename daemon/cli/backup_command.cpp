#include "daemon/cli/backup_command.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <system_error>

#include "daemon/backup/pack.hpp"
#include "daemon/backup/unpack.hpp"
#include "daemon/cli/client.hpp"
#include "daemon/serve/settings.hpp"
#include "daemon/serve/state_lock.hpp"
#include "store/clock.hpp"
#include "store/new_file.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace fs = std::filesystem;
namespace {

using Take = std::function<Result<void>(std::string_view)>;

constexpr std::chrono::minutes patience{5};  // for the daemon's next bytes: it first makes a snapshot

Result<void> prepare(const fs::path& dir) {
  std::error_code error;
  if (fs::exists(dir, error) && !fs::is_empty(dir, error))
    return fail(Code::validation_failed,
                error ? fmt::format("{}: {}", dir.native(), error.message())
                      : fmt::format("{} is not empty: name an empty directory, or a new one", dir.native()));
  TRY(store::make_dirs(dir));
  if (::chmod(dir.c_str(), 0700) != 0) return std::unexpected(io_problem("chmod", dir.native(), errno));
  return {};
}

Result<void> pack_offline(const config::Config& config, const Take& take) {
  const ledger::Paths paths(config.state_dir, config.store.path_template);
  TRY(auto cut, ledger::snapshot_at_rest(paths));
  return backup::Packer(std::move(cut), paths.template_in_backup(), store::unix_ms()).pack_all(take);
}

// Whether a daemon serves this directory, by the state lock: a daemon that answers at the socket may serve another.
Result<void> pack(const config::Config& config, const Take& take) {
  TRY(serve::check_user(config.state_dir));
  const auto lock = serve::StateLock::acquire(config.state_dir, "backup");
  if (lock) return pack_offline(config, take);
  if (lock.error().code != Code::degraded) return std::unexpected(lock.error());
  const auto reply = download(serve::socket_of(config), "POST", "/v1/admin/backup", take, {.timeout = patience});
  if (!reply && reply.error().nobody_there)
    return fail(Code::degraded, fmt::format("{}, and it could not be asked ({}): wait until it has started, or stop it",
                                            lock.error().detail, reply.error().detail));
  if (!reply) return fail(Code::degraded, reply.error().detail);
  if (reply->status / 100 != 2) return std::unexpected(problem_of(*reply));
  return {};
}

// An archive that is a file, which only its owner may read.
Result<store::NewFile> begin_archive(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error))
    return fail(Code::validation_failed, fmt::format("{} is there already: name another file", file.native()));
  return store::NewFile::begin(fs::absolute(file));
}

int backup_failed(const Problem& problem, std::string_view then = "") {
  fmt::print(stderr, "sessiond backup: {}{}\n", problem.detail, then);
  return 1;
}

}  // namespace

int run(const BackupCommand& command) {
  const bool to_stdout = command.to == "-";
  const bool to_file = command.to.ends_with(".tar");
  const bool to_dir = !to_stdout && !to_file;
  if (to_stdout && ::isatty(STDOUT_FILENO) != 0) {
    fmt::print(stderr, "sessiond backup: an archive cannot be printed on a terminal: sessiond backup FILE.tar\n");
    return 2;
  }
  const auto settings = load_settings(command.where);
  if (!settings) return 1;
  if (auto there = serve::require_state_dir(settings->config); !there) return backup_failed(there.error());
  const fs::path dir = to_dir ? command.to : "";
  if (to_dir)
    if (auto ready = prepare(dir); !ready) return backup_failed(ready.error());
  std::optional<store::NewFile> file;  // has its name when it is whole and on disk
  if (to_file) {
    auto begun = begin_archive(command.to);
    if (!begun) return backup_failed(begun.error());
    file.emplace(std::move(*begun));
  }
  backup::Unpacker unpacker(dir);
  const Take take = [&](std::string_view bytes) -> Result<void> {
    if (to_stdout) TRY(store::write_all(STDOUT_FILENO, bytes, "stdout"));
    if (to_file) TRY(file->write(bytes));
    return unpacker.feed(bytes);
  };
  auto packed = pack(settings->config, take);
  auto manifest = packed ? unpacker.finish() : Result<backup::Manifest>(std::unexpected(std::move(packed.error())));
  Result<void> kept;
  if (manifest && to_dir) kept = store::replace_file(dir / backup::manifest_name, unpacker.manifest_text());
  if (manifest && to_file) kept = file->place(store::NewFile::IfThere::stays);
  if (manifest && !kept) manifest = std::unexpected(std::move(kept.error()));
  if (!manifest)
    return backup_failed(manifest.error(), to_stdout ? "; the archive is incomplete"
                                           : to_file ? "; there is no archive"
                                                     : fmt::format("; {} is incomplete: it has no {}", dir.native(),
                                                                   backup::manifest_name));
  fmt::print(stderr, "{} as of {}: {}, {}\n", settings->config.state_dir,
             manifest->as_of.empty() ? "now" : manifest->as_of, serve::counted(manifest->files.size(), "file"),
             serve::counted(manifest->bytes(), "byte"));
  return 0;
}

}  // namespace sessiond::cli
