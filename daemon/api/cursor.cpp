#include "daemon/api/cursor.hpp"

#include <fmt/format.h>
#include <openssl/hmac.h>

#include <array>
#include <optional>

#include "store/json/raw_json.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t signature_digits = 24;

std::string hex_signature(std::string_view secret, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &length);
  std::string out;
  for (std::size_t index = 0; index < 12; ++index) out += fmt::format("{:02x}", mac.at(index));
  return out;
}

std::string to_hex(std::string_view text) {
  std::string out;
  for (const char c : text) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return {};
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 2) {
    const auto digit = [](char c) -> int {
      if (c >= '0' && c <= '9') return c - '0';
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    const int high = digit(text[at]);
    const int low = digit(text[at + 1]);
    if (high < 0 || low < 0) return {};
    out += static_cast<char>(high * 16 + low);
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
