// The bearer tokens of a state directory. <stateDir>/tokens.json, mode 0600, holds their SHA-256, never the tokens. A
// change takes effect in memory at once; save() writes it to the file, and keeps what foreign programs have changed
// there meanwhile. Any thread may call it; only load, reload, look and save block on the disk. Times are ms since the
// epoch.
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

namespace sessiond::auth {

struct CreatedToken {
  TokenInfo info;
  std::string token;  // known only now
};

struct RotatedToken {
  CreatedToken made;
  TokenInfo before;          // the old token, as it was
  std::int64_t ends_at = 0;  // when the old token ends
  bool revoked = false;      // the old token has ended
  TokenHash before_hash{};   // for undo()
};
inline constexpr std::int64_t max_overlap_ms = 7LL * 24 * 3600 * 1000;
inline constexpr std::int64_t default_overlap_ms = 3600LL * 1000;

class Tokens {
 public:
  // Without a file there are no tokens. A damaged file is a `degraded` problem that names the fault.
  static Result<std::unique_ptr<Tokens>> load(std::filesystem::path path);

  // Returns the sender by the value of an Authorization header; unauthorized when it is not a valid token. A token is
  // hashed the first time and then only compared, in constant time. An unknown id takes as long as a wrong secret.
  // `proof` is what the connection keeps, which is looked at first and set; null: it keeps nothing.
  Result<Principal> authenticate(std::string_view authorization, std::int64_t now, Proof* proof = nullptr);
  // Returns a token as it is now, for streams, which outlive their request. unauthorized once it is revoked or expired.
  Result<Principal> principal(std::string_view id, std::int64_t now) const;
  // Changes whenever a token is made or revoked or the file is read again, but not when a token expires.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // Both take effect in memory at once. Call save() before telling the client. If it fails, revoke the created token; a
  // revoked one stays revoked.
  Result<CreatedToken> create(const NewToken& asked, std::int64_t now);
  Result<void> revoke(std::string_view id);  // not_found
  // Makes another token with the role, scope, note and expiry of this one. The old token ends after `overlap_ms` (0 to
  // 7 days), or earlier if it expires; with 0 it is revoked. not_found; validation_failed when it has expired. If
  // save() fails, call undo().
  Result<RotatedToken> rotate(std::string_view id, std::int64_t overlap_ms, std::int64_t now);
  void undo(const RotatedToken& rotated);

  std::vector<TokenInfo> list() const;  // oldest first
  bool empty() const;

  // Says whether something is not in the file yet: a change, or only a lastUsed, which may wait for a minute.
  bool unsaved() const;
  // Writes the file atomically. If a foreign program has changed it, it is read first, and the changes made here are
  // applied to it. A damaged file is not overwritten (`degraded`).
  Result<void> save();
  // Reads the file again if it has changed (SIGHUP). On a problem nothing changes.
  Result<void> reload();
  // Does the same for polling, and returns whether the file was read. A missing file counts only if it is still missing
  // at the next look: a program that replaces a file may delete the old one first.
  Result<bool> look();

 private:
  struct Held {
    TokenRecord record;
    std::string verified{};    // the token's text, once it was verified: later requests need no hash
    std::uint64_t change = 0;  // number of its last change here; above saved_: not in the file yet
    // When it was used here, in ms since the epoch; 0: never. Connections that use it have it, too.
    std::shared_ptr<std::atomic<std::int64_t>> used_at = std::make_shared<std::atomic<std::int64_t>>(0);
    TokenRecord current() const;  // the record, with when it was last used
  };
  using Identity = std::optional<store::FileIdentity>;  // nothing: no file

  explicit Tokens(std::filesystem::path path) : path_(std::move(path)) {}
  Result<Identity> identify() const;
  Result<bool> read_if_changed();  // needs file_mutex_; returns whether the file was read
  // These need mutex_.
  CreatedToken add(TokenInfo info);  // with a new id
  void adopt(std::vector<TokenRecord> records);
  std::vector<TokenRecord> records() const;  // oldest first

  const std::filesystem::path path_;
  std::mutex file_mutex_;  // taken before mutex_, held during disk I/O
  Identity on_disk_;       // the file that was read or written last
  bool missed_ = false;    // the last look() found no file

  mutable std::mutex mutex_;  // guards the following members
  std::map<std::string, Held, std::less<>> held_;
  std::map<std::string, std::uint64_t, std::less<>> revoked_;  // id and number of the change; until it is in the file
  std::uint64_t changes_ = 0;
  std::uint64_t saved_ = 0;
  std::atomic<bool> uses_unsaved_ = false;
  std::atomic<std::uint64_t> generation_ = 1;
};

}  // namespace sessiond::auth
