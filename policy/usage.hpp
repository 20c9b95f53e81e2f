// What a model's answer cost, in whichever words its provider says it, and how counters add up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sessiond {

// Counters end here (2^53): beyond it most readers of JSON lose digits, and no sum of two overflows.
inline constexpr std::int64_t most_counted = std::int64_t{1} << 53;

// A counter as it stands in a file, whoever wrote it: 0 to most_counted, however long the number is. Nothing: no
// number.
std::optional<std::int64_t> counted(std::string_view raw);

inline std::int64_t add_counted(std::int64_t a, std::int64_t b) { return std::min(a + b, most_counted); }

// Tokens; each at most most_counted.
struct TokenUsage {
  std::int64_t input = 0;  // without what came from or went into a cache
  std::int64_t output = 0;
  std::int64_t cache_read = 0;
  std::int64_t cache_write = 0;
  std::int64_t total = 0;  // as given, else the sum of the four
};

// A `usage` object as OpenClaw (input, cacheRead), Anthropic (input_tokens, cache_read_input_tokens), OpenAI
// (prompt_tokens, input_tokens, …_tokens_details.cached_tokens), Google (promptTokenCount) or camelCase (inputTokens)
// spell it. OpenAI and Google count cached tokens within the prompt, the others beside it. Nothing: no object.
std::optional<TokenUsage> read_usage(std::string_view usage);

}  // namespace sessiond
