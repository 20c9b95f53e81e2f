// The one process that may write a state directory: flock on <stateDir>/sessiond.lock (FORMATS, table of files), held
// for the object's life and let go by the kernel however the process ends. The file is never removed: a lock on a file
// without a name would exclude nobody.
#pragma once

#include <filesystem>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond {

class StateLock {
 public:
  // Makes the directory (0700) and the file (0600) where missing. Taken by another: `degraded`, naming the owner's pid.
  // Never waits.
  static Result<StateLock> acquire(const std::filesystem::path& state_dir);

 private:
  explicit StateLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// What root writes into another user's directory, that user's daemon could not read any more: `degraded`, saying whose
// it is.
Result<void> check_user(const std::filesystem::path& state_dir);

}  // namespace sessiond
