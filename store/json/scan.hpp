// Finds the next significant byte of a JSON text, 16 bytes at a time where the processor has SSE2 (every x86-64). Each
// request scans entries and messages several times; most of the CPU time of JSON is spent here.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace sessiond::json {

// The escapes of one letter, and the characters that they mean.
inline constexpr std::string_view escape_names = "bfnrt\"\\";
inline constexpr std::string_view escaped = "\b\f\n\r\t\"\\";
// Returns the character that the escape `\<name>` means; `name` itself when it is not in the list, as for `\/`.
inline char meant_by_escape(char name) {
  const std::size_t known = escape_names.find(name);
  return known == std::string_view::npos ? name : escaped[known];
}

// The escape of the line end at `at` that some readers of lines know beside \n and \r; empty: there is none.
inline std::string_view line_end_escape(std::string_view text, std::size_t at) {
  const std::string_view bytes = text.substr(at, 3);
  if (bytes.starts_with("\xC2\x85")) return "\\u0085";
  if (bytes == "\xE2\x80\xA8") return "\\u2028";
  return bytes == "\xE2\x80\xA9" ? "\\u2029" : std::string_view();
}

// Inside a string: the first quote, backslash or control character at or after `at`; text.size() when there is none.
// Sets `high` when it passed bytes outside ASCII; perhaps also when there are some just before `at` or behind the
// result.
inline std::size_t find_special(std::string_view text, std::size_t at, bool& high) {
#ifdef __SSE2__
  __m128i seen = _mm_setzero_si128();
  const auto load = [](const char* from) { return reinterpret_cast<const __m128i*>(from); };
  const auto specials_in = [&seen](__m128i bytes) {
    const __m128i quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
    const __m128i backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
    const __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
    seen = _mm_or_si128(seen, bytes);
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, backslashes), controls)));
  };
  const auto specials_at = [&](std::size_t begin) { return specials_in(_mm_loadu_si128(load(text.data() + begin))); };
  const auto first_of = [&](std::size_t begin, unsigned found) {
    high = high || _mm_movemask_epi8(seen) != 0;
    return begin + static_cast<std::size_t>(std::countr_zero(found));
  };
  unsigned found = 0;  // a bit for each of 16 bytes
  for (; at + 16 <= text.size(); at += 16) {
    found = specials_at(at);
    if (found != 0) return first_of(at, found);
  }
  if (at < text.size() && text.size() >= 16) {  // the last 16 bytes: some of them for the second time
    const std::size_t again = at - (text.size() - 16);
    found = specials_at(text.size() - 16) >> again;
    if (found == 0) at = text.size();
  } else if (at == 0 && text.size() >= 8 && text.size() < 16) {  // the first 8 bytes and the last 8, at once
    const char* const last = text.data() + text.size() - 8;
    found = specials_in(_mm_unpacklo_epi64(_mm_loadl_epi64(load(text.data())), _mm_loadl_epi64(load(last))));
    if (found == 0) at = text.size();
    if ((found & 0xFF) == 0 && found != 0) {
      found >>= 8;
      at = text.size() - 8;
    }
  }
  if (at == 0 && text.size() >= 4 && text.size() < 8) {  // the first 4 and the last 4
    int first = 0, last = 0;
    std::memcpy(&first, text.data(), sizeof first);
    std::memcpy(&last, text.data() + text.size() - sizeof last, sizeof last);
    found = specials_in(_mm_unpacklo_epi32(_mm_cvtsi32_si128(first), _mm_cvtsi32_si128(last))) & 0xFF;
    if (found == 0) at = text.size();
    if ((found & 0xF) == 0 && found != 0) {
      found >>= 4;
      at = text.size() - 4;
    }
  }
  if (found != 0) return first_of(at, found);
  high = high || _mm_movemask_epi8(seen) != 0;
#endif
  for (; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '"' || c == '\\' || c < 0x20) return at;
    high = high || c >= 0x80;
  }
  return at;
}

// From the opening quote to behind the closing one, or to the end.
inline std::size_t skip_string(std::string_view text, std::size_t at) {
  ++at;
  bool high = false;  // not needed here
  while ((at = find_special(text, at, high)) < text.size()) {
    if (text[at] == '"') return at + 1;
    at += text[at] == '\\' ? 2 : 1;
  }
  return text.size();
}

// Outside strings: the first quote, brace or bracket at or after `at`, or a control character that the fast way takes
// for one.
inline std::size_t find_structural(std::string_view text, std::size_t at) {
#ifdef __SSE2__
  const __m128i bit = _mm_set1_epi8(0x20);  // set, [ and { are one, ] and } too
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i open = _mm_set1_epi8('{');
  const __m128i close = _mm_set1_epi8('}');
  for (; at + 16 <= text.size(); at += 16) {
    const __m128i bytes = _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at)), bit);
    const __m128i hits = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, open)),
                                      _mm_cmpeq_epi8(bytes, close));
    if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(hits)); mask != 0)
      return at + static_cast<std::size_t>(std::countr_zero(mask));
  }
#endif
  constexpr std::string_view structural = "\"{}[]";
  while (at < text.size() && structural.find(text[at]) == std::string_view::npos) ++at;
  return at;
}

// From the brace or bracket that opens an object or array to behind the one that closes it, or to the end.
inline std::size_t skip_nested(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
#ifdef __SSE2__
  const __m128i bit = _mm_set1_epi8(0x20);  // set, [ and { are one, ] and } too
  const auto bits_of = [](__m128i hits) { return static_cast<unsigned>(_mm_movemask_epi8(hits)); };
  bool in_string = false;
  while (at + 16 <= text.size()) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
    const unsigned quotes = bits_of(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    const unsigned escapes = bits_of(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    if (in_string && (quotes | escapes) == 0) {
      at += 16;
      continue;
    }
    if (in_string && escapes != 0) {
      at = skip_string(text, at - 1);
      in_string = false;
      continue;
    }
    // Each bit says whether an odd number of quotes stands up to its byte: it is in a string.
    unsigned inside = quotes ^ quotes << 1U;
    inside ^= inside << 2U;
    inside ^= inside << 4U;
    inside ^= inside << 8U;
    if (in_string) inside = ~inside;
    std::size_t step = 16;
    if (escapes != 0) {  // the string with the first one is passed by itself
      const unsigned before = (1U << static_cast<unsigned>(std::countr_zero(escapes))) - 1;
      const unsigned opened = quotes & before & inside;
      step = opened == 0 ? 16 : static_cast<std::size_t>(std::bit_width(opened)) - 1;
    }
    const __m128i folded = _mm_or_si128(bytes, bit);
    const unsigned open = bits_of(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')));
    const unsigned close = bits_of(_mm_cmpeq_epi8(folded, _mm_set1_epi8('}')));
    const unsigned looked_at = (1U << step) - 1;
    for (unsigned left = (open | close) & ~inside & looked_at; left != 0; left &= left - 1) {
      const auto byte = static_cast<unsigned>(std::countr_zero(left));
      if ((open >> byte & 1U) != 0)
        ++depth;
      else if (--depth == 0)
        return at + byte + 1;
    }
    in_string = step == 16 && (inside >> 15U & 1U) != 0;
    at += step;
    if (step != 16) at = skip_string(text, at);
  }
  if (in_string) at = skip_string(text, at - 1);
#endif
  while ((at = find_structural(text, at)) < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return at;
}

}  // namespace sessiond::json
