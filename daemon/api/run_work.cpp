// Serves what the runner of an active run tells: what it does, and how the run ends (policy/runs/README.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/api/media.hpp"
#include "daemon/api/message_scan.hpp"
#include "daemon/decide/run_steps.hpp"
#include "policy/redaction.hpp"
#include "store/limits.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t most_events = 1'000;  // in one call

decide::RunHold read_hold(Fields& fields, const std::string& run_id) {
  const auto fence = fields.integer("fence", 1);
  if (!fence && !fields.has("fence")) fields.fault("fence", "is missing: it came with the run's lease");
  return {.run_id = run_id, .fence = static_cast<std::uint64_t>(fence.value_or(0))};
}
// The events of a call, and what of them only open streams get.
struct Told {
  std::vector<decide::RunEvent> events{};
  std::string said{};   // text of all text.delta
  bool speaks = false;  // the model said something
};

Result<Told> read_events(std::string_view list) {
  static constexpr std::array<std::string_view, 8> types{"step.started",  "step.finished",  "tool.started",
                                                         "tool.finished", "text.delta",     "reasoning.delta",
                                                         "tool.progress", "context.updated"};
  Told told;
  for (const std::string_view element : json::elements(list)) {
    const std::string at = fmt::format("/events/{}", told.events.size());
    if (told.events.size() == most_events)
      return fail_at("/events", fmt::format("has more than {} events", most_events));
    if (json::kind(element) != json::Kind::object) return fail_at(at, "must be an object");
    std::string type = json::string_at(element, "type").value_or("");
    if (std::ranges::find(types, type) == types.end())
      return fail_at(at + "/type", fmt::format("must be one of {}", fmt::join(types, ", ")));
    const auto text = json::string_at(element, "text");
    const bool delta = type == "text.delta" || type == "reasoning.delta";
    if (delta && !text) return fail_at(at + "/text", "must be a string");
    if (delta) told.speaks = true;
    if (type == "text.delta") told.said += *text;
    if (type == "step.started" && json::int_at(element, "step").value_or(0) < 1)
      return fail_at(at + "/step", "must be the number of the step, from 1");
    told.events.push_back({.type = std::move(type), .body = std::string(element)});
  }
  return told;
}

// Publishes what of a call is not stored.
void pass_on(Api& api, const journal::Envelope& about, const Told& told, const std::string& run_id) {
  for (const decide::RunEvent& event : told.events) {
    const auto type = journal::event_type(event.type);
    if (!type || *type < journal::EventType::session_typing) continue;
    journal::Envelope envelope = about;
    envelope.type = *type;
    if (*type == journal::EventType::text_delta) {
      api.streams.publish({.type = *type,
                           .envelope = std::move(envelope),
                           .run_id = run_id,
                           .text = json::string_at(event.body, "text").value_or("")});
      continue;
    }
    json::Edit edit;
    edit.put_string("runId", run_id);
    edit.remove("type");
    const auto& publish = api.ledger.parts().env.on_passing_events;
    if (publish) publish({journal::make_event(std::move(envelope), json::apply(json::compact(event.body), edit))});
  }
}

bool redacts(const Api& api) { return api.config.policy.secret_scan_messages == config::Config::MessageScan::redact; }

// Gives the deltas of a call the text that can be told now: a key may be cut by its end, or by that of the call before.
// Any other event of the runner ends the text. `as_sent` is the body before it was scanned: the scan of one call does
// not see that a word is the end of a key.
Told without_cut_keys(const Told& told, std::string_view as_sent, decide::RunPulse& pulse) {
  const auto sent = json::elements(json::find(as_sent, "events").value_or("[]"));
  Told out{.speaks = told.speaks};
  const auto add = [&out](const std::string& type, const std::string& text) {
    if (text.empty()) return;
    json::ObjectWriter body;
    body.string("type", type);
    body.string("text", text);
    if (type == "text.delta") out.said += text;
    out.events.push_back({.type = type, .body = body.text()});
  };
  auto raw = sent.begin();
  for (const decide::RunEvent& event : told.events) {
    const std::string_view element = *raw;
    ++raw;
    const bool reasons = event.type == "reasoning.delta";
    if (event.type == "text.delta" || reasons) {
      std::string& held = reasons ? pulse.held_reasoning : pulse.held;
      auto piece = policy::redact_piece(std::move(held), json::string_at(element, "text").value_or(""));
      held = std::move(piece.held);
      add(event.type, piece.now);
      continue;
    }
    if (event.type != "tool.progress" && event.type != "context.updated") {
      add("text.delta", policy::redacted_text(std::exchange(pulse.held, {})));
      add("reasoning.delta", policy::redacted_text(std::exchange(pulse.held_reasoning, {})));
    }
    out.events.push_back(event);
  }
  return out;
}

