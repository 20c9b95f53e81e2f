// The lock file itself (FORMATS §3): its payload, what can be proved of its holder, how it appears with its content and
// how it is taken away without taking another one. FileLock decides when.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct LockId {
  dev_t device = 0;
  ino_t inode = 0;
  std::int64_t ctime_ns = 0;
  friend bool operator==(const LockId&, const LockId&) = default;
};
LockId lock_id(const struct stat& status);

// A lock as it was seen; holding it open keeps its inode from being given to another one.
struct SeenLock {
  Fd fd;
  LockId id;
  std::string payload;
  std::int64_t mtime_ms = 0;
  bool secret = false;  // we may not read it: the payload is not known

  // Its maker has written nothing yet, or died before it did. A program that makes the file first and then writes it
  // leaves it so for milliseconds.
  bool empty() const { return payload.empty() && !secret; }
  bool same_as(const SeenLock& other) const { return id == other.id && payload == other.payload; }
};

constexpr std::size_t longest_lock_payload = 4096;  // of which anything is read

// The lock that is there now; nothing when it is free. One that we may not read has an empty payload.
Result<std::optional<SeenLock>> look_at_lock(const std::filesystem::path& lock);

struct LockPayload {
  bool readable = false;
  std::int64_t pid = 0;
  std::optional<std::int64_t> starttime{};
  std::string host{};  // empty: written by a program that does not tell
  std::string token{};
};

LockPayload read_lock_payload(std::string_view text);
// Why nobody can hold the lock any more; nothing when somebody may. Proofs are: the holder's pid is dead or another
// process's by now; it ran before this boot of this machine; or, where the payload does not say where its writer ran
// (an empty one among them), the file was last changed before this boot (boot_time_ns) and lies on a local disk.
std::optional<std::string> provably_gone(const SeenLock& seen);
bool is_this_process(const LockPayload& payload);

// Puts the lock there with its content, in one step; the content is on disk before, so that a power cut leaves no lock
// without one. Nothing when there is one already.
Result<std::optional<Fd>> put_lock(const std::filesystem::path& lock, const std::string& token);
// Takes the judged lock away; false when it was another one by then (which is put back) or none.
Result<bool> take_lock_away(const std::filesystem::path& lock, const SeenLock& judged);

}  // namespace sessiond
