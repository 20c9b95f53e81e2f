#include "daemon/api/cursor.hpp"

#include <algorithm>
#include <optional>

#include "daemon/auth/secret.hpp"
#include "store/json/raw_json.hpp"
#include "store/seal/key.hpp"

namespace sessiond::api {
namespace {

seal::Key key_of(const Api& api) {
  const auto bytes = auth::hmac_sha256(api.cursor_secret, "cursors");
  return {"cursors", std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
}

// Made from the text, so that the same place has the same cursor, and two places never share a nonce.
seal::Nonce nonce_of(const Api& api, std::string_view text) {
  const auto bytes = auth::hmac_sha256(api.cursor_secret, text);
  seal::Nonce nonce{};
  std::copy_n(bytes.begin(), nonce.size(), nonce.begin());
  return nonce;
}

std::optional<std::string> text_of(const Api& api, std::string_view cursor) {
  const auto bytes = auth::from_base64url(cursor);
  if (!bytes || bytes->size() < seal::nonce_bytes + seal::tag_bytes) return {};
  seal::Nonce nonce{};
  std::copy_n(bytes->begin(), nonce.size(), nonce.begin());
  std::string text;
  if (!key_of(api).decrypt(std::string_view(*bytes).substr(nonce.size()), nonce, "", text)) return {};
  return text;
}

}  // namespace

std::string seal_cursor(const Api& api, std::string_view text) {
  const seal::Nonce nonce = nonce_of(api, text);
  std::string sealed(nonce.begin(), nonce.end());
  sealed.resize(nonce.size() + text.size() + seal::tag_bytes);
  key_of(api).encrypt(text, nonce, "", sealed.data() + nonce.size());
  return auth::to_base64url(sealed);
}

Result<std::string> open_cursor(const Api& api, std::string_view cursor, std::string_view list) {
  auto text = text_of(api, cursor);
  if (!text) return fail(Code::bad_cursor, "cursor: was not made by this daemon");
  if (json::string_at(*text, "f") != list)
    return fail(Code::bad_cursor, "cursor: was made for another list, other filters or another order");
  return std::move(*text);
}

}  // namespace sessiond::api
