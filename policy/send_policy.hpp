// Decides whether the agent may send into a session. The session's own sendPolicy decides; else the rules; else the
// default; else sending is allowed. The configuration's `sendPolicy`, policy.json and PUT /v1/policy/send have this
// form:
//   {"default":"allow","evaluation":"first-match"|"deny-overrides","rules":[{"match":{"channel":"discord"},"action":"deny"}]}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::policy {

enum class SendAction : std::uint8_t { allow, deny };
enum class SendSource : std::uint8_t { session, rule, default_, none };
enum class SendEvaluation : std::uint8_t { first_match, deny_overrides };
std::string_view name(SendAction action);
std::string_view name(SendSource source);

// The condition of a rule. All parts that are set must match. Compares without case; dm means direct.
struct SendMatch {
  std::optional<std::string> channel{};
  std::optional<std::string> chat_type{};
  std::optional<std::string> key_prefix{};      // of the full key, or of the key without "agent:<id>:"
  std::optional<std::string> raw_key_prefix{};  // of the full key
  std::optional<std::string> to{};
  std::optional<std::string> account_id{};
  friend bool operator==(const SendMatch&, const SendMatch&) = default;
};
struct SendRule {
  SendMatch match{};
  SendAction action = SendAction::allow;
  friend bool operator==(const SendRule&, const SendRule&) = default;
};
struct SendPolicy {
  std::optional<SendAction> default_action{};
  SendEvaluation evaluation = SendEvaluation::first_match;
  std::vector<SendRule> rules{};
  friend bool operator==(const SendPolicy&, const SendPolicy&) = default;
};

// Fails with validation_failed and every fault; pointers begin with `pointer_prefix`. Unknown members are faults.
Result<SendPolicy> parse_send_policy(std::string_view json, std::string_view pointer_prefix);
std::string to_json(const SendPolicy& policy);

// The values that rules are compared with. An empty one is unknown, and matches no rule that has this part.
struct SendQuestion {
  std::string key{};
  std::optional<SendAction> session{};  // the entry's sendPolicy
  std::string channel{};
  std::string chat_type{};
  std::string to{};
  std::string account_id{};
};
// The values that the request itself has. They take precedence over those of the entry, and those over the key's.
struct SendCall {
  std::optional<std::string> channel{};
  std::optional<std::string> chat_type{};
  std::optional<std::string> to{};
  std::optional<std::string> account_id{};
};
// `entry` is the stored entry, or {}.
SendQuestion send_question(std::string_view key, const json::Index& entry, const SendCall& call);

struct SendStep {
  std::size_t rule = 0;
  bool matched = false;
  std::string because{};  // a sentence for people
};
struct SendDecision {
  SendAction action = SendAction::allow;
  SendSource source = SendSource::none;
  std::optional<std::size_t> rule{};
  std::vector<SendStep> trace{};  // the rules that were compared, in order; empty unless with_trace
};
SendDecision evaluate(const SendPolicy& policy, const SendQuestion& question, bool with_trace = false);
// The same for send_question(key, entry, call), which is made only if there are rules.
SendDecision evaluate(const SendPolicy& policy, std::string_view key, const json::Index& entry, const SendCall& call);

// Returns {"action":"deny","source":"rule","rule":0}; with_trace adds "trace":[…].
std::string to_json(const SendDecision& decision, bool with_trace = false);

}  // namespace sessiond::policy
