#include "daemon/api/cursor.hpp"

#include <fmt/format.h>

#include <optional>

#include "daemon/auth/secret.hpp"
#include "store/json/raw_json.hpp"
#include "store/number.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t signature_digits = 24;

std::string hex_signature(std::string_view secret, std::string_view text) {
  return auth::to_hex(auth::hmac_sha256(secret, text)).substr(0, signature_digits);
}

std::string to_hex(std::string_view text) {
  std::string out;
  for (const char c : text) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 2) {
    const auto byte = store::parse_number<std::uint8_t>(text.substr(at, 2), 16);
    if (!byte) return {};
    out += static_cast<char>(*byte);
  }
  return out;
}

}  // namespace

std::string seal_cursor(const Api& api, std::string_view text) {
  return hex_signature(api.cursor_secret, text) + to_hex(text);
}

Result<std::string> open_cursor(const Api& api, std::string_view cursor, std::string_view list) {
  const auto text = cursor.size() < signature_digits ? std::nullopt : from_hex(cursor.substr(signature_digits));
  if (!text || hex_signature(api.cursor_secret, *text) != cursor.substr(0, signature_digits))
    return fail(Code::bad_cursor, "cursor: was not made by this daemon");
  if (json::string_at(*text, "f") != list)
    return fail(Code::bad_cursor, "cursor: was made for another list, other filters or another order");
  return *text;
}

}  // namespace sessiond::api
