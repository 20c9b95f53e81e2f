// Finds the next significant byte of a JSON text, 16 bytes at a time where the processor has SSE2 (every x86-64). Each
// request scans entries and messages several times; most of the CPU time of JSON is spent here.
#pragma once

#include <bit>
#include <cstddef>
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

}  // namespace sessiond::json
