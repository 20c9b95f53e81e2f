#include "daemon/api/cursor.hpp"

#include <algorithm>

#include "daemon/api/api.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::api {

CursorSeal::CursorSeal(std::string_view secret)
    : hmac_(secret), key_("cursors", [this] {
        const auto bytes = hmac_.of("cursors");
        return std::string(bytes.begin(), bytes.end());
      }()) {}

// Made from the text, so that the same place has the same cursor, and two places never share a nonce.
seal::Nonce CursorSeal::nonce_of(std::string_view text) const {
  const auto bytes = hmac_.of(text);
  seal::Nonce nonce{};
  std::copy_n(bytes.begin(), nonce.size(), nonce.begin());
  return nonce;
}

std::string CursorSeal::seal(std::string_view text) const {
  const seal::Nonce nonce = nonce_of(text);
  std::string sealed(nonce.begin(), nonce.end());
  sealed.resize(nonce.size() + text.size() + seal::tag_bytes);
  key_.encrypt(text, nonce, "", sealed.data() + nonce.size());
  return auth::to_base64url(sealed);
}

std::optional<std::string> CursorSeal::open(std::string_view cursor) const {
  const auto bytes = auth::from_base64url(cursor);
  if (!bytes || bytes->size() < seal::nonce_bytes + seal::tag_bytes) return {};
  seal::Nonce nonce{};
  std::copy_n(bytes->begin(), nonce.size(), nonce.begin());
  std::string text;
  if (!key_.decrypt(std::string_view(*bytes).substr(nonce.size()), nonce, "", text)) return {};
  return text;
}

std::string seal_cursor(const Api& api, std::string_view text) { return api.cursors.seal(text); }

Result<std::string> open_cursor(const Api& api, std::string_view cursor, std::string_view list) {
  auto text = api.cursors.open(cursor);
  if (!text) return fail(Code::bad_cursor, "cursor: was not made by this daemon");
  if (json::string_at(*text, "f") != list)
    return fail(Code::bad_cursor, "cursor: was made for another list, other filters or another order");
  return std::move(*text);
}

}  // namespace sessiond::api
