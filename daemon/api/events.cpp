// Event streams over everything, an agent or a session, as Server-Sent Events or, with ?poll=1, as JSON pages. Also
// ephemeral events (typing, text deltas), which are published to open streams and not stored.
#include "daemon/api/bridge_fields.hpp"
#include "daemon/api/tickets.hpp"
#include "daemon/decide/message_channels.hpp"
#include "daemon/decide/run_commands.hpp"
#include "daemon/decide/takeover_steps.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t most_delta_bytes = 256 << 10;

// Checks that the client accepts the type of the answer. Errors: not_acceptable.
Result<void> takes(const http::Request& request, std::string_view answer) {
  const std::string_view accept = request.header("accept");
  const std::string group(answer.substr(0, answer.find('/')));
  for (const std::string& type : {std::string(answer), group + "/*", std::string("*/*")}) {
    if (accept.empty() || accept.find(type) != std::string_view::npos) return {};
  }
  return fail(Code::not_acceptable, "this route replies with " + std::string(answer));
}

// Opens a stream or answers a poll, by token or by ticket.
HandlerResult stream_for(Api& api, http::Request& request, stream::StreamScope scope) {
  const bool polls = request.query_value("poll") != nullptr;
  CO_TRY(takes(request, polls ? "application/json" : "text/event-stream"));
  CO_TRY(auto ticket, take_ticket(api, request));
  auto response = polls ? co_await api.streams.poll(request, std::move(scope), api.draining)
                        : co_await api.streams.open(request, std::move(scope));
  if (response && ticket) co_await remember_ticket(api, *ticket, *response);
  co_return response;
}

HandlerResult whole_stream(Api& api, http::Request& request) { return stream_for(api, request, {}); }

HandlerResult agent_stream(Api& api, http::Request& request) {
  CO_TRY(auto agent, agent_param(request));
  co_return co_await stream_for(api, request, {.agent = agent, .key = {}});
}

// The envelope of an event about the session of a path. `by_person`: a person types, who may be in one of several
// channels that reach the session, and whose bridge does not see it.
asio::awaitable<Result<journal::Envelope>> envelope_of(Api& api, const http::Request& request, const SessionPath& path,
                                                       bool by_person = false) {
  co_return co_await ledger::show_of(
      api.ledger, path.agent, path.target.key, false,
      [&](const decide::AgentState& state, ledger::Seen& seen) -> Result<journal::Envelope> {
        const std::string& channel = request.principal.channel;
        const decide::Session* session = state.find(path.target.key);
        const bool reaches = by_person && session != nullptr && decide::is_reached_by(*session, channel) &&
                             request.principal.sees(state.id(), session->key(), channel);
        if (!reaches) {
          TRY(session, visible(state, path.target, request.principal));
        }
        seen.only(*session, path.target.key);
        journal::Envelope envelope = envelope_about(api, state, *session);
        envelope.time = store::unix_ms();
        envelope.actor = request.principal.id;
        envelope.source = "api";
        return envelope;
      });
}

HandlerResult session_stream(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto scope, co_await ledger::show_of(
                         api.ledger, path.agent, path.target.key, false,
                         [&](const decide::AgentState& state, ledger::Seen& seen) -> Result<stream::StreamScope> {
                           TRY(const decide::Session* session, visible(state, path.target, request.principal));
                           seen.only(*session, path.target.key);
                           stream::StreamScope scope{.agent = state.id(), .key = session->key()};
                           for (const decide::ArchiveRecord* record : state.archives.of_id(session->session_id))
                             if (record->purged) scope.after = std::max(scope.after, record->seq);
                           return scope;
                         }));
  co_return co_await stream_for(api, request, std::move(scope));
}

// Says whether the request may tell what the agent does: as the runner of the active run, or, unless runs.exclusive is
// set, without naming a run. lease_lost, session_busy, taken_over.
asio::awaitable<Result<bool>> check_agent_may_tell(Api& api, const http::Request& request, const SessionPath& path) {
  CO_TRY(const auto run, run_of(request));
  if (!run && !api.ledger.rules().runs.exclusive && api.work.takeovers.size() == 0) co_return true;
  co_return co_await ledger::show_of(api.ledger, path.agent, path.target.key, false,
                                     [&](const decide::AgentState& state, ledger::Seen& seen) -> Result<bool> {
                                       TRY(const decide::Session* session,
                                           visible(state, path.target, request.principal));
                                       seen.only(*session, path.target.key);
                                       if (run) {
                                         TRY(decide::held_run(state, *session, *run, request.principal.id));
                                       } else if (api.ledger.rules().runs.exclusive) {
                                         TRY(decide::check_no_active_run(state, *session));
                                       }
                                       TRY(decide::check_agent_may_speak(state, *session, run.has_value()));
                                       return true;
                                     });
}

// Publishes an ephemeral event to the streams that are open now. It has no id and is not stored.
HandlerResult publish(Api& api, http::Request& request, journal::EventType type) {
  CO_TRY(auto path, session_path(request, api));
  const bool delta = type == journal::EventType::text_delta;
  CO_TRY(auto fields, co_await body_fields(api, request, delta ? Body::required : Body::optional));
  auto topic = fields.string("topic", 80);
  stream::Ephemeral event{.type = type, .run_id = delta ? fields.string("runId", 128).value_or("") : "", .text = {}};
  if (delta) {
    if (auto text = fields.string("text", most_delta_bytes)) {
      event.text = std::move(*text);
    } else {
      fields.fault("text", "is missing");
    }
  }
  if (!delta) event.from = person_of(fields, "from").json;
  CO_TRY(fields.done());
  if (event.from.empty()) CO_TRY(co_await check_agent_may_tell(api, request, path));
  CO_TRY(event.envelope, co_await envelope_of(api, request, path, !event.from.empty()));
  event.envelope.type = type;
  event.envelope.topic = std::move(topic);
  if (delta && checks_pieces(api)) {
    std::string of = fmt::format("{}\n{}\n{}\n{}\n{}", path.agent, event.envelope.key,
                                 event.envelope.topic.value_or(""), event.run_id, request.principal.id);
    HeldDeltas::Delta told = api.held_deltas.take(std::move(of), event.text, store::steady_ms(), rejects_secrets(api));
    CO_TRY(judge_found(api, request, told.found));
    event.text = std::move(told.text);
  }
  if (delta && event.text.empty()) co_return no_content();
  api.streams.publish(std::move(event));
  co_return no_content();
}

HandlerResult typing(Api& api, http::Request& request) {
  return publish(api, request, journal::EventType::session_typing);
}
HandlerResult post_delta(Api& api, http::Request& request) {
  return publish(api, request, journal::EventType::text_delta);
}

}  // namespace

void add_event_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string session = "/v1/agents/{agent}/sessions/{key}";
  const http::QueryNames query{"deliver", "types",  "agent",       "keyPrefix", "channel", "topic",  "after",
                               "replay",  "ticket", "heartbeatMs", "ping",      "poll",    "waitMs", "limit"};
  on("GET", "/v1/events", auth::Permission::stream, whole_stream, query);
  on("GET", "/v1/agents/{agent}/events", auth::Permission::stream, agent_stream, query);
  on("GET", session + "/events", auth::Permission::stream, session_stream, query);
  on("POST", session + "/typing", auth::Permission::send, words(typing));
  on("POST", session + "/deltas", auth::Permission::write, deltas(post_delta));
}

}  // namespace sessiond::api
