// Reads how many tokens a model's reply took, in the spelling of each provider, and adds counters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::policy {

// Counters stop at 2^53: most readers of JSON lose digits beyond it, and the sum of two never overflows.
inline constexpr std::int64_t most_counted = std::int64_t{1} << 53;

// Reads a counter of a file, which a foreign program may have written: any number becomes 0 to most_counted. Returns
// nothing when it is not a number.
std::optional<std::int64_t> counted(std::string_view raw);

inline std::int64_t add_counted(std::int64_t a, std::int64_t b) { return std::min(a + b, most_counted); }

// Numbers of tokens, each at most most_counted.
struct TokenUsage {
  std::int64_t input = 0;  // without tokens read from or written to a cache
  std::int64_t output = 0;
  std::int64_t cache_read = 0;
  std::int64_t cache_write = 0;
  std::int64_t total = 0;  // as given, else sum()
  std::int64_t used = 0;   // of the model's window: sum(), and more where the provider's total has what no part tells

  // Tokens of the prompt of the reply, those from the provider's cache included.
  std::int64_t prompt() const { return add_counted(input, add_counted(cache_read, cache_write)); }
  std::int64_t sum() const { return add_counted(add_counted(input, output), add_counted(cache_read, cache_write)); }
};

// The sums of a session, as the member usageTotals of its entry has them: {"input","output","total"}. totalTokens of
// the entry is not a sum where foreign programs read it as the size of the present context.
struct UsageTotals {
  std::int64_t input = 0, output = 0, total = 0;

  void add(const TokenUsage& usage) {
    input = add_counted(input, usage.input);
    output = add_counted(output, usage.output);
    total = add_counted(total, usage.total);
  }
  // False: a number has reached most_counted. read_totals() reads it as another one.
  bool is_sum() const { return std::max({input, output, total}) < most_counted; }
  std::string json() const;
  bool operator==(const UsageTotals&) const = default;
};

// Reads a member usageTotals; what it does not name is 0. Returns nothing when it is not an object. 2^53 and more,
// which an earlier version wrote, a number below 0, and what is not a number are not sums: as input and output they
// count as 0, and as a total as the sum of both.
std::optional<UsageTotals> read_totals(std::string_view raw);
// Returns whether all that a member usageTotals names is a sum.
bool are_totals(std::string_view raw);

// Reads a `usage` object in the spelling of OpenClaw, Anthropic, OpenAI, Google, Bedrock, MiniMax, Moonshot, DeepSeek
// or the AI SDK. usage.cpp has a table of them: some count cached tokens within the prompt's, others beside them, and
// not every total is of all. Of another spelling the greater of total and parts is used, and its cache counts beside
// the prompt only where it has more. Returns nothing when it is not an object.
std::optional<TokenUsage> read_usage(std::string_view usage);

// Reads cost.total of a `usage` object, in USD, as microcents: USD times 10^8, rounded, 0 to most_counted. 0 when there
// is none, or it is no number above 0.
std::int64_t cost_of(std::string_view usage);

}  // namespace sessiond::policy
