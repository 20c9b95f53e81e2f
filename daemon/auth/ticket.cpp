#include "daemon/auth/ticket.hpp"

#include <algorithm>
#include <tuple>

#include "store/json/raw_json.hpp"

namespace sessiond::auth {
namespace {

constexpr std::string_view ticket_prefix = "sdt_";
constexpr std::size_t random_size = 32;
constexpr std::size_t mac_size = std::tuple_size_v<TokenHash>;
constexpr std::size_t time_size = 8;
constexpr std::size_t fixed_size = random_size + mac_size + token_id_size + time_size;

std::string big_endian(std::int64_t number) {
  std::string bytes;
  for (std::size_t byte = time_size; byte-- > 0;)
    bytes += static_cast<char>((static_cast<std::uint64_t>(number) >> (8 * byte)) & 0xFFU);
  return bytes;
}

std::int64_t from_big_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = (number << 8U) | static_cast<std::uint8_t>(byte);
  return static_cast<std::int64_t>(number);
}

// The label tells a signed ticket from a signed list cursor, which begins with '{': both are signed with the same key.
// Every part has a fixed size, or its size comes first, or it is the last one: so no two tickets sign the same text.
TokenHash sign(std::string_view random, const TicketClaims& claims, const Principal& principal,
               std::string_view secret) {
  std::string text = "stream ticket ";
  text.append(random).append(claims.token).append(big_endian(claims.first_use_by));
  text.append(big_endian(static_cast<std::int64_t>(claims.filters.size()))).append(claims.filters);
  json::ObjectWriter out(text);
  out.string("role", name(principal.role));
  for (const std::string& agent : principal.agents) out.string("agent", agent);
  out.string("keyPrefix", principal.key_prefix);
  out.string("channel", principal.channel);
  if (!principal.key.empty()) out.string("key", principal.key);
  for (const std::string& permission : principal.permissions) out.string("permission", permission);
  out.close();
  return hmac_sha256(secret, text);
}

}  // namespace

bool TicketText::proves(const Principal& principal, std::string_view secret) const {
  return same_hash(sign(random, claims, principal, secret), mac);
}

std::string write_ticket(const TicketClaims& claims, const Principal& principal, std::string_view secret) {
  std::string bytes = random_bytes(random_size);
  const TokenHash mac = sign(bytes, claims, principal, secret);
  bytes.append(mac.begin(), mac.end());
  bytes.append(claims.token).append(big_endian(claims.first_use_by)).append(claims.filters);
  return std::string(ticket_prefix) + to_base64url(bytes);
}

std::optional<TicketText> read_ticket(std::string_view ticket) {
  if (!ticket.starts_with(ticket_prefix)) return std::nullopt;
  const auto bytes = from_base64url(ticket.substr(ticket_prefix.size()));
  if (!bytes || bytes->size() < fixed_size) return std::nullopt;
  std::string_view rest = *bytes;
  const auto take = [&rest](std::size_t size) {
    const std::string_view taken = rest.substr(0, size);
    rest.remove_prefix(size);
    return taken;
  };
  TicketText text;
  text.random = take(random_size);
  std::ranges::copy(take(mac_size), text.mac.begin());
  text.claims.token = take(token_id_size);
  text.claims.first_use_by = from_big_endian(take(time_size));
  text.claims.filters = rest;
  return text;
}

}  // namespace sessiond::auth
