#include "store/utf8.hpp"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace sessiond::store {
namespace {

bool tail(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

}  // namespace

std::size_t utf8_sequence(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return 1;
  if (first < 0xC2 || !tail(text, at + 1)) return 0;
  if (first < 0xE0) return 2;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  if (!tail(text, at + 2)) return 0;
  if (first < 0xF0) {
    const bool overlong = first == 0xE0 && second < 0xA0;
    const bool surrogate = first == 0xED && second >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  const bool overlong = first == 0xF0 && second < 0x90;
  const bool beyond = first > 0xF4 || (first == 0xF4 && second >= 0x90);
  return overlong || beyond || !tail(text, at + 3) ? 0 : 4;
}

namespace {

// Unicode's simple case folding (its mappings C and S), or another code point of the same class: to upper and
// then to lower case takes 'ς' to 'σ' and 'ſ' to 's'. I with a dot and i without one fold to themselves alone.
std::uint32_t fold_code_point(std::uint32_t code) {
  static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  const bool has_no_case = code >= 0x2E80 && code < 0xA640;  // most of what is written in Chinese and Japanese
  if (has_no_case || code == 0x130 || code == 0x131 || locale == nullptr) return code;
  const wint_t upper = ::towupper_l(static_cast<wint_t>(code), locale);
  return static_cast<std::uint32_t>(::towlower_l(upper, locale));
}

}  // namespace

std::string fold_case(std::string_view text) {
  // Most texts are ASCII: these loops need no look at each character, and compilers make vectors of them.
  std::string out(text);
  unsigned char bits = 0;
  for (char& c : out) {
    bits |= static_cast<unsigned char>(c);
    c = static_cast<char>(c + (c >= 'A' && c <= 'Z' ? 'a' - 'A' : 0));
  }
  if (bits < 0x80) return out;
  out.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence(text, at);
    if (length <= 1) {
      const char c = text[at++];
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      continue;
    }
    std::uint32_t code = static_cast<unsigned char>(text[at]) & (0xFFU >> (length + 1));
    for (std::size_t tail_at = 1; tail_at < length; ++tail_at)
      code = code << 6 | (static_cast<unsigned char>(text[at + tail_at]) & 0x3FU);
    const std::uint32_t folded = fold_code_point(code);
    if (folded == code) {
      out.append(text, at, length);
    } else {
      append_utf8(out, folded);
    }
    at += length;
  }
  return out;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence(text, at);
    out.append(length == 0 ? "\xEF\xBF\xBD" : text.substr(at, length));
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string_view as_utf8(std::string_view text, std::string& held) {
  if (!invalid_utf8(text)) return text;
  held = replace_invalid_utf8(text);
  return held;
}

std::optional<std::size_t> invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    // Nearly all of it is ASCII: 32 bytes at a time.
    std::array<std::uint64_t, 4> some{};
    for (; at + sizeof(some) <= text.size(); at += sizeof(some)) {
      std::memcpy(some.data(), text.data() + at, sizeof(some));
      if (((some[0] | some[1] | some[2] | some[3]) & 0x8080808080808080ULL) != 0) break;
    }
    if (std::uint64_t eight = 0; at + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080ULL) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    if (at == text.size()) break;
    if (text.size() >= 8 && at + 8 > text.size()) {  // the last 8 bytes: some of them for the second time
      std::uint64_t last = 0;
      std::memcpy(&last, text.data() + text.size() - sizeof(last), sizeof(last));
      if ((last & 0x8080808080808080ULL) == 0) break;
    }
    const std::size_t length = utf8_sequence(text, at);
    if (length == 0) return at;
    at += length;
  }
  return {};
}

std::size_t white_space(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (c == ' ' || (c >= '\t' && c <= '\r')) return 1;
  if (static_cast<unsigned char>(c) < 0xC2) return 0;
  // U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000
  const std::string_view two = text.substr(at, 2);
  if (two == "\xC2\x85" || two == "\xC2\xA0") return 2;
  const std::string_view three = text.substr(at, 3);
  if (three == "\xE1\x9A\x80" || three == "\xE2\x81\x9F" || three == "\xE3\x80\x80") return 3;
  if (three.size() < 3 || !three.starts_with("\xE2\x80")) return 0;
  const auto last = static_cast<unsigned char>(three[2]);
  return last <= 0x8A || last == 0xA8 || last == 0xA9 || last == 0xAF ? 3 : 0;
}

std::string with_single_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = white_space(text, at);
    if (space == 0) {
      out += text[at++];
      continue;
    }
    if (out.empty() || out.back() != ' ') out += ' ';
    at += space;
  }
  return out;
}

namespace {
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }
}  // namespace

std::size_t code_points_end(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (!continues(text[at]) && count-- == 0) return at;
  return at;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return !continues(byte); }));
}

std::size_t utf8_prefix(std::string_view text, std::size_t most) {
  if (most >= text.size()) return text.size();
  while (most > 0 && continues(text[most])) --most;
  return most;
}

}  // namespace sessiond::store
