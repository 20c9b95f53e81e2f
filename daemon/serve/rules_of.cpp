#include "daemon/serve/rules_of.hpp"

#include <ctime>
#include <filesystem>

#include "store/try.hpp"

namespace sessiond::serve {
namespace {

policy::ResetRule rule_of(const config::Config::Reset& reset) {
  policy::ResetRule rule{
      .mode = policy::ResetRule::Mode::none, .idle_minutes = reset.idle_minutes, .at_hour = reset.at_hour};
  if (reset.mode == config::Config::ResetMode::idle) rule.mode = policy::ResetRule::Mode::idle;
  if (reset.mode == config::Config::ResetMode::daily) rule.mode = policy::ResetRule::Mode::daily;
  return rule;
}

std::optional<policy::ResetRule> rule_of(const std::optional<config::Config::Reset>& reset) {
  return reset ? std::optional(rule_of(*reset)) : std::nullopt;
}

policy::DmScope scope_of(config::Config::DmScope scope) {
  switch (scope) {
    case config::Config::DmScope::main:
      return policy::DmScope::main;
    case config::Config::DmScope::per_peer:
      return policy::DmScope::per_peer;
    case config::Config::DmScope::per_channel_peer:
      return policy::DmScope::per_channel_peer;
    case config::Config::DmScope::per_account_channel_peer:
      return policy::DmScope::per_account_channel_peer;
  }
  return policy::DmScope::per_channel_peer;
}

// The offset of local time from UTC at that moment. Calls tzset(), since the machine's time zone may change while the
// daemon runs and localtime_r need not notice.
std::int64_t utc_offset(std::int64_t utc_ms) {
  const auto seconds = static_cast<std::time_t>(utc_ms / 1000 - (utc_ms % 1000 < 0 ? 1 : 0));
  std::tm local{};
  tzset();
  return localtime_r(&seconds, &local) == nullptr ? 0 : std::int64_t{local.tm_gmtoff} * 1000;
}

}  // namespace

Result<decide::Rules> rules_of(const config::Config& config) {
  TRY(auto policy, policy::parse_send_policy(config.send_policy_json, "/sendPolicy"));
  const config::Config::Session& session = config.session;
  decide::Rules rules;
  rules.routing = {.dm_scope = scope_of(session.dm_scope),
                   .identity_links = session.identity_links,
                   .main_key = session.main_key,
                   .threads = session.threads == config::Config::Threads::session ? policy::ThreadScope::session
                                                                                  : policy::ThreadScope::inherit};
  rules.send_policy = std::move(policy);
  rules.reset_triggers = session.reset_triggers;
  rules.reset = rule_of(session.reset);
  rules.reset_direct = rule_of(session.reset_by_type.direct);
  rules.reset_group = rule_of(session.reset_by_type.group);
  rules.reset_channel = rule_of(session.reset_by_type.channel);
  rules.reset_thread = rule_of(session.reset_by_type.thread);
  rules.utc_offset = utc_offset;
  rules.spawn_depth = static_cast<int>(session.spawn.depth);
  rules.spawn_count = static_cast<int>(session.spawn.count);
  rules.agents = config.limits.agents;
  rules.sessions_per_agent = config.limits.sessions_per_agent;
  rules.entry_bytes_per_agent = config.limits.entry_bytes_per_agent;
  rules.shared = config.store.mode == config::Config::StoreMode::shared;
  std::error_code error;
  rules.cwd = std::filesystem::current_path(error).string();
  return rules;
}

}  // namespace sessiond::serve
