// sessiond restore: unpacks the backup beside the state directory, applies its journal, and exchanges the two
// directories.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>  // renameat2
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <optional>
#include <system_error>
#include <vector>

#include "daemon/auth/token_record.hpp"
#include "daemon/backup/pack.hpp"
#include "daemon/backup/unpack.hpp"
#include "daemon/cli/backup_command.hpp"
#include "daemon/doctor/doctor.hpp"
#include "daemon/doctor/restores.hpp"
#include "daemon/doctor/state_owner.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/serve/rules_of.hpp"
#include "daemon/serve/settings.hpp"
#include "daemon/serve/state_lock.hpp"
#include "store/journal/recovery.hpp"
#include "store/journal/segment.hpp"
#include "store/seal/keys.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace fs = std::filesystem;
namespace {

Result<void> feed_file(int fd, const std::string& name, backup::Unpacker& unpacker) {
  std::array<char, std::size_t{256} * 1024> buffer;
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::unexpected(io_problem("read", name, errno));
    if (n == 0) return {};
    TRY(unpacker.feed({buffer.data(), static_cast<std::size_t>(n)}));
  }
}

Result<void> feed_directory(const fs::path& dir, backup::Unpacker& unpacker) {
  TRY(auto cut, backup::cut_of_backup(dir));
  return backup::Packer(std::move(cut)).pack_all([&](std::string_view bytes) { return unpacker.feed(bytes); });
}

Result<void> feed(const std::string& from, backup::Unpacker& unpacker) {
  if (from == "-") return feed_file(STDIN_FILENO, "stdin", unpacker);
  std::error_code error;
  if (fs::is_directory(from, error)) return feed_directory(from, unpacker);
  const store::Fd fd(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::unexpected(io_problem("open", from, errno));
  return feed_file(fd.get(), from, unpacker);
}

// Returns a file of the state directory that a restore must not overwrite without --force. Its lock and sockets do not
// count.
Result<std::optional<fs::path>> occupant(const fs::path& state_dir) {
  std::error_code error;
  for (fs::directory_iterator it(state_dir, error), end; !error && it != end; it.increment(error)) {
    if (it->path() != doctor::state_lock_file(state_dir) && !it->is_socket(error)) return it->path();
  }
  if (error) return std::unexpected(io_problem("list", state_dir.native(), error.value()));
  return std::nullopt;
}

// Begins a new epoch: the numbers of events continue from the backup, and clients may have seen other events with the
// same numbers.
Result<void> mint_new_epoch(const fs::path& journal_dir) {
  std::error_code error;
  if (!fs::exists(journal_dir, error)) return {};  // never served: the first start makes the epoch
  auto epoch = journal::load_epoch(journal_dir).value_or(journal::Epoch{});
  epoch.epoch = journal::mint_epoch();
  return journal::save_epoch(journal_dir, epoch);
}

// Applies the journal to the files, as a start does. The files are then complete by themselves, and the doctor examines
// what will be served.
Result<void> bring_up_to_date(config::Config config, const fs::path& state_dir) {
  config.state_dir = state_dir.native();
  TRY(auto rules, serve::rules_of(config));
  asio::io_context io{1};
  asio::thread_pool disk{2};
  TRY(auto ledger, ledger::Ledger::open(io, disk, config, std::move(rules), false));
  Result<void> done = fail(Code::internal, "the checkpoint did not end");
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        done = co_await ledger->checkpointer().write_all();
        co_await ledger->stop();
        io.stop();
      },
      [](const std::exception_ptr& failure) {
        if (failure) std::rethrow_exception(failure);
      });
  io.run();
  disk.join();
  return done;
}

// Exchanges the directories `fresh` and `state_dir`.
Result<void> exchange(const fs::path& fresh, const fs::path& state_dir) {
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, state_dir.c_str(), RENAME_EXCHANGE) == 0) return {};
  // Where the file system cannot exchange two names, there is a moment with neither; the doctor knows these names.
  const fs::path between = fresh.native() + ".old";
  const bool cannot = errno == EINVAL || errno == ENOSYS;
  if (!cannot || ::rename(state_dir.c_str(), between.c_str()) != 0)
    return std::unexpected(io_problem("replace", state_dir.native(), errno));
  if (::rename(fresh.c_str(), state_dir.c_str()) != 0)
    return fail(Code::internal, fmt::format("{} is at {}, the restored one at {}: rename it", state_dir.native(),
                                            between.native(), fresh.native()));
  if (::rename(between.c_str(), fresh.c_str()) != 0)
    return std::unexpected(io_problem("move aside", between.native(), errno));
  return {};
}

fs::path beside(const fs::path& state_dir, std::string_view ending) { return state_dir.native() + std::string(ending); }

