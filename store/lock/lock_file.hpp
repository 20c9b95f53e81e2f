// The lock file: its content, what proves that its holder is gone, how it appears in one step with its content, and how
// it is taken away without taking away another one. FileLock (lock.hpp) decides when. Blocks; any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond::lock {

struct LockId {
  dev_t device = 0;
  ino_t inode = 0;
  std::int64_t ctime_ns = 0;
  friend bool operator==(const LockId&, const LockId&) = default;
};
LockId lock_id(const struct stat& status);

// A lock as it was read. The open descriptor keeps its inode from being reused.
struct SeenLock {
  store::Fd fd;
  LockId id;
  std::string payload;
  std::int64_t mtime_ms = 0;
  bool secret = false;  // we may not read it, so the payload is unknown

  // Its maker has not written it yet, or died before.
  bool empty() const { return payload.empty() && !secret; }
  bool same_as(const SeenLock& other) const { return id == other.id && payload == other.payload; }
};

constexpr std::size_t longest_lock_payload = 4096;  // bytes that are read

// Reads the lock. Nothing if it is free.
Result<std::optional<SeenLock>> look_at_lock(const std::filesystem::path& lock);

struct LockPayload {
  bool readable = false;
  std::int64_t pid = 0;
  std::optional<std::int64_t> starttime{};
  std::string host{};  // "": not given
  std::string token{};
};

LockPayload read_lock_payload(std::string_view text);
// Returns why the holder is certainly gone; nothing if it may still hold the lock. Proofs are:
//   - its pid is dead, or belongs to another process now;
//   - it ran before this boot of the machine;
//   - the content does not say where the holder ran, and the file was last changed before this boot (boot_time_ns)
//     and is on a local disk.
std::optional<std::string> provably_gone(const SeenLock& seen);
bool is_this_process(const LockPayload& payload);

// Makes the lock with its content in one step. The content is on disk before, so a power cut leaves no empty lock.
// Nothing if there is a lock already.
Result<std::optional<store::Fd>> put_lock(const std::filesystem::path& lock, const std::string& token);
// Takes the lock `judged` away. False if it is gone or another lock by now, which then stays.
Result<bool> take_lock_away(const std::filesystem::path& lock, const SeenLock& judged);

}  // namespace sessiond::lock
