#include "policy/send_policy.hpp"

#include <fmt/format.h>

#include <array>

#include "store/delivery/delivery.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::policy {
namespace {

constexpr std::size_t most_shown = 128;  // bytes of a text in a trace

// The first part of a rule that does not match.
struct Mismatch {
  std::string_view part;
  std::string_view wanted;
  std::string_view found;
};

std::string_view direct_for_dm(std::string_view chat_type) {
  return store::equals_nocase(chat_type, "dm") ? std::string_view("direct") : chat_type;
}

std::optional<Mismatch> mismatch(const SendMatch& match, const SendQuestion& question) {
  if (match.channel && !store::equals_nocase(*match.channel, question.channel)) {
    return Mismatch{"channel", *match.channel, question.channel};
  }
  if (match.chat_type && !store::equals_nocase(direct_for_dm(*match.chat_type), direct_for_dm(question.chat_type))) {
    return Mismatch{"chatType", *match.chat_type, question.chat_type};
  }
  if (match.key_prefix && !store::key_matches_prefix(question.key, *match.key_prefix)) {
    return Mismatch{"keyPrefix", *match.key_prefix, question.key};
  }
  if (match.raw_key_prefix && !store::key_begins_with(question.key, *match.raw_key_prefix)) {
    return Mismatch{"rawKeyPrefix", *match.raw_key_prefix, question.key};
  }
  if (match.to && !store::equals_nocase(*match.to, question.to)) return Mismatch{"to", *match.to, question.to};
  if (match.account_id && !store::equals_nocase(*match.account_id, question.account_id)) {
    return Mismatch{"accountId", *match.account_id, question.account_id};
  }
  return std::nullopt;
}

// Shortens a text for a trace, which has a step for each rule.
std::string_view shown(std::string_view text) {
  if (text.size() <= most_shown) return text;
  std::size_t cut = most_shown;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // never half a character
  return text.substr(0, cut);
}

std::string explain(const SendMatch& match, const std::optional<Mismatch>& why) {
  if (why) {
    if (why->found.empty())
      return fmt::format("{} is not known, the rule requires \"{}\"", why->part, shown(why->wanted));
    return fmt::format("{} \"{}\" does not match \"{}\"", why->part, shown(why->found), shown(why->wanted));
  }
  return match == SendMatch{} ? "the rule matches everything" : "every part of the rule matches";
}

SendDecision decided_by_rule(std::size_t rule, SendAction action, std::vector<SendStep> trace) {
  return {.action = action, .source = SendSource::rule, .rule = rule, .trace = std::move(trace)};
}

// Returns the value of the request, trimmed; that of the entry if the request has none, or a blank one.
std::string first_of(const std::optional<std::string>& call, std::string entry) {
  if (call && !store::trim(*call).empty()) return std::string(store::trim(*call));
  return entry;
}

std::string chat_type_of_entry(const json::Index& entry) {
  const std::string text = store::lower(store::trim(entry.string_at("chatType").value_or("")));
  if (text == "dm") return "direct";
  // Of other values ("room", in old stores) the key knows more.
  return text == "direct" || text == "group" || text == "channel" ? text : std::string{};
}

std::optional<SendAction> action_of_entry(const json::Index& entry) {
  const std::string text = store::lower(store::trim(entry.string_at("sendPolicy").value_or("")));
  if (text == "allow") return SendAction::allow;
  if (text == "deny") return SendAction::deny;
  return {};
}

std::string channel_of_entry(const json::Index& entry, const delivery::Delivery& delivery) {
  for (const std::string_view member : {"channel", "provider"}) {
    const std::string text = entry.string_at(member).value_or("");
    if (!store::trim(text).empty()) return store::lower(store::trim(text));
  }
  return delivery.channel.value_or("");
}

}  // namespace

std::string_view name(SendAction action) { return action == SendAction::allow ? "allow" : "deny"; }

std::string_view name(SendSource source) {
  constexpr std::array<std::string_view, 4> names{"session", "rule", "default", "none"};  // in the order of the enum
  return names.at(static_cast<std::size_t>(source));
}

SendQuestion send_question(std::string_view key, const json::Index& entry, const SendCall& call) {
  const delivery::Delivery delivery = delivery::read_delivery(entry);
  SendQuestion question;
  question.key = key;
  question.session = action_of_entry(entry);
  question.channel = store::lower(first_of(call.channel, channel_of_entry(entry, delivery)));
  if (question.channel.empty()) question.channel = store::lower(store::parse_key(key).channel);
  question.chat_type = direct_for_dm(store::lower(first_of(call.chat_type, chat_type_of_entry(entry))));
  if (question.chat_type.empty()) question.chat_type = store::lower(store::parse_key(key).chat_type);
  question.to = first_of(call.to, delivery.to.value_or(""));
  question.account_id = first_of(call.account_id, delivery.account_id.value_or(""));
  return question;
}

SendDecision evaluate(const SendPolicy& policy, const SendQuestion& question, bool with_trace) {
  if (question.session) return {.action = *question.session, .source = SendSource::session};
  const bool first_match = policy.evaluation == SendEvaluation::first_match;
  std::vector<SendStep> trace;
  std::optional<std::size_t> allowed;  // deny-overrides: the first rule that allows, unless a later one denies
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    const SendRule& rule = policy.rules[i];
    const std::optional<Mismatch> why = mismatch(rule.match, question);
    if (with_trace) trace.push_back({i, !why, explain(rule.match, why)});
    if (why) continue;
    if (first_match || rule.action == SendAction::deny) return decided_by_rule(i, rule.action, std::move(trace));
    if (!allowed) allowed = i;
  }
  if (allowed) return decided_by_rule(*allowed, SendAction::allow, std::move(trace));
  if (policy.default_action) {
    return {.action = *policy.default_action, .source = SendSource::default_, .trace = std::move(trace)};
  }
  return {.trace = std::move(trace)};
}

SendDecision evaluate(const SendPolicy& policy, std::string_view key, const json::Index& entry, const SendCall& call) {
  if (!policy.rules.empty()) return evaluate(policy, send_question(key, entry, call));
  return evaluate(policy, {.session = action_of_entry(entry)});
}

}  // namespace sessiond::policy
