// The one process that may write a state directory: flock on <stateDir>/sessiond.lock, held for the object's life and
// let go by the kernel however the process ends. The file is never removed: a lock on a file without a name would
// exclude nobody. It says which command of sessiond holds it (state_owner.hpp), so that a daemon can wait for the end
// of a short one, such as a backup.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond {

class StateLock {
 public:
  // Takes the lock of a directory that is there, for this command of sessiond ("backup"). Makes the file (0600) where
  // it is missing. `degraded`, naming the holder's pid and command, when another process has it. Never waits.
  static Result<StateLock> acquire(const std::filesystem::path& state_dir, std::string_view command);
  // Takes it for `serve`. Waits while the holder is no daemon, telling `waiting` once of each holder.
  static Result<StateLock> acquire_for_daemon(const std::filesystem::path& state_dir,
                                              const std::function<void(const std::string& holder)>& waiting);

 private:
  explicit StateLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// What root writes into another user's directory, that user's daemon could not read any more: `degraded`, saying whose
// it is.
Result<void> check_user(const std::filesystem::path& state_dir);

}  // namespace sessiond
