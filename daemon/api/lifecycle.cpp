// The life of a session: when it will be reset.
#include "daemon/api/handler.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "policy/reset.hpp"

namespace sessiond::api {
namespace {

// What the rules of resets need to know of a session.
struct Age {
  std::string session_id;
  std::string file;  // its transcript; empty if it is known when the session began
  policy::ResetRules::Chosen chosen;
  policy::SessionTimes times;
  std::uint64_t seq = 0;
};

std::string rule_json(const policy::ResetRules::Chosen& chosen) {
  const policy::ResetRule& rule = chosen.rule;
  json::ObjectWriter writer;
  writer.string("from", chosen.from);
  writer.string("mode", policy::name(rule.mode));
  if (rule.mode == policy::ResetRule::Mode::idle || (rule.mode == policy::ResetRule::Mode::daily && rule.idle_minutes))
    writer.integer("idleMinutes", policy::idle_minutes_of(rule));
  if (rule.mode == policy::ResetRule::Mode::daily) writer.integer("atHour", rule.at_hour);
  return writer.text();
}

HandlerResult freshness(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  const decide::Rules& rules = api.ledger.rules();
  CO_TRY(auto age,
         co_await show_session(
             api, request, path, wants_fresh(request),
             [&](const decide::Session& session, const ledger::Seen& seen) -> Result<Age> {
               const store::KeyParts parts = store::parse_key(session.key());
               const auto chosen = rules.resets.choose(session.channel, session.chat_type, !parts.thread.empty());
               const bool unknown = !session.started_at && chosen.rule.mode == policy::ResetRule::Mode::daily;
               return Age{.session_id = session.session_id,
                          .file = unknown ? decide::AgentState::file_of(session, {}) : "",
                          .chosen = chosen,
                          .times = {.started = session.started_at,
                                    .last_interaction = session.last_interaction_at.value_or(session.updated_at)},
                          .seq = seen.seq()};
             }));
  if (!age.file.empty()) {
    const auto header_time = [](transcripts::Transcript& transcript) -> Result<std::optional<std::int64_t>> {
      return transcript.started();
    };
    CO_TRY(age.times.started, co_await api.ledger.read_transcript(path.agent, age.file, header_time));
  }
  const std::int64_t now = store::unix_ms();
  const policy::ResetDue due = policy::reset_due(age.chosen.rule, age.times, now, rules.utc_offset);
  const policy::NextReset next = policy::next_reset(age.chosen.rule, age.times, now, rules.utc_offset);
  json::ObjectWriter writer;
  if (due == policy::ResetDue::none)
    writer.raw("due", "null");
  else
    writer.string("due", policy::name(due));
  writer.raw("rule", rule_json(age.chosen));
  if (next.idle_at) writer.integer("idleAt", *next.idle_at);
  if (next.daily_at) writer.integer("dailyAt", *next.daily_at);
  writer.integer("lastInteractionAt", age.times.last_interaction);
  if (age.times.started)
    writer.integer("sessionStartedAt", *age.times.started);
  else
    writer.raw("sessionStartedAt", "null");
  co_return as_of_response(api, writer.text(), age.seq);
}

}  // namespace

void add_lifecycle_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}";
  on("GET", one + "/freshness", auth::Permission::read, freshness);
}

}  // namespace sessiond::api
