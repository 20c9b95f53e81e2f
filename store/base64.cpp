#include "store/base64.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace sessiond::store {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Two characters for each value of 12 bits: half the look-ups of one character for 6.
constexpr auto pairs = [] {
  std::array<std::array<char, 2>, 4096> table{};
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = {alphabet[value >> 6], alphabet[value & 63]};
  return table;
}();

constexpr std::uint32_t bad = 1U << 24;  // beyond what four characters can say

constexpr auto values = [] {
  std::array<std::uint32_t, 256> table{};
  table.fill(bad);
  for (std::uint32_t value = 0; value < alphabet.size(); ++value)
    table[static_cast<unsigned char>(alphabet[value])] = value;
  return table;
}();

std::uint32_t value_of(char c) { return values[static_cast<unsigned char>(c)]; }

}  // namespace

void to_base64(std::string_view bytes, char* out) {
  const auto* in = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 3; left -= 3, in += 3, out += 4) {
    const std::uint32_t three = std::uint32_t{in[0]} << 16 | std::uint32_t{in[1]} << 8 | in[2];
    std::memcpy(out, pairs[three >> 12].data(), 2);
    std::memcpy(out + 2, pairs[three & 4095].data(), 2);
  }
  if (left == 0) return;
  const std::uint32_t rest = std::uint32_t{in[0]} << 16 | (left == 2 ? std::uint32_t{in[1]} << 8 : 0);
  std::memcpy(out, pairs[rest >> 12].data(), 2);
  out[2] = left == 2 ? alphabet[rest >> 6 & 63] : '=';
  out[3] = '=';
}

std::string to_base64(std::string_view bytes) {
  std::string out(base64_size(bytes.size()), '\0');
  to_base64(bytes, out.data());
  return out;
}

bool from_base64(std::string_view text, std::string& out) {
  if (text.size() % 4 != 0) return false;
  if (text.empty()) return out.clear(), true;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  out.resize(text.size() / 4 * 3 - padding);
  char* to = out.data();
  const char* in = text.data();
  const std::size_t whole = text.size() / 4 - (padding == 0 ? 0 : 1);
  std::uint32_t faults = 0;
  for (std::size_t four = 0; four < whole; ++four, in += 4, to += 3) {
    const std::uint32_t a = value_of(in[0]), b = value_of(in[1]), c = value_of(in[2]), d = value_of(in[3]);
    faults |= a | b | c | d;
    const std::uint32_t three = a << 18 | b << 12 | c << 6 | d;
    to[0] = static_cast<char>(three >> 16);
    to[1] = static_cast<char>(three >> 8);
    to[2] = static_cast<char>(three);
  }
  if ((faults & bad) != 0) return false;
  if (padding == 0) return true;
  const std::uint32_t a = value_of(in[0]), b = value_of(in[1]), c = padding == 1 ? value_of(in[2]) : 0;
  if (((a | b | c) & bad) != 0) return false;
  const std::uint32_t three = a << 18 | b << 12 | c << 6;
  to[0] = static_cast<char>(three >> 16);
  if (padding == 1) to[1] = static_cast<char>(three >> 8);
  return (three & (padding == 1 ? 0xFFU : 0xFFFFU)) == 0;  // the bits that no byte has
}

std::string to_base64(std::string_view bytes, Base64Form form) {
  std::string out = to_base64(bytes);
  if (!form.padded) out.resize(std::min(out.size(), out.find('=')));
  if (form.url) {
    std::ranges::replace(out, '+', '-');
    std::ranges::replace(out, '/', '_');
  }
  if (!form.slashes) return out;
  std::string escaped;
  for (const char c : out) (c == '/' ? escaped += '\\' : escaped) += c;
  return escaped;
}

std::optional<Base64Decoded> from_base64(std::string_view text) {
  Base64Decoded out{.form = {.url = text.find_first_of("-_") != std::string_view::npos,
                             .padded = true,
                             .slashes = text.contains('\\')}};
  std::string common(text);
  if (out.form.slashes) std::erase(common, '\\');
  if (out.form.url) {
    std::ranges::replace(common, '-', '+');
    std::ranges::replace(common, '_', '/');
  }
  if (const std::size_t rest = common.size() % 4; rest >= 2) {
    out.form.padded = false;
    common.append(4 - rest, '=');
  }
  // Both alphabets at once, or slashes of which only some are escaped, are no form.
  if (!from_base64(common, out.bytes) || to_base64(out.bytes, out.form) != text) return {};
  return out;
}

}  // namespace sessiond::store
