// A key, and AES-256-GCM with it (by OpenSSL). A key counts the lines that it has sealed: store/seal/README.md says why
// it may seal only so many.
//
// Any thread may use a key.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sessiond::seal {

inline constexpr std::size_t key_bytes = 32;
inline constexpr std::size_t nonce_bytes = 12;
inline constexpr std::size_t tag_bytes = 16;
inline constexpr std::uint64_t most_lines = 1ULL << 32;  // of one key

using Nonce = std::array<char, nonce_bytes>;

class Key {
 public:
  // `bytes` has key_bytes.
  Key(std::string id, std::string_view bytes);
  ~Key();  // overwrites the bytes in memory
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  const std::string& id() const { return id_; }
  // 16 hex digits by which another key of the same id is noticed. They tell nothing of the key.
  const std::string& check() const { return check_; }
  bool same_bytes(const Key& other) const;

  // Writes text.size() + tag_bytes bytes. `aad` must be the same when it is opened.
  void encrypt(std::string_view text, const Nonce& nonce, std::string_view aad, char* out) const;
  // Replaces `out` by the text. Returns false if it is not what encrypt() made with this key, nonce and aad.
  bool decrypt(std::string_view sealed, const Nonce& nonce, std::string_view aad, std::string& out) const;

  // Lines that were sealed with this key, at least. A line counts when its nonce is drawn.
  std::uint64_t lines() const { return lines_.load(std::memory_order_relaxed); }
  void count_line() const { lines_.fetch_add(1, std::memory_order_relaxed); }
  void count_from(std::uint64_t lines) const { lines_.store(lines, std::memory_order_relaxed); }

 private:
  std::string id_;
  std::array<unsigned char, key_bytes> bytes_{};
  std::string check_;
  mutable std::atomic<std::uint64_t> lines_ = 0;
};

// Draws 12 bytes from OpenSSL's random source, which is seeded by the kernel.
Nonce draw_nonce();

}  // namespace sessiond::seal
