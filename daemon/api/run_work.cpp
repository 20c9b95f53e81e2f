// Serves what the runner of an active run tells: what it does, and how the run ends (policy/runs/README.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/api/media.hpp"
#include "daemon/decide/run_steps.hpp"
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

// Publishes what of a call is not stored. People are shown no words of a run that a person has superseded.
void pass_on(Api& api, const journal::Envelope& about, const Told& told, const std::string& run_id) {
  const decide::AgentState* state = ledger::loaded_state(api.ledger.parts(), about.agent, about.key);
  const decide::SessionRuns* runs = state == nullptr ? nullptr : state->runs.find(about.key);
  const bool is_superseded = runs != nullptr && runs->active && runs->active->superseded;
  for (const decide::RunEvent& event : told.events) {
    const auto type = journal::event_type(event.type);
    if (!type || *type < journal::EventType::session_typing) continue;
    if (is_superseded && *type == journal::EventType::text_delta) continue;
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
    if (publish) publish({{journal::make_event(std::move(envelope), json::apply(json::compact(event.body), edit))}});
  }
}

// The events of a call after its texts were checked for keys, and the keys that were found.
struct Checked {
  Told told{};
  std::vector<policy::SecretIn> found{};
};

// Takes keys out of the deltas of a call. A delta may end within a key, so its end may wait for a later one. All that a
// run says is read as one text, and all that it thinks as another.
Checked without_cut_keys(const Told& told, decide::RunPulse& pulse, bool rejects) {
  Checked out{.told = {.speaks = told.speaks}};
  std::size_t index = 0;
  for (const decide::RunEvent& event : told.events) {
    const std::string at = fmt::format("/events/{}/text", index++);
    const bool thinks = event.type == "reasoning.delta";
    if (event.type != "text.delta" && !thinks) {
      out.told.events.push_back(event);
      continue;
    }
    policy::PieceRedactor& end = thinks ? pulse.thought_end : pulse.said_end;
    const auto piece = end.take(json::string_at(event.body, "text").value_or(""));
    for (const std::string_view kind : piece.kinds) out.found.push_back({.pointer = at, .kind = kind});
    if (rejects && !end.held_kind().empty()) out.found.push_back({.pointer = at, .kind = end.held_kind()});
    if (piece.text.empty()) continue;
    json::Edit edit;
    edit.put_string("text", piece.text);
    if (!thinks) out.told.said += piece.text;
    out.told.events.push_back({.type = event.type, .body = json::apply(event.body, edit)});
  }
  return out;
}

// The texts of a long call, checked on a disk thread. `before` and `after` are what the run held back then: the result
// counts only if the run still holds back the same.
struct CheckedAhead {
  decide::RunPulse before{}, after{};
  Checked checked{};
  bool goes_on_from(const decide::RunPulse& pulse) const {
    return before.said_end == pulse.said_end && before.thought_end == pulse.thought_end;
  }
};

decide::RunPulse pulse_now(Api& api, const SessionPath& path, const decide::RunHold& hold) {
  const decide::AgentState* state = ledger::loaded_state(api.ledger.parts(), path.agent, path.target.key);
  const decide::Session* session = state == nullptr ? nullptr : session_named(*state, path.target);
  return session == nullptr ? decide::RunPulse{} : api.work.claims.leases().pulse(path.agent, session->key(), hold);
}

struct TellRequest {
  decide::RunEvents command{};
  Told told{};
};

// Reads a request. A long one on a disk thread.
Result<TellRequest> read_tell(http::Request& request, const Limits& limits) {
  TRY(auto fields, fields_of(request, limits));
  decide::RunEvents command{.hold = read_hold(fields, request.params.at(2))};
  if (const auto n = fields.integer("n", 1)) command.n = static_cast<std::uint64_t>(*n);
  const auto events = fields.array("events");
  if (!fields.has("events")) fields.fault("events", "is missing; [] renews the lease");
  command.steered = fields.strings("steered", 1'000);
  TRY(fields.done());
  TRY(Told told, read_events(events.value_or("[]")));
  command.events = told.events;
  command.instance = request.path;
  command.request_id = request.request_id;
  return TellRequest{.command = std::move(command), .told = std::move(told)};
}

HandlerResult tell(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto asked,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_tell(request, limits); }));
  auto& command = asked.command;
  command.target = path.target;
  auto& told = asked.told;

  struct Outcome {
    journal::Envelope about{};
    std::string key{};
    bool is_new = true;
    bool stored = false;
    decide::RunPulse pulse{};  // with the ends that wait then
    std::vector<policy::SecretIn> found{};
  } outcome;
  const bool in_pieces = checks_pieces(api);
  const Told as_sent = in_pieces ? told : Told{};
  leases::Leases& leases = api.work.claims.leases();
  const auto turn = co_await leases.turn(path.agent, command.hold.run_id, request.principal.id);
  std::optional<CheckedAhead> ahead;
  if (in_pieces && is_long(request)) {
    ahead = CheckedAhead{.before = pulse_now(api, path, command.hold)};
    ahead->after = ahead->before;
    ahead->checked = co_await on_disk(
        api, [&, rejects = rejects_secrets(api)] { return without_cut_keys(as_sent, ahead->after, rejects); });
  }
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines) -> Result<decide::Decision> {
    decide::RunEvents now = command;
    const decide::SessionRuns* runs = nullptr;
    if (const decide::Session* session = session_named(state, command.target)) {
      runs = state.runs.find(session->key());
      if (runs != nullptr) leases.take_up(path.agent, session->key(), *runs);
      leases.set_pending(path.agent, session->key(), command.hold, {});
      now.pulse = leases.pulse(path.agent, session->key(), command.hold);
      outcome = {.about = envelope_about(api, state, *session), .key = session->key()};
      outcome.about.time = context.now;
      outcome.about.actor = request.principal.id;
      outcome.about.source = "api";
      if (runs != nullptr && runs->active) outcome.about.topic = runs->active->topic;
      outcome.is_new = !now.n || *now.n > std::max(now.pulse.calls, runs == nullptr ? 0 : runs->calls);
      if (in_pieces && outcome.is_new) {
        const bool is_ahead = ahead && ahead->goes_on_from(now.pulse);
        Checked checked = is_ahead ? ahead->checked : without_cut_keys(as_sent, now.pulse, rejects_secrets(api));
        if (is_ahead) {
          now.pulse.said_end = ahead->after.said_end;
          now.pulse.thought_end = ahead->after.thought_end;
        }
        if (rejects_secrets(api)) TRY(judge_found(api, request, checked.found));
        told = std::move(checked.told);
        now.events = told.events;
        outcome.pulse = now.pulse;
        outcome.found = std::move(checked.found);
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
                  .ends = in_pieces ? std::optional(std::pair(outcome.pulse.said_end, outcome.pulse.thought_end))
                                    : std::nullopt});
    pass_on(api, outcome.about, told, command.hold.run_id);
  } else {
    leases.renew(path.agent, outcome.key, command.hold, {});
  }
  CO_TRY(judge_found(api, request, outcome.found));
  auto response = to_response(std::move(*reply));
  add_warnings(response, outcome.found);
  co_return response;
}

