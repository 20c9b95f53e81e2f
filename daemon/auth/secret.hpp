// Makes and checks tokens: `sd_<id>_<secret>`, where the id is 8 of [a-z0-9] and the secret 32 random bytes in
// base64url (43 characters). Only the SHA-256 of a token is stored. Also the parts that secrets are made of: random
// bytes, base64url, HMAC. Throws std::system_error if the kernel gives no random bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct evp_mac_ctx_st;  // OpenSSL's EVP_MAC_CTX

namespace sessiond::auth {

inline constexpr std::size_t token_id_size = 8;
inline constexpr std::size_t token_id_at = 3;
inline constexpr std::size_t token_size = token_id_at + token_id_size + 1 + 43;

using TokenHash = std::array<std::uint8_t, 32>;

bool valid_token_id(std::string_view id);
std::string random_token_id();
std::string random_token(std::string_view id);

// Returns the id of a text that has the shape of a token, else nothing. Does not check whether the token is valid.
std::optional<std::string_view> id_of_token(std::string_view token);

TokenHash hash_token(std::string_view token);
std::optional<TokenHash> hash_from_hex(std::string_view hex);  // 64 digits, lower-case

std::string random_bytes(std::size_t count);
// Without padding (RFC 4648 §5). from_base64url accepts only the one text that to_base64url makes of its result.
std::string to_base64url(std::string_view bytes);
std::optional<std::string> from_base64url(std::string_view text);
TokenHash hmac_sha256(std::string_view secret, std::string_view text);
// The same for many texts with one secret, in half the time.
class Hmac {
 public:
  explicit Hmac(std::string_view secret);
  ~Hmac();
  Hmac(const Hmac&) = delete;
  Hmac& operator=(const Hmac&) = delete;
  TokenHash of(std::string_view text) const;

 private:
  evp_mac_ctx_st* const keyed_;
};

// Compare in constant time.
bool same_hash(const TokenHash& a, const TokenHash& b);
bool same_token(std::string_view a, std::string_view b);  // different lengths are never the same

}  // namespace sessiond::auth
