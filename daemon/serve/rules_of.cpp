#include "daemon/serve/rules_of.hpp"

#include <cmath>
#include <ctime>
#include <filesystem>

#include "config/values.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::serve {
namespace {

// The enums of the configuration have the values of the enums of policy/, in the same order.
using Mode = policy::ResetRule::Mode;
static_assert(static_cast<int>(config::Config::ResetMode::daily) == static_cast<int>(Mode::daily));
static_assert(static_cast<int>(config::Config::DmScope::per_account_channel_peer) ==
              static_cast<int>(policy::DmScope::per_account_channel_peer));
static_assert(static_cast<int>(config::Config::Threads::inherit) == static_cast<int>(policy::ThreadScope::inherit));

policy::ResetRule rule_of(const config::Config::Reset& reset) {
  return {.mode = static_cast<Mode>(reset.mode), .idle_minutes = reset.idle_minutes, .at_hour = reset.at_hour};
}

std::optional<policy::ResetRule> rule_of(const std::optional<config::Config::Reset>& reset) {
  return reset ? std::optional(rule_of(*reset)) : std::nullopt;
}

// The offset of local time from UTC at that moment. Calls tzset(), since the machine's time zone may change while the
// daemon runs and localtime_r need not notice.
std::int64_t utc_offset(std::int64_t utc_ms) {
  const auto seconds = static_cast<std::time_t>(utc_ms / 1000 - (utc_ms % 1000 < 0 ? 1 : 0));
  std::tm local{};
  tzset();
  return localtime_r(&seconds, &local) == nullptr ? 0 : std::int64_t{local.tm_gmtoff} * 1000;
}

static_assert(static_cast<int>(config::Config::CompactionTime::after_turn) ==
              static_cast<int>(context::CompactionTime::after_turn));
static_assert(static_cast<int>(config::Config::Pairs::strict) == static_cast<int>(context::PairRule::strict));

// Shares of the window are compared in whole numbers, so that "exactly 30 %" is exact.
context::PerMille per_mille(double share) { return std::llround(share * 1000); }

context::Settings context_of(const config::Config& config) {
  const config::Config::Context& from = config.context;
  context::Settings out{.window = from.window,
                        .compaction = {.when = static_cast<context::CompactionTime>(from.compaction.when),
                                       .threshold = per_mille(from.compaction.threshold),
                                       .force = per_mille(from.compaction.force_at),
                                       .min_messages = from.compaction.min_messages,
                                       .keep_turns = from.compaction.keep_turns,
                                       .max_tokens = from.compaction.max_tokens,
                                       .temperature = from.compaction.temperature},
                        .pruning = {.soft = per_mille(from.pruning.soft),
                                    .hard = per_mille(from.pruning.hard),
                                    .min_chars = from.pruning.min_chars,
                                    .keep_chars = from.pruning.keep_chars,
                                    .keep_assistants = from.pruning.keep_assistants,
                                    .exclude_tools = {}},
                        .files_per_message = from.max_files_per_message,
                        .view_bytes = from.view_bytes,
                        .doom_count = config.doom_loop.count,
                        .doom_inject = config.doom_loop.inject,
                        .pairs = static_cast<context::PairRule>(config.content.messages.pairs)};
  out.windows.insert(from.windows.begin(), from.windows.end());
  for (const std::string& tool : from.pruning.exclude_tools) out.pruning.exclude_tools.push_back(store::lower(tool));
  return out;
}

runs::ModelNames model_of(const std::optional<std::string>& model, const std::optional<std::string>& provider) {
  return {.model = model.value_or(""), .provider = provider.value_or("")};
}

static_assert(static_cast<int>(config::Config::SessionLog::full) == static_cast<int>(decide::LogRules::Mode::full));
static_assert(config::Config::unlimited == runs::unlimited);

runs::Settings runs_of(const config::Config& config) {
  const config::Config::Runs& from = config.work.runs;
  runs::Settings out{.lease_ms = from.lease_ms,
                     .idle_timeout_ms = from.idle_timeout_ms,
                     .max_steps = from.max_steps,
                     .turn_cap = from.turn_cap == 0 ? runs::Settings{}.turn_cap : from.turn_cap,
                     .max_attempts = from.max_attempts,
                     .abort_grace_ms = from.abort_grace_ms,
                     .runner_idle_ms = from.runner_idle_ms,
                     .queue_max_age_ms = from.queue_max_age_ms,
                     .queue_max_wait_ms = from.queue_max_wait_ms,
                     .partial_bytes = from.partial_bytes,
                     .keep = from.keep,
                     .on_inbound = from.on_inbound.value_or(config.store.mode == config::Config::StoreMode::own),
                     .exclusive = from.exclusive,
                     .model = model_of(from.model, from.provider),
                     .agents = {},
                     .approval_timeout_ms = config.work.approvals.timeout_ms,
                     .require_approver = config.work.approvals.require_approver,
                     .hook_timeout_ms = config.work.hooks.timeout_ms,
                     .takeover_ms = config.work.takeover.default_ms,
                     .takeover_from_me_ms = config.work.takeover.from_me_ms};
  for (const auto& [agent, settings] : config.work.agents)
    if (settings.max_cost_microcents)
      out.cost_caps[agent] = {.microcents = *settings.max_cost_microcents,
                              .fails = settings.on_exceed == config::Config::OnExceed::fail};
  for (const auto& [agent, settings] : config.work.agents)
    if (settings.model || settings.provider) out.agents[agent] = model_of(settings.model, settings.provider);
  return out;
}

}  // namespace

