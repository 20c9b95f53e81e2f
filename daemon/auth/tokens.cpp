#include "daemon/auth/tokens.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::auth {
namespace {

std::unexpected<Problem> unauthorized(std::string detail) { return fail(Code::unauthorized, std::move(detail)); }

// Parses the scheme (in any case), one or more spaces, and the credentials (RFC 9110 §11.4).
Result<std::string_view> bearer(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  authorization = store::trim(authorization);
  if (authorization.empty()) return unauthorized("this route needs a token: Authorization: Bearer sd_…");
  if (!store::starts_with_nocase(authorization, scheme)) return unauthorized("the Authorization scheme must be Bearer");
  return store::trim(authorization.substr(scheme.size()));
}

void note_use(std::atomic<std::int64_t>& used_at, std::int64_t now) {
  if (now > used_at.load()) used_at.store(now);
}

}  // namespace

Result<std::unique_ptr<Tokens>> Tokens::load(std::filesystem::path path) {
  std::unique_ptr<Tokens> tokens(new Tokens(std::move(path)));
  TRY(tokens->reload());
  return tokens;
}

TokenRecord Tokens::Held::current() const {
  TokenRecord now = record;
  if (const std::int64_t used = used_at->load(); used != 0)
    now.info.last_used_at = std::max(used, now.info.last_used_at.value_or(used));
  return now;
}

Result<Principal> Tokens::authenticate(std::string_view authorization, std::int64_t now, Proof* proof) {
  if (proof != nullptr && proof->generation == generation() && same_token(proof->authorization, authorization) &&
      !(proof->expires_at && now >= *proof->expires_at)) {
    note_use(*proof->used_at, now);
    uses_unsaved_ = true;
    return proof->principal;
  }
  TRY(const auto token, bearer(authorization));
  if (token.size() != token_size) return unauthorized("the token is not valid");

  const std::lock_guard lock(mutex_);
  const auto found = held_.find(token.substr(token_id_at, token_id_size));
  // Replaces a token that does not exist, so that it takes the same time. No token has this hash.
  static const Held nobody{.record = {}, .verified = std::string(token_size, '\0')};
  const Held& held = found == held_.end() ? nobody : found->second;
  const bool proved = same_token(token, held.verified);
  if (!proved && (!id_of_token(token) || !same_hash(hash_token(token), held.record.hash)))
    return unauthorized("the token is not valid");
  if (found == held_.end()) return unauthorized("the token is not valid");

  const TokenInfo& info = held.record.info;
  if (info.expired(now)) return unauthorized(fmt::format("token {} has expired", info.id));
  if (!proved) found->second.verified = token;
  note_use(*held.used_at, now);
  uses_unsaved_ = true;
  if (proof == nullptr) return principal_of(info);
  *proof = {.authorization = std::string(authorization),
            .generation = generation(),
            .expires_at = info.expires_at,
            .used_at = held.used_at,
            .principal = principal_of(info)};
  return proof->principal;
}

Result<Principal> Tokens::principal(std::string_view id, std::int64_t now) const {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(id);
  if (found == held_.end()) return unauthorized(fmt::format("token {} was revoked", id));
  if (found->second.record.info.expired(now)) return unauthorized(fmt::format("token {} has expired", id));
  return principal_of(found->second.record.info);
}

Result<CreatedToken> Tokens::create(const NewToken& asked, std::int64_t now) {
  TRY(auto info, check_new_token(asked, now));
  const std::lock_guard lock(mutex_);
  return add(std::move(info));
}

CreatedToken Tokens::add(TokenInfo info) {
  do {
    info.id = random_token_id();
  } while (held_.contains(info.id) || revoked_.contains(info.id));
  CreatedToken created{.info = std::move(info), .token = {}};
  created.token = random_token(created.info.id);
  held_.emplace(created.info.id,
                Held{.record = {.info = created.info, .hash = hash_token(created.token)}, .change = ++changes_});
  ++generation_;
  return created;
}

Result<void> Tokens::revoke(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(id);
  if (found == held_.end()) return fail(Code::not_found, fmt::format("there is no token {}", id));
  revoked_.insert_or_assign(found->first, ++changes_);
  held_.erase(found);
  ++generation_;
  return {};
}

Result<RotatedToken> Tokens::rotate(std::string_view id, std::int64_t overlap_ms, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(id);
  if (found == held_.end()) return fail(Code::not_found, fmt::format("there is no token {}", id));
  const TokenRecord before = found->second.current();
  if (before.info.expired(now)) return fail_at("", fmt::format("token {} has expired; make a new one", id));
  TokenInfo info = before.info;
  info.created_at = now;
  info.last_used_at.reset();
  RotatedToken rotated{.made = add(std::move(info)), .before = before.info, .before_hash = before.hash};
  rotated.revoked = overlap_ms <= 0;
  rotated.ends_at = now + std::clamp<std::int64_t>(overlap_ms, 0, max_overlap_ms);
  if (before.info.expires_at) rotated.ends_at = std::min(rotated.ends_at, *before.info.expires_at);
  if (rotated.revoked) {
    revoked_.insert_or_assign(before.info.id, ++changes_);
    held_.erase(found);
  } else {
    found->second.record.info.expires_at = rotated.ends_at;
    found->second.change = ++changes_;
  }
  ++generation_;
  return rotated;
}