HandlerResult tell(Api& api, http::Request& request, std::string as_sent) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, body_fields(request, api));
  decide::RunEvents command{.target = path.target, .hold = read_hold(fields, request.params.at(2))};
  if (const auto n = fields.integer("n", 1)) command.n = static_cast<std::uint64_t>(*n);
  const auto events = fields.array("events");
  if (!fields.has("events")) fields.fault("events", "is missing; [] renews the lease");
  command.steered = fields.strings("steered", 1'000);
  CO_TRY(fields.done());
  CO_TRY(Told told, read_events(events.value_or("[]")));
  command.events = told.events;
  command.instance = request.path;
  command.request_id = request.request_id;

  struct Outcome {
    journal::Envelope about{};
    std::string key{};
    bool is_new = true;
    bool stored = false;
    decide::RunPulse pulse{};  // what is held back then
  } outcome;
  const bool redacting = !as_sent.empty();
  const Told whole = redacting ? told : Told{};
  leases::Leases& leases = api.work.claims.leases();
  const auto turn = co_await leases.turn(path.agent, command.hold.run_id, request.principal.id);
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines) -> Result<decide::Decision> {
    decide::RunEvents now = command;
    const decide::SessionRuns* runs = nullptr;
    if (const decide::Session* session = session_named(state, command.target)) {
      runs = state.runs.find(session->key());
      leases.set_pending(path.agent, session->key(), command.hold, {});
      now.pulse = leases.pulse(path.agent, session->key(), command.hold);
      outcome = {.about = envelope_about(api, state, *session), .key = session->key()};
      outcome.about.time = context.now;
      outcome.about.actor = request.principal.id;
      outcome.about.source = "api";
      if (runs != nullptr && runs->active) outcome.about.topic = runs->active->topic;
      outcome.is_new = !now.n || *now.n > std::max(now.pulse.calls, runs == nullptr ? 0 : runs->calls);
      if (redacting && outcome.is_new) {
        told = without_cut_keys(whole, as_sent, now.pulse);
        now.events = told.events;
        outcome.pulse = now.pulse;
      }
    }
    decide::RunPulse after = now.pulse;
    auto decided = scoped(std::move(now), request)(state, context, lines);
    outcome.stored = decided && !decided->events.empty();
    if (decided && !decided->need && outcome.is_new && runs != nullptr) {
      after.text = outcome.stored ? "" : std::string(decide::unstored_text(*runs, after)) + told.said;
      after.since = context.next_seq + decided->events.size();
      leases.set_pending(path.agent, outcome.key, command.hold, std::move(after));
    }
    return decided;
  };
  ledger::Requester requester{.actor = request.principal.id};
  requester.in_memory = is_in_memory(api, path.agent, command);
  auto reply = co_await api.ledger.commit(path.agent, std::move(requester), decide);
  if (!reply) {
    leases.set_pending(path.agent, outcome.key, command.hold, {});
    co_return std::unexpected(std::move(reply.error()));
  }
  if (outcome.is_new) {
    leases.renew(path.agent, outcome.key, command.hold,
                 {.n = command.n.value_or(0),
                  .said = outcome.stored ? "" : told.said,
                  .stored = outcome.stored,
                  .speaks = told.speaks,
                  .held = redacting ? std::optional(outcome.pulse.held) : std::nullopt,
                  .held_reasoning = redacting ? std::optional(outcome.pulse.held_reasoning) : std::nullopt});
    pass_on(api, outcome.about, told, command.hold.run_id);
  } else {
    leases.renew(path.agent, outcome.key, command.hold, {});
  }
  co_return to_response(std::move(*reply));
}