Result<decide::Rules> rules_of(const config::Config& config) {
  TRY(auto policy, policy::parse_send_policy(config.send_policy_json, "/sendPolicy"));
  const config::Config::Session& session = config.session;
  decide::Rules rules;
  rules.routing = {.dm_scope = static_cast<policy::DmScope>(session.dm_scope),
                   .identity_links = session.identity_links,
                   .main_key = session.main_key,
                   .threads = static_cast<policy::ThreadScope>(session.threads)};
  if (config.store.mode == config::Config::StoreMode::shared)
    for (const std::string& channel : config.routing.topic_channels)
      rules.routing.topic_channels.push_back(store::lower(store::trim(channel)));
  rules.send_policy = std::move(policy);
  rules.reset_triggers = session.reset_triggers;
  rules.resets.base = rule_of(session.reset);
  rules.resets.direct = rule_of(session.reset_by_type.direct);
  rules.resets.group = rule_of(session.reset_by_type.group);
  rules.resets.channel = rule_of(session.reset_by_type.channel);
  rules.resets.thread = rule_of(session.reset_by_type.thread);
  for (const auto& [channel, reset] : session.reset_by_channel)
    rules.resets.by_channel.emplace(store::lower(channel), rule_of(reset));
  rules.sanitize_names = config.session.sanitize_names;
  rules.utc_offset = utc_offset;
  rules.require_fields = session.require_fields;
  rules.spawn_depth = static_cast<int>(session.spawn.depth);
  rules.spawn_count = static_cast<int>(session.spawn.count);
  rules.ephemeral_bytes = session.ephemeral_bytes;
  rules.context = context_of(config);
  rules.runs = runs_of(config);
  rules.deliveries = {.max_attempts = config.work.deliveries.max_attempts,
                      .max_age_ms = config.work.deliveries.max_age_ms,
                      .adopt_ms = config.work.deliveries.adopt_ms};
  rules.early_change_ms = config.work.inbound.early_change_ms;
  for (const auto& [agent, settings] : config.work.agents)
    rules.by_agent[agent] = {
        .compact_instructions = settings.compact_instructions.value_or(""),
        .max_messages = settings.max_messages,
        .fs_scope = config::enum_names<config::Config::FsScope>.at(static_cast<std::size_t>(settings.fs_scope))};
  rules.log = {.mode = static_cast<decide::LogRules::Mode>(config.work.session_log),
               .file_bytes = config.limits.log_bytes,
               .stream_bytes = config.limits.stream_bytes};
  rules.agents = config.limits.agents;
  rules.sessions_per_agent = config.limits.sessions_per_agent;
  rules.entry_bytes_per_agent = config.limits.entry_bytes_per_agent;
  rules.shared = config.store.mode == config::Config::StoreMode::shared;
  std::error_code error;
  rules.cwd = std::filesystem::current_path(error).string();
  return rules;
}

}  // namespace sessiond::serve
