#include "daemon/auth/login_cookie.hpp"

#include <algorithm>
#include <charconv>

#include "daemon/auth/secret.hpp"
#include "store/names.hpp"

namespace sessiond {
namespace {

constexpr std::string_view cookie_prefix = "sdc_";
constexpr std::size_t nonce_size = 16;
constexpr std::size_t most_gone = 10'000;

std::string_view view(const TokenHash& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};  // NOLINT(*-reinterpret-cast): bytes are bytes
}

TokenHash sign(std::string_view secret, std::string_view claims) {
  return hmac_sha256(secret, "login cookie " + std::string(claims));
}

}  // namespace

std::string LoginCookies::make(std::string_view token_id, std::int64_t now) const {
  std::string claims = random_bytes(nonce_size);
  claims.append(token_id).append(std::to_string(now + life_ms));
  const TokenHash mac = sign(secret_, claims);
  return std::string(cookie_prefix) + to_base64url(std::string(view(mac)) + claims);
}

std::optional<std::string> LoginCookies::token_of(std::string_view cookie, std::int64_t now) const {
  if (!cookie.starts_with(cookie_prefix) || cookie.size() > 256) return std::nullopt;
  const auto bytes = from_base64url(cookie.substr(cookie_prefix.size()));
  TokenHash mac{};
  if (!bytes || bytes->size() <= mac.size() + nonce_size + token_id_size) return std::nullopt;
  std::copy_n(bytes->begin(), mac.size(), mac.begin());
  const std::string_view claims = std::string_view(*bytes).substr(mac.size());
  if (!same_hash(mac, sign(secret_, claims))) return std::nullopt;
  const std::string_view until = claims.substr(nonce_size + token_id_size);
  std::int64_t ends = 0;
  std::from_chars(until.data(), until.data() + until.size(), ends);
  if (now >= ends) return std::nullopt;
  const std::lock_guard guard(mutex_);
  if (gone_.contains(cookie)) return std::nullopt;
  return std::string(claims.substr(nonce_size, token_id_size));
}

std::string LoginCookies::csrf_of(std::string_view cookie) const {
  const TokenHash mac = hmac_sha256(secret_, "csrf of " + std::string(cookie));
  return to_base64url(view(mac));
}

void LoginCookies::log_out(std::string_view cookie, std::int64_t now) {
  const std::lock_guard guard(mutex_);
  std::erase_if(gone_, [now](const auto& one) { return now >= one.second; });
  if (gone_.size() < most_gone) gone_.emplace(cookie, now + life_ms);
}

std::optional<std::string_view> cookie_of(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const std::size_t end = std::min(header.find(';'), header.size());
    const std::string_view pair = trim(header.substr(0, end));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
    header.remove_prefix(std::min(end + 1, header.size()));
  }
  return std::nullopt;
}

}  // namespace sessiond
