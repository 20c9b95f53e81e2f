#include "daemon/decide/token_counters.hpp"

#include <algorithm>
#include <string>

namespace sessiond::decide {
namespace {

// The counters that a whole entry has. `value_of` returns the raw JSON of a member.
template <class ValueOf>
Counters counters_of(ValueOf value_of) {
  Counters counters;
  counters.input_tokens = policy::counted(value_of("inputTokens"));
  counters.output_tokens = policy::counted(value_of("outputTokens"));
  counters.total_tokens = policy::counted(value_of("totalTokens"));
  counters.usage_totals = policy::read_totals(value_of(totals_member));
  counters.tokens_fresh = json::as_bool(value_of(fresh_member));
  return counters;
}

void fit(Counters counters, bool shared, std::optional<std::int64_t> last_prompt, json::Edit& edit) {
  if (counters.tokens_fresh.has_value() == shared || (!counters.total_tokens && !last_prompt)) return;
  if (shared) {
    CountedEdit stale;
    mark_stale(counters, shared, stale);
    stale.add_to(edit);
    if (!last_prompt) return;
    edit.put_int("totalTokens", *last_prompt);
    edit.put(std::string(fresh_member), "true");
    return;
  }
  edit.remove(std::string(fresh_member));
  edit.put_int("totalTokens", totals_of(counters).total);
}

}  // namespace

policy::UsageTotals totals_of(const Counters& counters) {
  if (counters.usage_totals) return *counters.usage_totals;
  if (counters.tokens_fresh) return {};
  return {.input = counters.input_tokens.value_or(0),
          .output = counters.output_tokens.value_or(0),
          .total = counters.total_tokens.value_or(0)};
}

void count_usage(Counters& counters, const policy::TokenUsage& usage, TokenRule rule, CountedEdit& edit) {
  const auto set = [&edit](Counter name, std::optional<std::int64_t>& counter, std::int64_t number) {
    counter = number;
    edit.counted.set(name, number);
  };
  policy::UsageTotals totals = totals_of(counters);
  totals.add(usage);
  counters.usage_totals = totals;
  set(Counter::input_tokens, counters.input_tokens,
      policy::add_counted(counters.input_tokens.value_or(0), usage.input));
  set(Counter::output_tokens, counters.output_tokens,
      policy::add_counted(counters.output_tokens.value_or(0), usage.output));
  edit.set(totals);
  if (!rule.shared) {
    set(Counter::total_tokens, counters.total_tokens, totals.total);
    if (counters.tokens_fresh) edit.rest.remove(std::string(fresh_member));
    counters.tokens_fresh.reset();
    return;
  }
  if (!rule.is_context || usage.prompt() == 0) {                   // it does not tell what the model was shown
    if (!counters.tokens_fresh) mark_stale(counters, true, edit);  // totalTokens is a sum from mode own
    return;
  }
  set(Counter::total_tokens, counters.total_tokens, usage.prompt());
  if (counters.tokens_fresh != true) edit.rest.put(std::string(fresh_member), "true");
  counters.tokens_fresh = true;
}

void mark_stale(Counters& counters, bool shared, CountedEdit& edit) {
  if (!shared || counters.tokens_fresh == false) return;
  // A sum from before has to be known as one later.
  if (!counters.usage_totals && counters.total_tokens) {
    counters.usage_totals = totals_of(counters);
    edit.set(*counters.usage_totals);
  }
  counters.tokens_fresh = false;
  edit.rest.put(std::string(fresh_member), "false");
}

void fit_tokens(json::Edit& entry, bool shared, std::optional<std::int64_t> last_prompt) {
  const auto value_of = [&entry](std::string_view name) {
    const auto member = std::ranges::find(entry.set, name, &json::Edit::Set::name);
    return member == entry.set.end() ? std::string_view() : std::string_view(member->value);
  };
  fit(counters_of(value_of), shared, last_prompt, entry);
}

void fit_tokens(std::string_view entry, bool shared, json::Edit& edit) {
  const json::Index fields(entry);
  const auto value_of = [&fields](std::string_view name) { return fields.find(name).value_or(""); };
  fit(counters_of(value_of), shared, {}, edit);
}

}  // namespace sessiond::decide
