#include "policy/usage.hpp"

#include <initializer_list>

#include "store/json/raw_json.hpp"

namespace sessiond::policy {
namespace {

// Returns the number of the first of these members that has one.
std::optional<std::int64_t> first_of(std::string_view object, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto value = json::find(object, name);
    if (!value) continue;
    if (const auto number = counted(*value)) return number;
  }
  return {};
}

// Returns the cached tokens that are included in the prompt's, as in OpenAI's
// {"prompt_tokens_details":{"cached_tokens":n}}.
std::optional<std::int64_t> cached_within(std::string_view usage) {
  for (const std::string_view name : {"prompt_tokens_details", "input_tokens_details"}) {
    const auto details = json::find(usage, name);
    if (!details || json::kind(*details) != json::Kind::object) continue;
    if (const auto cached = first_of(*details, {"cached_tokens"})) return cached;
  }
  return first_of(usage, {"cached_tokens", "cachedContentTokenCount"});
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
  const auto field = [&](std::initializer_list<std::string_view> names) { return first_of(usage, names); };
  TokenUsage out;
  out.input = field({"input", "inputTokens", "input_tokens", "prompt_tokens", "promptTokenCount"}).value_or(0);
  out.output =
      field({"output", "outputTokens", "output_tokens", "completion_tokens", "candidatesTokenCount"}).value_or(0);
  out.output = add_counted(out.output, field({"thoughtsTokenCount"}).value_or(0));
  out.cache_write = field({"cacheWrite", "cache_creation_input_tokens"}).value_or(0);
  if (const auto within = cached_within(usage)) {
    out.cache_read = *within;
    out.input = std::max<std::int64_t>(out.input - *within, 0);
  } else {
    out.cache_read = field({"cacheRead", "cache_read_input_tokens"}).value_or(0);
  }
  const std::int64_t sum =
      add_counted(add_counted(out.input, out.output), add_counted(out.cache_read, out.cache_write));
  out.total = field({"totalTokens", "total_tokens", "totalTokenCount"}).value_or(sum);
  return out;
}

}  // namespace sessiond::policy
