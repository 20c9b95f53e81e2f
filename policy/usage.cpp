#include "policy/usage.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "store/json/raw_json.hpp"

namespace sessiond::policy {
namespace {

// The numbers of a usage object, by the first of their names that has a number.
enum Number : std::uint8_t { input, output, thoughts, cache_read, cache_write, total, numbers };
struct Name {
  std::string_view name;
  Number number;
  std::string_view member{};  // of the object that it names, which has the number
};
constexpr std::array<Name, 32> names{{{"input", input},
                                      {"inputTokens", input},
                                      {"inputTokens", input, "total"},
                                      {"input_tokens", input},
                                      {"prompt_tokens", input},
                                      {"promptTokenCount", input},
                                      {"output", output},
                                      {"outputTokens", output},
                                      {"outputTokens", output, "total"},
                                      {"output_tokens", output},
                                      {"completion_tokens", output},
                                      {"candidatesTokenCount", output},
                                      {"thoughtsTokenCount", thoughts},
                                      {"prompt_tokens_details", cache_read, "cached_tokens"},
                                      {"input_tokens_details", cache_read, "cached_tokens"},
                                      {"inputTokenDetails", cache_read, "cacheReadTokens"},
                                      {"inputTokenDetails", cache_write, "cacheWriteTokens"},
                                      {"inputTokens", cache_read, "cacheRead"},
                                      {"inputTokens", cache_write, "cacheWrite"},
                                      {"cached_tokens", cache_read},
                                      {"cachedContentTokenCount", cache_read},
                                      {"prompt_cache_hit_tokens", cache_read},
                                      {"cacheRead", cache_read},
                                      {"cacheReadInputTokens", cache_read},
                                      {"cachedInputTokens", cache_read},
                                      {"cache_read_input_tokens", cache_read},
                                      {"cacheWrite", cache_write},
                                      {"cacheWriteInputTokens", cache_write},
                                      {"cache_creation_input_tokens", cache_write},
                                      {"totalTokens", total},
                                      {"total_tokens", total},
                                      {"totalTokenCount", total}}};

enum class Cache : std::uint8_t { within, beside };  // cached tokens are counted within the prompt's, or beside them
// How a provider counts. It is known by the names of two numbers: of the prompt's tokens and of the cached ones.
struct Spelling {
  std::string_view prompt, cached;
  Cache cache;
  bool whole_total;  // the total has all parts, and maybe more
};
constexpr std::array<Spelling, 12> spellings{{
    {"input", "cacheRead", Cache::beside, false},                          // OpenClaw, Pi
    {"input_tokens", "cache_read_input_tokens", Cache::beside, false},     // Anthropic
    {"input_tokens", "input_tokens_details", Cache::within, true},         // OpenAI, Responses
    {"prompt_tokens", "prompt_tokens_details", Cache::within, true},       // OpenAI, Chat Completions
    {"prompt_tokens", "cache_read_input_tokens", Cache::within, true},     // MiniMax
    {"prompt_tokens", "cached_tokens", Cache::within, true},               // Moonshot
    {"prompt_tokens", "prompt_cache_hit_tokens", Cache::within, true},     // DeepSeek
    {"promptTokenCount", "cachedContentTokenCount", Cache::within, true},  // Google
    {"inputTokens", "cacheReadInputTokens", Cache::beside, false},         // Bedrock
    {"inputTokens", "cachedInputTokens", Cache::beside, false},            // AI SDK 5
    {"inputTokens", "inputTokenDetails", Cache::within, true},             // AI SDK 6
    {"inputTokens", "inputTokens", Cache::within, true},                   // its providers
}};

// Returns the spelling of a usage object; null if it is not in the table. Without a cache the name of the prompt's
// tokens is enough, except for `inputTokens`: its providers do not agree on the total.
const Spelling* spelling_of(std::string_view prompt, std::string_view cached) {
  const auto found = std::ranges::find_if(spellings, [&](const Spelling& one) {
    return one.prompt == prompt && (one.cached == cached || (cached.empty() && prompt != "inputTokens"));
  });
  return found == spellings.end() ? nullptr : &*found;
}

// Returns the name that tokens read from a cache have where tokens written to it are named so.
std::string_view read_name_of(std::string_view written) {
  if (written == "cacheWrite") return "cacheRead";
  if (written == "cacheWriteInputTokens") return "cacheReadInputTokens";
  return written == "cache_creation_input_tokens" ? "cache_read_input_tokens" : written;
}

std::optional<std::int64_t> number_in(const Name& name, std::string_view value) {
  if (name.member.empty()) return counted(value);
  if (json::kind(value) != json::Kind::object) return {};
  const auto member = json::find(value, name.member);
  return member ? counted(*member) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> counted(std::string_view raw) {
  if (raw.empty()) return {};
  if (const auto number = json::as_int(raw)) return std::clamp(*number, std::int64_t{0}, most_counted);
  const auto real = json::as_double(raw);
  // Not a double: either it is not a number, or its power of ten is too large or too small.
  if (!real) {
    if (json::kind(raw) != json::Kind::number) return {};
    return raw.starts_with('-') || raw.contains("e-") || raw.contains("E-") ? 0 : most_counted;
  }
  if (*real >= static_cast<double>(most_counted)) return most_counted;
  return *real > 0 ? static_cast<std::int64_t>(*real) : 0;
}

std::string UsageTotals::json() const {
  json::ObjectWriter out;
  out.integer("input", input);
  out.integer("output", output);
  out.integer("total", total);
  return out.text();
}

namespace {

// Reads a stored sum; nothing if it is not one.
std::optional<std::int64_t> sum_of(std::string_view raw) {
  const auto number = counted(raw);
  return number && *number < most_counted && !raw.starts_with('-') ? number : std::nullopt;
}

}  // namespace

std::optional<UsageTotals> read_totals(std::string_view raw) {
  if (json::kind(raw) != json::Kind::object) return {};
  UsageTotals totals;
  bool has_total = true;  // or names none, which is 0
  for (const json::Member& member : json::members(raw)) {
    if (member.name == "input") totals.input = sum_of(member.value).value_or(0);
    if (member.name == "output") totals.output = sum_of(member.value).value_or(0);
    if (member.name != "total") continue;
    totals.total = sum_of(member.value).value_or(0);
    has_total = sum_of(member.value).has_value();
  }
  if (!has_total) totals.total = std::min(add_counted(totals.input, totals.output), most_counted - 1);
  return totals;
}

bool are_totals(std::string_view raw) {
  return json::kind(raw) == json::Kind::object && std::ranges::all_of(json::members(raw), [](const auto& member) {
           const bool is_named = member.name == "input" || member.name == "output" || member.name == "total";
           return !is_named || (sum_of(member.value) && json::as_int(member.value));
         });
}

std::optional<TokenUsage> read_usage(std::string_view usage) {
  if (usage.empty() || json::kind(usage) != json::Kind::object) return {};
  struct Found {
    std::size_t rank = names.size();
    std::int64_t tokens = 0;
    std::string_view name{};
  };
  std::array<Found, numbers> found{};
  std::string held;
  for (const json::Member& member : json::members(usage)) {
    const std::string_view name = name_of(member, held);
    for (std::size_t rank = 0; rank < names.size(); ++rank) {
      if (names[rank].name != name) continue;
      Found& there = found[names[rank].number];
      if (there.rank < rank) continue;
      if (const auto tokens = number_in(names[rank], member.value)) there = {rank, *tokens, names[rank].name};
    }
  }
  TokenUsage out{.input = found[input].tokens,
                 .output = add_counted(found[output].tokens, found[thoughts].tokens),
                 .cache_read = found[cache_read].tokens,
                 .cache_write = found[cache_write].tokens};
  const std::string_view read_name = found[cache_read].name;
  const Spelling* spelling =
      spelling_of(found[input].name, read_name.empty() ? read_name_of(found[cache_write].name) : read_name);
  const std::int64_t cached = add_counted(out.cache_read, out.cache_write);
  const bool is_within = spelling != nullptr ? spelling->cache == Cache::within : cached <= out.input;
  if (is_within) out.input = std::max<std::int64_t>(out.input - cached, 0);
  const std::int64_t given = found[total].tokens;
  out.total = found[total].name.empty() ? out.sum() : given;
  out.used = spelling != nullptr && !spelling->whole_total ? out.sum() : std::max(out.sum(), given);
  return out;
}

std::int64_t cost_of(std::string_view usage) {
  const auto cost = json::find(usage, "cost");
  if (!cost || json::kind(*cost) != json::Kind::object) return 0;
  const std::string_view total = json::find(*cost, "total").value_or("0");
  double dollars = 0;
  if (const auto [end, error] = std::from_chars(total.data(), total.data() + total.size(), dollars);
      error != std::errc())
    return 0;
  const double microcents = dollars * 1e8;
  if (!(microcents > 0)) return 0;
  return microcents >= static_cast<double>(most_counted) ? most_counted : std::llround(microcents);
}

}  // namespace sessiond::policy
