#include "store/seal/key.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "store/hex.hpp"

namespace sessiond::seal {
namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

void demand(bool done) {
  if (!done) throw std::runtime_error("OpenSSL could not use AES-256-GCM");
}

const unsigned char* raw(const char* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* raw(char* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// A thread's cipher, for one direction. Making its context and expanding a key take longer than to seal a short line,
// so both are kept: most lines have the key of the line before.
class Cipher {
 public:
  explicit Cipher(bool encrypts) : encrypts_(encrypts ? 1 : 0), context_(EVP_CIPHER_CTX_new()) {
    static const EVP_CIPHER* const aes = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
    demand(context_ && aes != nullptr &&
           EVP_CipherInit_ex2(context_.get(), aes, nullptr, nullptr, encrypts_, nullptr) == 1);
  }

  EVP_CIPHER_CTX* begin(std::span<const unsigned char, key_bytes> key, const Nonce& nonce, std::string_view aad) {
    const bool known = has_key_ && std::ranges::equal(key, key_);
    if (!known) std::ranges::copy(key, key_.begin());
    has_key_ = true;
    demand(EVP_CipherInit_ex2(context_.get(), nullptr, known ? nullptr : key.data(), raw(nonce.data()), encrypts_,
                              nullptr) == 1);
    int length = 0;
    demand(EVP_CipherUpdate(context_.get(), nullptr, &length, raw(aad.data()), static_cast<int>(aad.size())) == 1);
    return context_.get();
  }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;
  ~Cipher() { OPENSSL_cleanse(key_.data(), key_.size()); }

 private:
  int encrypts_;
  std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context_;
  std::array<unsigned char, key_bytes> key_{};
  bool has_key_ = false;
};

constexpr std::size_t most_at_once = 1U << 30;  // OpenSSL takes an int

}  // namespace

Key::Key(std::string id, std::string_view bytes) : id_(std::move(id)) {
  assert(bytes.size() == key_bytes);
  std::memcpy(bytes_.data(), bytes.data(), key_bytes);
  static constexpr std::string_view text = "sessiond: which key is this?";
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned int length = 0;
  demand(HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()), raw(text.data()), text.size(), mac.data(),
              &length) != nullptr);
  check_ = store::to_hex(std::span(mac).first(8));
}

Key::~Key() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

bool Key::same_bytes(const Key& other) const {
  return CRYPTO_memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
}

void Key::encrypt(std::string_view text, const Nonce& nonce, std::string_view aad, char* out) const {
  thread_local Cipher cipher(true);
  EVP_CIPHER_CTX* const context = cipher.begin(bytes_, nonce, aad);
  int length = 0;
  for (; text.size() > most_at_once; text.remove_prefix(most_at_once), out += length)
    demand(EVP_EncryptUpdate(context, raw(out), &length, raw(text.data()), most_at_once) == 1);
  demand(EVP_EncryptUpdate(context, raw(out), &length, raw(text.data()), static_cast<int>(text.size())) == 1);
  out += length;
  demand(EVP_EncryptFinal_ex(context, raw(out), &length) == 1);
  demand(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, tag_bytes, out) == 1);
}

bool Key::decrypt(std::string_view sealed, const Nonce& nonce, std::string_view aad, std::string& out) const {
  if (sealed.size() < tag_bytes) return false;
  thread_local Cipher cipher(false);
  std::string_view text = sealed.substr(0, sealed.size() - tag_bytes);
  std::array<char, tag_bytes> tag{};
  sealed.copy(tag.data(), tag.size(), text.size());
  EVP_CIPHER_CTX* const context = cipher.begin(bytes_, nonce, aad);
  demand(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, tag_bytes, tag.data()) == 1);
  out.resize(text.size());
  char* to = out.data();
  int length = 0;
  for (; text.size() > most_at_once; text.remove_prefix(most_at_once), to += length)
    demand(EVP_DecryptUpdate(context, raw(to), &length, raw(text.data()), most_at_once) == 1);
  demand(EVP_DecryptUpdate(context, raw(to), &length, raw(text.data()), static_cast<int>(text.size())) == 1);
  std::array<unsigned char, 16> nothing{};
  const bool fits = EVP_DecryptFinal_ex(context, nothing.data(), &length) == 1;
  if (!fits) out.clear();
  return fits;
}

Nonce draw_nonce() {
  struct Drawn {
    std::array<char, 85 * nonce_bytes> bytes{};
    std::size_t used = sizeof bytes;
  };
  thread_local Drawn drawn;  // one call for many nonces
  if (drawn.used == drawn.bytes.size()) {
    if (RAND_bytes(raw(drawn.bytes.data()), static_cast<int>(drawn.bytes.size())) != 1)
      throw std::runtime_error("OpenSSL gave no random bytes");
    drawn.used = 0;
  }
  Nonce nonce{};
  std::memcpy(nonce.data(), drawn.bytes.data() + drawn.used, nonce_bytes);
  drawn.used += nonce_bytes;
  return nonce;
}

}  // namespace sessiond::seal