// Tells streams what was held back of what the run said and thought, before they are told of its end.
void tell_rest(Api& api, const SessionPath& path, const decide::RunHold& hold, const auth::Principal& principal) {
  const decide::AgentState* state = ledger::loaded_state(api.ledger.parts(), path.agent, path.target.key);
  const decide::Session* session = state == nullptr ? nullptr : session_named(*state, path.target);
  if (session == nullptr || !decide::held_run(*state, *session, hold, principal.id)) return;
  leases::Leases& leases = api.work.claims.leases();
  decide::RunPulse pulse = leases.pulse(path.agent, session->key(), hold);
  Told rest;
  const auto add = [&rest](const char* type, const std::string& text) {
    if (text.empty()) return;
    json::ObjectWriter body;
    body.string("text", text);
    rest.events.push_back({.type = type, .body = body.text()});
  };
  const std::string said = pulse.said_end.tell_rest();
  add("text.delta", said);
  add("reasoning.delta", pulse.thought_end.tell_rest());
  if (rest.events.empty()) return;
  leases.renew(path.agent, session->key(), hold,  // told once, should the end be refused
               {.said = said, .ends = std::pair(std::move(pulse.said_end), std::move(pulse.thought_end))});
  journal::Envelope about = envelope_about(api, *state, *session);
  about.time = store::unix_ms();
  about.actor = principal.id;
  about.source = "api";
  about.topic = state->runs.find(session->key())->active->topic;
  pass_on(api, about, rest, hold.run_id);
}

// Reads a request. A long one on a disk thread.
Result<decide::FinishRun> read_finish(http::Request& request, const Limits& limits) {
  TRY(auto fields, fields_of(request, limits));
  decide::FinishRun command{.hold = read_hold(fields, request.params.at(2))};
  const std::string status = fields.one_of("status", {"done", "failed", "interrupted"}).value_or("");
  if (!fields.has("status")) fields.fault("status", "is missing");
  command.status = decide::run_status(status).value_or(decide::RunStatus::done);
  command.stop_reason = fields.string("stopReason", 256).value_or("");
  if (const auto error = fields.object("error")) command.error = json::compact(*error);
  const auto entries = fields.array("entries");
  if (const auto usage = fields.object("usage")) command.usage = json::compact(*usage);
  command.steered = fields.strings("steered", 1'000);
  command.deliver = fields.boolean("deliver");
  TRY(fields.done());
  for (const std::string_view element : json::elements(entries.value_or("[]"))) {
    if (command.entries.size() == limits::message_entries)
      return fail_at("/entries", fmt::format("has more than {} entries", limits::message_entries));
    const std::string pointer = fmt::format("/entries/{}", command.entries.size());
    TRY(read_client_entry(command.entries.emplace_back(), element, pointer));
  }
  if (is_long(request)) std::ranges::for_each(command.entries, transcripts::see);
  return command;
}

HandlerResult finish(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto command,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_finish(request, limits); }));
  command.target = path.target;
  const auto turn = co_await api.work.claims.leases().turn(path.agent, command.hold.run_id, request.principal.id);
  if (checks_pieces(api)) tell_rest(api, path, command.hold, request.principal);
  ledger::Requester requester{.actor = request.principal.id};
  requester.in_memory = is_in_memory(api, path.agent, command);
  CO_TRY(auto reply, co_await api.ledger.commit(path.agent, std::move(requester), scoped(std::move(command), request)));
  co_return to_response(std::move(reply));
}
}  // namespace

void add_run_work_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string run = "/v1/agents/{agent}/sessions/{key}/runs/{id}";
  on("POST", run + "/events", auth::Permission::run, deltas(lasting<tell>));
  on("POST", run + "/finish", auth::Permission::run, words(lasting<finish>));
}

}  // namespace sessiond::api
