#include "daemon/api/cursor.hpp"

#include <optional>
#include <span>
#include <utility>

#include "daemon/auth/secret.hpp"
#include "store/hex.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t signature_digits = 24;

std::string hex_signature(std::string_view secret, std::string_view text) {
  return store::to_hex(auth::hmac_sha256(secret, text)).substr(0, signature_digits);
}

std::span<const unsigned char> bytes_of(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

std::optional<std::string> from_hex(std::string_view digits) {
  std::string text(digits.size() / 2, '\0');
  const bool good = store::from_hex(digits, {reinterpret_cast<unsigned char*>(text.data()), text.size()});
  return good ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace

std::string seal_cursor(const Api& api, std::string_view text) {
  return hex_signature(api.cursor_secret, text) + store::to_hex(bytes_of(text));
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