void Tokens::undo(const RotatedToken& rotated) {
  const std::lock_guard lock(mutex_);
  if (held_.erase(rotated.made.info.id) != 0) revoked_.insert_or_assign(rotated.made.info.id, ++changes_);
  const auto found = held_.find(rotated.before.id);
  if (found != held_.end()) {
    found->second.record.info.expires_at = rotated.before.expires_at;
    found->second.change = ++changes_;
  } else if (rotated.revoked && revoked_.erase(rotated.before.id) != 0) {
    held_.emplace(rotated.before.id,
                  Held{.record = {.info = rotated.before, .hash = rotated.before_hash}, .change = ++changes_});
  }
  ++generation_;
}

std::vector<TokenRecord> Tokens::records() const {
  std::vector<TokenRecord> all;
  all.reserve(held_.size());
  for (const auto& [id, held] : held_) all.push_back(held.current());
  std::ranges::sort(all, {},
                    [](const TokenRecord& record) { return std::tie(record.info.created_at, record.info.id); });
  return all;
}

std::vector<TokenInfo> Tokens::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<TokenInfo> all;
  for (TokenRecord& record : records()) all.push_back(std::move(record.info));
  return all;
}

bool Tokens::empty() const {
  const std::lock_guard lock(mutex_);
  return held_.empty();
}

bool Tokens::unsaved() const {
  const std::lock_guard lock(mutex_);
  return uses_unsaved_ || changes_ != saved_;
}

Result<void> Tokens::save() {
  const std::lock_guard file_lock(file_mutex_);
  TRY(read_if_changed());
  std::unique_lock lock(mutex_);
  uses_unsaved_ = false;  // first, since connections note uses meanwhile
  const std::string text = write_tokens(records());
  const std::uint64_t included = changes_;
  lock.unlock();

  const auto written = store::replace_file(path_, text);
  auto identity = identify();
  lock.lock();
  if (!written) {
    uses_unsaved_ = true;
    return written;
  }
  // If the file's identity is unknown, it is read again next time.
  on_disk_ = identity.value_or(std::nullopt);
  saved_ = included;
  std::erase_if(revoked_, [&](const auto& revoked) { return revoked.second <= saved_; });
  return {};
}

Result<void> Tokens::reload() {
  const std::lock_guard file_lock(file_mutex_);
  TRY(read_if_changed());
  return {};
}

Result<bool> Tokens::look() {
  const std::lock_guard file_lock(file_mutex_);
  TRY(const auto identity, identify());
  const bool gone = !identity && on_disk_;
  if (gone && !std::exchange(missed_, true)) return false;
  missed_ = gone;
  return read_if_changed();
}

Result<Tokens::Identity> Tokens::identify() const {
  struct stat status{};
  if (::lstat(path_.c_str(), &status) == 0) return sessiond::store::identity(status);
  if (errno == ENOENT) return std::nullopt;
  return std::unexpected(io_problem("look at", path_.native(), errno));
}

Result<bool> Tokens::read_if_changed() {
  // The identity is taken before reading: if the file changes in between, the next look finds a difference.
  TRY(const auto identity, identify());
  if (identity == on_disk_) return false;
  std::vector<TokenRecord> records;
  if (identity) {
    TRY(const auto text, store::read_file(path_));
    auto parsed = parse_tokens(text);
    if (!parsed) {
      parsed.error().detail = fmt::format("{} is damaged: {}", path_.native(), parsed.error().detail);
      return std::unexpected(parsed.error());
    }
    records = std::move(*parsed);
  }
  const std::lock_guard lock(mutex_);
  adopt(std::move(records));
  on_disk_ = identity;
  return true;
}

void Tokens::adopt(std::vector<TokenRecord> records) {
  std::map<std::string, Held, std::less<>> next;
  for (TokenRecord& record : records) {
    std::string id = record.info.id;
    if (revoked_.contains(id)) continue;
    Held held{.record = std::move(record)};
    if (const auto old = held_.find(id); old != held_.end() && same_hash(old->second.record.hash, held.record.hash)) {
      held.verified = std::move(old->second.verified);
      held.record.info.last_used_at = std::max(held.record.info.last_used_at, old->second.current().info.last_used_at);
      held.used_at = old->second.used_at;
      if (old->second.change > saved_) {  // rotated here: its new end is not in the file yet
        held.record.info.expires_at = old->second.record.info.expires_at;
        held.change = old->second.change;
      }
    }
    next.emplace(std::move(id), std::move(held));
  }
  for (auto& [id, held] : held_) {
    if (held.change > saved_ && !next.contains(id)) next.emplace(id, std::move(held));
  }
  held_ = std::move(next);
  ++generation_;
}

}  // namespace sessiond::auth
