// Reads the send policy from JSON, reporting every fault, and writes it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "policy/pointer.hpp"
#include "policy/send_policy.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"

namespace sessiond::policy {
namespace {

struct MatchMember {
  std::string_view name;
  std::optional<std::string> SendMatch::* field;
};
constexpr std::array<MatchMember, 6> match_members{{{"channel", &SendMatch::channel},
                                                    {"chatType", &SendMatch::chat_type},
                                                    {"keyPrefix", &SendMatch::key_prefix},
                                                    {"rawKeyPrefix", &SendMatch::raw_key_prefix},
                                                    {"to", &SendMatch::to},
                                                    {"accountId", &SendMatch::account_id}}};

std::optional<SendAction> read_action(std::string_view raw, std::string pointer, std::vector<Fault>& faults) {
  const std::optional<std::string> text = json::as_string(raw);
  if (text == "allow") return SendAction::allow;
  if (text == "deny") return SendAction::deny;
  faults.push_back({std::move(pointer), "must be \"allow\" or \"deny\""});
  return std::nullopt;
}

SendMatch read_match(std::string_view raw, const std::string& pointer, std::vector<Fault>& faults) {
  SendMatch match;
  if (json::kind(raw) != json::Kind::object) {
    faults.push_back({pointer, "must be an object"});
    return match;
  }
  for (const json::Member& member : json::members(raw)) {
    const std::string name = json::unescape(member.name);
    const std::string at = pointer_to(pointer, name);
    const auto known = std::ranges::find(match_members, name, &MatchMember::name);
    if (known == match_members.end()) {
      faults.push_back({at, "is not known; a match has channel, chatType, keyPrefix, rawKeyPrefix, to, accountId"});
      continue;
    }
    const std::optional<std::string> text = json::as_string(member.value);
    // A blank text would match nothing or everything, and is a mistake.
    if (!text || store::trim(*text).empty()) {
      faults.push_back({at, "must be a string that is not empty"});
      continue;
    }
    static constexpr std::array<std::string_view, 4> chat_types{"direct", "dm", "group", "channel"};
    const std::string lowered = store::lower(store::trim(*text));
    if (name == "chatType" && std::ranges::find(chat_types, lowered) == chat_types.end()) {
      faults.push_back({at, "must be \"direct\", \"group\" or \"channel\""});
      continue;
    }
    match.*(known->field) = std::string(store::trim(*text));
  }
  return match;
}

void read_rule(std::string_view raw, const std::string& pointer, SendPolicy& policy, std::vector<Fault>& faults) {
  if (json::kind(raw) != json::Kind::object) {
    faults.push_back({pointer, "must be an object"});
    return;
  }
  SendRule rule;
  bool has_action = false;
  for (const json::Member& member : json::members(raw)) {
    const std::string name = json::unescape(member.name);
    const std::string at = pointer_to(pointer, name);
    if (name == "match") {
      rule.match = read_match(member.value, at, faults);
    } else if (name == "action") {
      has_action = true;
      rule.action = read_action(member.value, at, faults).value_or(SendAction::deny);
    } else {
      faults.push_back({at, "is not known; a rule has match and action"});
    }
  }
  if (!has_action) faults.push_back({pointer_to(pointer, "action"), "is missing"});
  policy.rules.push_back(std::move(rule));
}

void read_evaluation(std::string_view raw, const std::string& pointer, SendPolicy& policy, std::vector<Fault>& faults) {
  const std::optional<std::string> text = json::as_string(raw);
  if (text == "deny-overrides") {
    policy.evaluation = SendEvaluation::deny_overrides;
  } else if (text != "first-match") {
    faults.push_back({pointer, "must be \"first-match\" or \"deny-overrides\""});
  }
}

void read_rules(std::string_view raw, const std::string& pointer, SendPolicy& policy, std::vector<Fault>& faults) {
  if (json::kind(raw) != json::Kind::array) {
    faults.push_back({pointer, "must be an array"});
    return;
  }
  std::size_t index = 0;
  for (const std::string_view rule : json::elements(raw)) {
    if (index == limits::policy_rules) {
      faults.push_back({pointer, fmt::format("has more than {} rules", limits::policy_rules)});
      return;
    }
    read_rule(rule, pointer_to(pointer, std::to_string(index++)), policy, faults);
  }
}

std::string match_json(const SendMatch& match) {
  json::ObjectWriter writer;
  for (const MatchMember& member : match_members) {
    if (const auto& text = match.*(member.field)) writer.string(member.name, *text);
  }
  return writer.text();
}

}  // namespace

Result<SendPolicy> parse_send_policy(std::string_view json, std::string_view pointer_prefix) {
  const std::string root(pointer_prefix);
  if (const auto checked = json::check(json, {.unique_names = true}); !checked) {
    return fail_at(root, fmt::format("is not JSON: {} at byte {}", checked.error().detail, checked.error().offset));
  }
  json = store::trim(json);
  if (json::kind(json) != json::Kind::object) return fail_at(root, "must be an object");
  if (json.size() > limits::policy_bytes)
    return fail_at(root, fmt::format("has {} bytes; a send policy has at most {}", json.size(), limits::policy_bytes));
  SendPolicy policy;
  std::vector<Fault> faults;
  for (const json::Member& member : json::members(json)) {
    const std::string name = json::unescape(member.name);
    const std::string at = pointer_to(root, name);
    if (name == "default") {
      policy.default_action = read_action(member.value, at, faults);
    } else if (name == "evaluation") {
      read_evaluation(member.value, at, policy, faults);
    } else if (name == "rules") {
      read_rules(member.value, at, policy, faults);
    } else {
      faults.push_back({at, "is not known; a send policy has default, evaluation and rules"});
    }
  }
  if (!faults.empty()) return fail_with(std::move(faults));
  return policy;
}

std::string to_json(const SendPolicy& policy) {
  std::string rules = "[";
  for (const SendRule& rule : policy.rules) {
    if (rules.size() > 1) rules += ',';
    json::ObjectWriter writer(rules);
    writer.raw("match", match_json(rule.match));
    writer.string("action", name(rule.action));
    writer.close();
  }
  rules += ']';
  json::ObjectWriter writer;
  if (policy.default_action) writer.string("default", name(*policy.default_action));
  writer.string("evaluation", policy.evaluation == SendEvaluation::first_match ? "first-match" : "deny-overrides");
  writer.raw("rules", rules);
  return writer.text();
}

std::string to_json(const SendDecision& decision, bool with_trace) {
  json::ObjectWriter writer;
  writer.string("action", name(decision.action));
  writer.string("source", name(decision.source));
  writer.raw("rule", decision.rule ? std::to_string(*decision.rule) : "null");
  if (with_trace) {
    std::string trace = "[";
    for (const SendStep& step : decision.trace) {
      if (trace.size() > 1) trace += ',';
      json::ObjectWriter one(trace);
      one.raw("rule", std::to_string(step.rule));
      one.boolean("matched", step.matched);
      one.string("because", step.because);
      one.close();
    }
    writer.raw("trace", trace + "]");
  }
  return writer.text();
}

}  // namespace sessiond::policy
