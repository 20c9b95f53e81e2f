// The bearer tokens of this state directory: <stateDir>/tokens.json, 0600, which holds their SHA-256 and never the
// tokens (API §7). Memory decides who gets in; the file follows with save(), which keeps what others changed in it
// meanwhile. Any thread may call anything; only load, reload and save block on the disk. Times are ms since the epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/auth/new_token.hpp"
#include "daemon/auth/principal.hpp"
#include "daemon/auth/secret.hpp"
#include "daemon/auth/token_record.hpp"
#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct CreatedToken {
  TokenInfo info;
  std::string token;  // the only time it is known
};

struct RotatedToken {
  CreatedToken made;
  TokenInfo before;          // the old one as it was
  std::int64_t ends_at = 0;  // of the old one
  bool revoked = false;      // at once
  TokenHash before_hash{};   // to put it back
};
inline constexpr std::int64_t max_overlap_ms = 7LL * 24 * 3600 * 1000;
inline constexpr std::int64_t default_overlap_ms = 3600LL * 1000;

class Tokens {
 public:
  // No file is no tokens. Damage is a `degraded` problem naming file and place, and never the same as no tokens.
  static Result<std::unique_ptr<Tokens>> load(std::filesystem::path path);

  // The value of an Authorization header -> who it is; unauthorized otherwise. The first time a token comes it is
  // hashed, then only compared (constant time); an unknown id costs what a wrong secret costs.
  Result<Principal> authenticate(std::string_view authorization, std::int64_t now);
  // Who a token is now, for what outlives its request (streams): unauthorized once it is revoked or expired.
  Result<Principal> principal(std::string_view id, std::int64_t now) const;
  // Changes whenever a token was made, revoked or read anew (expiry does not change it).
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // Both hold at once in memory; save() before telling anybody. If that fails, revoke what was created; what was
  // revoked stays so.
  Result<CreatedToken> create(const NewToken& wish, std::int64_t now);
  Result<void> revoke(std::string_view id);  // not_found
  // Another token with the role, scope, note and expiry of this one, which from now on ends after `overlap_ms` (0..7
  // days), or when it would have anyway; with 0 it is revoked. not_found; validation_failed when it has expired.
  // Should save() fail: undo().
  Result<RotatedToken> rotate(std::string_view id, std::int64_t overlap_ms, std::int64_t now);
  void undo(const RotatedToken& rotated);

  std::vector<TokenInfo> list() const;  // oldest first
  bool empty() const;

  // Something is not in the file yet: a change, or only a lastUsedAt, which may wait for a minute.
  bool unsaved() const;
  // Atomic: the old file or the new one. A file that was changed by someone else since is read first, and what was
  // changed here is changed in it; one that was damaged is left alone (`degraded`).
  Result<void> save();
  // Reads the file again if it was changed (SIGHUP). On a problem everything stays as it was.
  Result<void> reload();
  // The same for a look every moment; whether it was read. A file that is gone only counts when it still is at the next
  // look: programs that replace a file may take the old one away first.
  Result<bool> look();

 private:
  struct Held {
    TokenRecord record;
    std::string verified{};    // the token's text once it has been proved: later requests need no hash
    std::uint64_t change = 0;  // the change that made it; above saved_: not in the file yet
  };
  using Identity = std::optional<FileIdentity>;  // nothing: no file

  explicit Tokens(std::filesystem::path path) : path_(std::move(path)) {}
  Result<Identity> identify() const;
  Result<bool> read_if_changed();                // with file_mutex_; whether it was
  CreatedToken add(TokenInfo info);              // with mutex_; under an id of its own
  void adopt(std::vector<TokenRecord> records);  // with mutex_
  std::vector<TokenRecord> records() const;      // with mutex_; oldest first

  const std::filesystem::path path_;
  std::mutex file_mutex_;  // taken before mutex_, held while the disk works
  Identity on_disk_;       // what we read or wrote last
  bool missed_ = false;    // by the last look

  mutable std::mutex mutex_;  // what follows
  std::map<std::string, Held, std::less<>> held_;
  std::map<std::string, std::uint64_t, std::less<>> revoked_;  // not in the file yet: id and change
  std::uint64_t changes_ = 0;
  std::uint64_t saved_ = 0;
  bool uses_unsaved_ = false;
  std::atomic<std::uint64_t> generation_ = 1;
};

}  // namespace sessiond