HandlerResult tell_as_sent(Api& api, http::Request& request) { return tell(api, request, {}); }

HandlerResult redacted_tell(Api& api, http::Request& request) {
  std::string as_sent = request.body;
  CO_TRY(const auto found, co_await scan_body(api, request));
  StoredMedia stored;
  if (may_change(api, request.body)) {  // as lasting() does, which keeps the elements of the body in their places
    CO_TRY(const auto path, session_path(request, api));
    if (!is_in_memory(api, path.agent, decide::RunEvents{.target = path.target})) {
      CO_TRY(stored, co_await store_media_of(api, request));
    }
  }
  CO_TRY(auto response, co_await tell(api, request, std::move(as_sent)));
  keep_signatures(api, request, std::move(stored));
  add_warnings(response, found);
  co_return response;
}

HandlerResult scanned_tell(Api& api, http::Request& request) {
  return redacts(api) ? redacted_tell(api, request) : scanned<lasting<tell_as_sent>>(api, request);
}

// Tells streams what was held back of the run's text, before they are told of its end.
void tell_held(Api& api, const SessionPath& path, const decide::RunHold& hold, const auth::Principal& principal) {
  const decide::AgentState* state = ledger::loaded_state(api.ledger.parts(), path.agent, path.target.key);
  const decide::Session* session = state == nullptr ? nullptr : session_named(*state, path.target);
  if (session == nullptr || !decide::held_run(*state, *session, hold, principal.id)) return;
  leases::Leases& leases = api.work.claims.leases();
  const std::string text = decide::held_text(leases.pulse(path.agent, session->key(), hold));
  if (text.empty()) return;
  journal::Envelope about = envelope_about(api, *state, *session);
  about.time = store::unix_ms();
  about.actor = principal.id;
  about.source = "api";
  about.topic = state->runs.find(session->key())->active->topic;
  json::ObjectWriter body;
  body.string("text", text);
  pass_on(api, about, {.events = {{.type = "text.delta", .body = body.text()}}}, hold.run_id);
}

HandlerResult finish(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, body_fields(request, api));
  decide::FinishRun command{.target = path.target, .hold = read_hold(fields, request.params.at(2))};
  const std::string status = fields.one_of("status", {"done", "failed", "interrupted"}).value_or("");
  if (!fields.has("status")) fields.fault("status", "is missing");
  command.status = decide::run_status(status).value_or(decide::RunStatus::done);
  command.stop_reason = fields.string("stopReason", 256).value_or("");
  if (const auto error = fields.object("error")) command.error = json::compact(*error);
  const auto entries = fields.array("entries");
  if (const auto usage = fields.object("usage")) command.usage = json::compact(*usage);
  command.steered = fields.strings("steered", 1'000);
  command.deliver = fields.boolean("deliver");
  CO_TRY(fields.done());
  for (const std::string_view element : json::elements(entries.value_or("[]"))) {
    if (command.entries.size() == limits::message_entries)
      co_return fail_at("/entries", fmt::format("has more than {} entries", limits::message_entries));
    CO_TRY(auto entry, client_entry(element, fmt::format("/entries/{}", command.entries.size())));
    command.entries.push_back(std::move(entry));
  }
  const auto turn = co_await api.work.claims.leases().turn(path.agent, command.hold.run_id, request.principal.id);
  if (redacts(api)) tell_held(api, path, command.hold, request.principal);
  ledger::Requester requester{.actor = request.principal.id};
  requester.in_memory = is_in_memory(api, path.agent, command);
  CO_TRY(auto reply, co_await api.ledger.commit(path.agent, std::move(requester), scoped(std::move(command), request)));
  co_return to_response(std::move(reply));
}
}  // namespace

void add_run_work_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string run = "/v1/agents/{agent}/sessions/{key}/runs/{id}";
  on("POST", run + "/events", auth::Permission::run, scanned_tell);
  on("POST", run + "/finish", auth::Permission::run, scanned<lasting<finish>>);
}

}  // namespace sessiond::api
