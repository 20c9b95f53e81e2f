#include "daemon/auth/secret.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "store/hex.hpp"

namespace sessiond::auth {
namespace {

constexpr std::string_view token_prefix = "sd_";
constexpr std::string_view id_alphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr bool in_base64url(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

}  // namespace

bool valid_token_id(std::string_view id) {
  return id.size() == token_id_size && id.find_first_not_of(id_alphabet) == id.npos;
}

std::string random_token_id() {
  constexpr std::size_t unbiased = 256 - 256 % id_alphabet.size();
  std::string id;
  while (id.size() < token_id_size) {
    const auto byte = static_cast<std::uint8_t>(random_bytes(1).front());
    if (byte < unbiased) id += id_alphabet[byte % id_alphabet.size()];
  }
  return id;
}

std::string random_token(std::string_view id) {
  std::string secret = random_bytes(32);
  std::string token = fmt::format("{}{}_{}", token_prefix, id, to_base64url(secret));
  OPENSSL_cleanse(secret.data(), secret.size());
  return token;
}

std::optional<std::string_view> id_of_token(std::string_view token) {
  if (token.size() != token_size || !token.starts_with(token_prefix)) return std::nullopt;
  const std::string_view id = token.substr(token_prefix.size(), token_id_size);
  const std::string_view secret = token.substr(token_prefix.size() + token_id_size + 1);
  if (token[token_prefix.size() + token_id_size] != '_' || !valid_token_id(id)) return std::nullopt;
  if (!std::ranges::all_of(secret, in_base64url)) return std::nullopt;
  return id;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t got = 0; got < count;) {
    const ssize_t n = ::getrandom(bytes.data() + got, count - got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::system_error(errno, std::generic_category(), "getrandom");
    got += static_cast<std::size_t>(n);
  }
  return bytes;
}

std::string to_base64url(std::string_view bytes) {
  std::string text((bytes.size() * 8 + 5) / 6, '\0');
  std::size_t at = 0;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char byte : bytes) {
    bits = (bits << 8) | static_cast<std::uint8_t>(byte);
    for (count += 8; count >= 6; count -= 6) text[at++] = base64url[(bits >> (count - 6)) & 63U];
  }
  if (count > 0) text[at] = base64url[(bits << (6 - count)) & 63U];
  return text;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() * 6 / 8);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const auto value = base64url.find(c);
    if (value == base64url.npos) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> count) & 0xFFU);
  }
  if (to_base64url(bytes) != text) return std::nullopt;
  return bytes;
}

TokenHash hmac_sha256(std::string_view secret, std::string_view text) {
  TokenHash mac{};
  unsigned length = 0;
  ::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &length);
  return mac;
}

Hmac::Hmac(std::string_view secret)
    : keyed_([secret] {
        EVP_MAC* const hmac = ::EVP_MAC_fetch(nullptr, "HMAC", nullptr);
        EVP_MAC_CTX* const keyed = hmac == nullptr ? nullptr : ::EVP_MAC_CTX_new(hmac);
        ::EVP_MAC_free(hmac);  // the context holds it
        std::array<char, 7> digest{"SHA256"};
        const std::array<OSSL_PARAM, 2> params{::OSSL_PARAM_construct_utf8_string("digest", digest.data(), 0),
                                               ::OSSL_PARAM_construct_end()};
        const auto* const key = reinterpret_cast<const unsigned char*>(secret.data());
        if (keyed == nullptr || ::EVP_MAC_init(keyed, key, secret.size(), params.data()) != 1)
          throw std::runtime_error("OpenSSL has no HMAC-SHA-256");
        return keyed;
      }()) {}

Hmac::~Hmac() { ::EVP_MAC_CTX_free(keyed_); }

TokenHash Hmac::of(std::string_view text) const {
  TokenHash mac{};
  std::size_t length = 0;
  EVP_MAC_CTX* const own = ::EVP_MAC_CTX_dup(keyed_);
  const bool done = own != nullptr &&
                    ::EVP_MAC_update(own, reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1 &&
                    ::EVP_MAC_final(own, mac.data(), &length, mac.size()) == 1;
  ::EVP_MAC_CTX_free(own);
  if (!done) throw std::runtime_error("OpenSSL makes no HMAC");
  return mac;
}

TokenHash hash_token(std::string_view token) {
  static_assert(std::tuple_size_v<TokenHash> == SHA256_DIGEST_LENGTH);
  TokenHash hash{};
  ::SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

std::optional<TokenHash> hash_from_hex(std::string_view hex) {
  TokenHash hash{};
  return store::from_hex(hex, hash) ? std::optional(hash) : std::nullopt;
}

bool same_hash(const TokenHash& a, const TokenHash& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

bool same_token(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace sessiond::auth
