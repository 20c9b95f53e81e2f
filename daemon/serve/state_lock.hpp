// Makes sure that one process at a time writes a state directory: a flock on <stateDir>/sessiond.lock, held for the
// object's life. The kernel releases it however the process ends. The file is never removed, because a lock on a file
// that has no name any more would exclude no other process. The file names the command that holds the lock
// (state_owner.hpp), so that a daemon can wait for a short one, such as a backup.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond::serve {

class StateLock {
 public:
  // Takes the lock of an existing directory, for a command of sessiond ("backup"). Creates the file (0600) if it is
  // missing. Never waits. Errors: `degraded`, with the holder's pid and command, when another process has the lock.
  static Result<StateLock> acquire(const std::filesystem::path& state_dir, std::string_view command);
  // Takes the lock for `serve`. Waits while the holder is not a daemon, and calls `waiting` once for each holder.
  static Result<StateLock> acquire_for_daemon(const std::filesystem::path& state_dir,
                                              const std::function<void(const std::string& holder)>& waiting);

 private:
  explicit StateLock(store::Fd fd) : fd_(std::move(fd)) {}
  store::Fd fd_;
};

// Takes the lock of a folder that holds agents' folders outside of the state directory, for `serve`, and lets
// open_file() follow no link out of it. Makes the folder. Errors: `degraded`, when another daemon serves it.
Result<StateLock> lock_stores(const std::filesystem::path& root);

// Refuses to work as root in another user's directory: that user's daemon could not read the files. Errors: `degraded`,
// with the owner.
Result<void> check_user(const std::filesystem::path& state_dir);

}  // namespace sessiond::serve
