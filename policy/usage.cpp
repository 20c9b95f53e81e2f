#include "policy/usage.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "store/json/raw_json.hpp"

namespace sessiond::policy {
namespace {

// The numbers of a usage object, by the first of their names that has a number.
enum Number : std::uint8_t { input, output, thoughts, cache_read, cache_write, cached_within, total, numbers };
struct Name {
  std::string_view name;
  Number number;
};
constexpr std::array<Name, 22> names{{{"input", input},
                                      {"inputTokens", input},
                                      {"input_tokens", input},
                                      {"prompt_tokens", input},
                                      {"promptTokenCount", input},
                                      {"output", output},
                                      {"outputTokens", output},
                                      {"output_tokens", output},
                                      {"completion_tokens", output},
                                      {"candidatesTokenCount", output},
                                      {"thoughtsTokenCount", thoughts},
                                      {"cacheRead", cache_read},
                                      {"cache_read_input_tokens", cache_read},
                                      {"cacheWrite", cache_write},
                                      {"cache_creation_input_tokens", cache_write},
                                      {"prompt_tokens_details", cached_within},
                                      {"input_tokens_details", cached_within},
                                      {"cached_tokens", cached_within},
                                      {"cachedContentTokenCount", cached_within},
                                      {"totalTokens", total},
                                      {"total_tokens", total},
                                      {"totalTokenCount", total}}};

// Reads a member: a number, or the cached tokens that are included in the prompt's, as in OpenAI's
// {"prompt_tokens_details":{"cached_tokens":n}}.
std::optional<std::int64_t> number_in(const Name& name, std::string_view value) {
  if (!name.name.ends_with("_details")) return counted(value);
  if (json::kind(value) != json::Kind::object) return {};
  const auto cached = json::find(value, "cached_tokens");
  return cached ? counted(*cached) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> counted(std::string_view raw) {
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

std::optional<TokenUsage> read_usage(std::string_view usage) {
  if (usage.empty() || json::kind(usage) != json::Kind::object) return {};
  std::array<std::size_t, numbers> ranks{};
  ranks.fill(names.size());
  std::array<std::optional<std::int64_t>, numbers> found{};
  std::string held;
  for (const json::Member& member : json::members(usage)) {
    const auto name = std::ranges::find(names, name_of(member, held), &Name::name);
    const auto rank = static_cast<std::size_t>(name - names.begin());
    if (name == names.end() || ranks[name->number] < rank) continue;
    const auto number = number_in(*name, member.value);
    if (!number) continue;
    ranks[name->number] = rank;
    found[name->number] = number;
  }
  TokenUsage out;
  out.input = found[input].value_or(0);
  out.output = add_counted(found[output].value_or(0), found[thoughts].value_or(0));
  out.cache_write = found[cache_write].value_or(0);
  out.cache_read = found[cached_within] ? *found[cached_within] : found[cache_read].value_or(0);
  if (found[cached_within]) out.input = std::max<std::int64_t>(out.input - *found[cached_within], 0);
  out.total = found[total].value_or(out.sum());
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