fs::path aside_of(const fs::path& state_dir) { return beside(state_dir, ".before-restore." + store::time_for_names()); }

// A temporary directory beside the state directory, so on the same file system. Removed with its content at the end.
class Scratch {
 public:
  explicit Scratch(const fs::path& state_dir)
      : path_(beside(state_dir, fmt::format(".restore.{}.{}.tmp", ::getpid(), store::random_uuid()))) {}
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Result<void> make() const {
    if (::mkdir(path_.c_str(), 0700) == 0) return {};
    const Problem problem = io_problem("create directory", path_.native(), errno);
    return fail(problem.code, problem.detail +
                                  "; the state directory is replaced as a whole, so its parent must be "
                                  "writable: name a state directory with a writable parent (--state-dir, stateDir)");
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Restored {
  backup::Manifest manifest{};
  std::optional<fs::path> aside{};    // where the old state directory is
  std::vector<std::string> faults{};  // faults after the restored state was put in place
  std::vector<std::string> back{};    // tokens that are valid again, though they were revoked, rotated or unknown
  std::vector<std::string> gone{};    // tokens that are not valid any more
};

// Unpacks the backup and makes it ready to be served, in unpacker.root().
Result<Restored> unpack(const config::Config& config, const std::string& from, backup::Unpacker& unpacker) {
  TRY(feed(from, unpacker));
  TRY(auto manifest, unpacker.finish());
  if (manifest.path_template != config.store.path_template)
    return fail(Code::validation_failed,
                fmt::format("the backup has its sessions in {}, but store.pathTemplate is {}: change that key",
                            manifest.path_template, config.store.path_template));
  const fs::path& fresh = unpacker.root();
  if (::chmod(fresh.c_str(), 0700) != 0) return std::unexpected(io_problem("chmod", fresh.native(), errno));
  TRY(mint_new_epoch(fresh / "journal"));
  Restored restored{.manifest = std::move(manifest)};
  TRY(seal::start(config.store.encryption.key_file, fresh));
  if (auto done = bring_up_to_date(config, fresh); !done)
    restored.faults.push_back("the backup has this fault: " + done.error().detail);
  TRY(backup::sync_file_system(fresh));
  return restored;
}

// Puts the restored state in place. First renames it to the name that the old state will have; then exchanges the two.
// So whenever this is killed, the name and content of each directory say what it is (daemon/doctor/restores.hpp): until
// the exchange, a manifest in the restored one shows that it is not in place. After the exchange, faults are only
// reported.
Result<void> put_in_place(backup::Unpacker& unpacker, const fs::path& state_dir, bool occupied, const Scratch& scratch,
                          Restored& restored) {
  const fs::path aside = aside_of(state_dir);
  std::error_code error;
  TRY(store::replace_file(unpacker.root() / backup::manifest_name, unpacker.manifest_text()));
  if (::rename(unpacker.root().c_str(), aside.c_str()) != 0)
    return std::unexpected(io_problem("rename", unpacker.root().native(), errno));
  ::rmdir(scratch.path().c_str());  // left empty when the archive had everything in one folder
  auto done = store::sync_dir(state_dir.parent_path());
  if (done) done = exchange(aside, state_dir);
  if (!done) {
    if (fs::exists(state_dir, error)) fs::remove_all(aside, error);
    return done;
  }
  if (::unlink((state_dir / backup::manifest_name).c_str()) != 0)
    restored.faults.push_back(io_problem("remove", (state_dir / backup::manifest_name).native(), errno).detail);
  if (occupied) {
    restored.aside = aside;
  } else {
    fs::remove_all(aside, error);  // only a lock and sockets
  }
  if (auto synced = store::sync_dir(state_dir.parent_path()); !synced) restored.faults.push_back(synced.error().detail);
  return {};
}

std::vector<auth::TokenRecord> tokens_in(const fs::path& dir) {
  const auto text = store::read_file(dir / "tokens.json");
  auto records = text ? auth::parse_tokens(*text) : std::unexpected(text.error());
  return records ? std::move(*records) : std::vector<auth::TokenRecord>{};
}

std::string named(const auth::TokenInfo& info) {
  return fmt::format("{} ({}{}{})", info.id, auth::name(info.role), info.note.empty() ? "" : ", ", info.note);
}

// Compares the tokens of the backup with the present ones, for the report.
void compare_tokens(const fs::path& present, const fs::path& fresh, Restored& restored) {
  const std::vector<auth::TokenRecord> now = tokens_in(present);
  const std::vector<auth::TokenRecord> then = tokens_in(fresh);
  const auto same = [](const std::vector<auth::TokenRecord>& all, const auth::TokenRecord& one) {
    return std::ranges::any_of(
        all, [&](const auth::TokenRecord& other) { return other.info.id == one.info.id && other.hash == one.hash; });
  };
  for (const auth::TokenRecord& one : then)
    if (!same(now, one)) restored.back.push_back(named(one.info));
  for (const auth::TokenRecord& one : now)
    if (!same(then, one)) restored.gone.push_back(named(one.info));
}

// Replaces tokens.json of the backup by the present one.
Result<void> keep_present_tokens(const fs::path& present, const fs::path& fresh) {
  TRY(const auto text, store::read_file(present / "tokens.json"));
  TRY(auth::parse_tokens(text));
  return store::replace_file(fresh / "tokens.json", text);
}

// Sets `in_use` when another process has the state directory.
Result<Restored> restore(const config::Config& config, const RestoreCommand& command, bool& in_use) {
  TRY(serve::check_user(config.state_dir));
  TRY(store::make_dirs(config.state_dir));
  const auto lock =
      serve::StateLock::acquire(config.state_dir, "restore");  // the lock of the old directory, held to the end
  if (!lock) {
    in_use = lock.error().code == Code::degraded;
    return std::unexpected(lock.error());
  }
  std::error_code error;
  const fs::path state_dir =
      fs::canonical(config.state_dir, error);  // resolves a link: the directory itself is exchanged
  if (error) return std::unexpected(io_problem("resolve", config.state_dir, error.value()));
  TRY(const auto there, occupant(state_dir));
  if (there && !command.force)
    return fail(Code::validation_failed,
                fmt::format("{} is not empty ({}): --force moves it aside, or name another one (--state-dir)",
                            state_dir.native(), there->filename().native()));
  Scratch scratch(state_dir);
  TRY(scratch.make());
  backup::Unpacker unpacker(scratch.path());
  auto restored = unpack(config, command.from, unpacker);
  if (!restored) return restored;
  if (command.keep_tokens) TRY(keep_present_tokens(state_dir, unpacker.root()));
  if (fs::exists(state_dir / "tokens.json", error)) compare_tokens(state_dir, unpacker.root(), *restored);
  TRY(put_in_place(unpacker, state_dir, there.has_value(), scratch, *restored));
  return restored;
}

}  // namespace

int run(const RestoreCommand& command) {
  constexpr int not_restored = 2;
  constexpr int state_directory_in_use = 3;
  constexpr int restored_damaged = 4;
  constexpr int wrong_usage = 64;
  if (command.from == "-" && ::isatty(STDIN_FILENO) != 0) {
    fmt::print(stderr, "sessiond restore: stdin is a terminal: sessiond restore - < FILE.tar\n");
    return wrong_usage;
  }
  const auto settings = load_settings(command.where);
  if (!settings) return not_restored;
  const config::Config& config = settings->config;
  log::set_up(log::Level::warn, log::Format::text);
  bool in_use = false;
  for (const doctor::Finding& left : doctor::find_left_restores(config.state_dir))
    if (left.level != doctor::Level::ok) fmt::print(stderr, "{}: {}; {}\n", left.path, left.detail, left.advice);
  const auto restored = restore(config, command, in_use);
  if (!restored) {
    fmt::print(stderr, "sessiond restore: {}; nothing was restored\n", restored.error().detail);
    return in_use ? state_directory_in_use : not_restored;
  }
  const backup::Manifest& manifest = restored->manifest;
  fmt::print(stderr, "{}, {}{} are in {}, under a new epoch\n", serve::counted(manifest.files.size(), "file"),
             serve::counted(manifest.bytes(), "byte"), manifest.as_of.empty() ? "" : " as of " + manifest.as_of,
             config.state_dir);
  if (restored->aside) fmt::print(stderr, "what was there is in {}\n", restored->aside->native());
  doctor::Report report;
  for (const std::string& fault : restored->faults)
    report.error("restore", config.state_dir, fault,
                 "see what follows; sessiond serve tells what it cannot go on with");
  const auto tell_tokens = [&](const std::vector<std::string>& tokens, std::string_view what, std::string advice) {
    if (!tokens.empty())
      report.warning("tokens", (fs::path(config.state_dir) / "tokens.json").native(),
                     fmt::format("{}: {}", what, fmt::join(tokens, ", ")), std::move(advice));
  };
  tell_tokens(restored->back, "tokens that the present ones did not have are valid again",
              "revoke them (sessiond token revoke ID), or restore with --keep-tokens");
  tell_tokens(restored->gone, "tokens made since the backup are no longer valid",
              "make new ones (sessiond token create), or restore with --keep-tokens");
  report.append(doctor::run_doctor({.state_dir = config.state_dir, .path_template = config.store.path_template}));
  fmt::print("{}", doctor::to_text(report));
  const int found = report.exit_code();
  return found == 2 ? restored_damaged : found;
}

}  // namespace sessiond::cli
