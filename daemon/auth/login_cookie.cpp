#include "daemon/auth/login_cookie.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "daemon/auth/secret.hpp"
#include "store/crc32.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/number.hpp"

namespace sessiond::auth {
namespace {

constexpr std::string_view cookie_prefix = "sdc_";
constexpr std::size_t nonce_size = 16;

std::string_view view(const TokenHash& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};  // NOLINT(*-reinterpret-cast): bytes are bytes
}

TokenHash sign(std::string_view secret, std::string_view claims) {
  return hmac_sha256(secret, "login " + std::string(claims));
}

}  // namespace

std::string LoginCookies::make(std::string_view token_id, std::int64_t now) const {
  std::string claims = random_bytes(nonce_size);
  claims.append(token_id).append(std::to_string(now));
  const TokenHash mac = sign(secret_, claims);
  return std::string(cookie_prefix) + to_base64url(std::string(view(mac)) + claims);
}

std::optional<LoginCookies::Claims> LoginCookies::claims_of(std::string_view cookie, std::int64_t now) const {
  if (!cookie.starts_with(cookie_prefix) || cookie.size() > 256) return std::nullopt;
  const auto bytes = from_base64url(cookie.substr(cookie_prefix.size()));
  TokenHash mac{};
  if (!bytes || bytes->size() <= mac.size() + nonce_size + token_id_size) return std::nullopt;
  std::copy_n(bytes->begin(), mac.size(), mac.begin());
  const std::string_view text = std::string_view(*bytes).substr(mac.size());
  if (!same_hash(mac, sign(secret_, text))) return std::nullopt;
  Claims claims{.nonce = std::string(text.substr(0, nonce_size)),
                .token = std::string(text.substr(nonce_size, token_id_size))};
  claims.made = store::parse_number<std::int64_t>(text.substr(nonce_size + token_id_size)).value_or(0);
  // It may be made later than now: the age clock can be a little earlier after a reboot.
  if (now - claims.made >= life_ms) return std::nullopt;
  return claims;
}

std::optional<std::string> LoginCookies::token_of(std::string_view cookie, std::int64_t now) const {
  auto claims = claims_of(cookie, now);
  if (!claims) return std::nullopt;
  const std::lock_guard guard(mutex_);
  if (claims->made <= all_before_) return std::nullopt;
  if (const auto found = logouts_.find(claims->token); found != logouts_.end()) {
    if (claims->made <= found->second.before || found->second.nonces.contains(claims->nonce)) return std::nullopt;
  }
  return std::move(claims->token);
}

std::string LoginCookies::csrf_of(std::string_view cookie) const {
  const TokenHash mac = hmac_sha256(secret_, "csrf of " + std::string(cookie));
  return to_base64url(view(mac));
}

Result<void> LoginCookies::log_out(std::string_view cookie, std::int64_t now) {
  const auto claims = claims_of(cookie, now);
  if (!claims) return {};  // it has ended already
  const std::lock_guard file_guard(file_mutex_);
  ByToken next;
  std::string text;
  {
    const std::lock_guard guard(mutex_);
    next = logouts_;
    forget_ended(next, now);
    Logouts& gone = next[claims->token];
    if (claims->made <= gone.before) return {};
    gone.nonces.insert_or_assign(claims->nonce, claims->made);
    if (gone.nonces.size() > most_logouts) {
      std::vector<std::int64_t> times;
      times.reserve(gone.nonces.size());
      for (const auto& [nonce, made] : gone.nonces) times.push_back(made);
      std::ranges::nth_element(times, times.begin() + most_logouts / 2);
      gone.before = times[most_logouts / 2];
      std::erase_if(gone.nonces, [&gone](const auto& one) { return one.second <= gone.before; });
    }
    text = text_of(next, all_before_);
  }
  if (auto written = store::replace_file(path_, text); !written) return written;
  const std::lock_guard guard(mutex_);
  logouts_ = std::move(next);
  return {};
}

void LoginCookies::forget_ended(ByToken& logouts, std::int64_t now) {
  for (auto& [token, gone] : logouts) {
    std::erase_if(gone.nonces, [now](const auto& one) { return now - one.second >= life_ms; });
    if (now - gone.before >= life_ms) gone.before = 0;
  }
  std::erase_if(logouts, [](const auto& one) { return one.second.nonces.empty() && one.second.before == 0; });
}

// The first line is the CRC of all that follows; then comes one JSON object a line.
std::string LoginCookies::text_of(const ByToken& logouts, std::int64_t all_before) {
  std::string lines;
  const auto line = [&lines](std::string_view token, std::string_view name, std::string_view nonce, std::int64_t time) {
    json::ObjectWriter out(lines);
    if (!token.empty()) out.string("token", token);
    if (!nonce.empty()) out.string("login", nonce);
    out.integer(name, time);
    out.close();
    lines += '\n';
  };
  if (all_before != 0) line("", "before", "", all_before);
  for (const auto& [token, gone] : logouts) {
    if (gone.before != 0) line(token, "before", "", gone.before);
    for (const auto& [nonce, made] : gone.nonces) line(token, "made", to_base64url(nonce), made);
  }
  return fmt::format("{:08x}\n{}", store::crc32_of(lines), lines);
}

Result<void> LoginCookies::read(std::string_view text) {
  const auto damaged = [this] { return fail(Code::degraded, path_.native() + " is damaged"); };
  constexpr std::size_t head = 9;  // the CRC and a line feed
  if (text.size() < head || text.substr(0, head) != fmt::format("{:08x}\n", store::crc32_of(text.substr(head))))
    return damaged();
  ByToken logouts;
  std::int64_t all_before = 0;
  for (std::string_view rest = text.substr(head); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!json::check(line)) return damaged();
    const auto token = json::string_at(line, "token");
    const auto before = json::int_at(line, "before");
    const auto made = json::int_at(line, "made");
    const auto nonce = from_base64url(json::string_at(line, "login").value_or(""));
    if (before) {
      (token ? logouts[*token].before : all_before) = *before;
    } else if (token && made && nonce) {
      logouts[*token].nonces.emplace(*nonce, *made);
    } else {
      return damaged();
    }
  }
  const std::lock_guard guard(mutex_);
  logouts_ = std::move(logouts);
  all_before_ = all_before;
  return {};
}

Result<void> LoginCookies::load(std::int64_t now) {
  const auto text = store::read_file(path_);
  if (!text && text.error().code == Code::not_found) return {};
  auto done = text ? read(*text) : std::unexpected(text.error());
  if (done) return done;
  const std::lock_guard guard(mutex_);
  all_before_ = now;
  return done;
}

std::optional<std::string_view> cookie_of(std::string_view header, std::string_view name) {
  for (const auto part : std::views::split(header, ';')) {
    const std::string_view pair = store::trim(std::string_view(part));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
  }
  return std::nullopt;
}

}  // namespace sessiond::auth
