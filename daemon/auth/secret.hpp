// The text of a token, `sd_<id>_<43 characters base64url>`: 8 of [a-z0-9], then 32 random bytes (API §7). Only its
// SHA-256 is ever stored. And what secrets are made of: random bytes, base64url, HMAC. Random bytes come from the
// kernel; without them nothing here can go on, so that is an exception.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond {

inline constexpr std::size_t token_id_size = 8;
inline constexpr std::size_t token_size = 3 + token_id_size + 1 + 43;

using TokenHash = std::array<std::uint8_t, 32>;

bool valid_token_id(std::string_view id);
std::string random_token_id();
std::string random_token(std::string_view id);

// The id of a token that has the right shape, else nothing. Says nothing of whether the token is good.
std::optional<std::string_view> id_of_token(std::string_view token);

TokenHash hash_token(std::string_view token);
std::string to_hex(const TokenHash& hash);
std::optional<TokenHash> hash_from_hex(std::string_view hex);  // 64 digits, lower-case

std::string random_bytes(std::size_t count);
// Without padding, as RFC 4648 §5 has it. Each text is read from one encoding only: what encodes to another is nothing.
std::string to_base64url(std::string_view bytes);
std::optional<std::string> from_base64url(std::string_view text);
TokenHash hmac_sha256(std::string_view secret, std::string_view text);

// Take the same time wherever the first difference is.
bool same_hash(const TokenHash& a, const TokenHash& b);
bool same_token(std::string_view a, std::string_view b);  // different lengths are never the same

}  // namespace sessiond
