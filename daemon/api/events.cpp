// Event streams over everything, an agent, a session (API §6): as Server-Sent Events, or with ?poll=1 as JSON pages;
// and what is published to them without being kept.
#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/tickets.hpp"
#include "store/clock.hpp"

namespace sessiond {
namespace {

constexpr std::size_t most_delta_bytes = 256 << 10;

// EventSource asks for text/event-stream, curl for anything; a client that can take neither gets a clear answer.
Result<void> takes(const Request& request, std::string_view answer) {
  const std::string_view accept = request.header("accept");
  const std::string group(answer.substr(0, answer.find('/')));
  for (const std::string& type : {std::string(answer), group + "/*", std::string("*/*")}) {
    if (accept.empty() || accept.find(type) != std::string_view::npos) return {};
  }
  return fail(Code::not_acceptable, "this route answers " + std::string(answer));
}

// By token or by ticket.
Served stream_for(Api& api, Request& request, StreamScope scope) {
  const bool polls = request.query_value("poll") != nullptr;
  if (auto fine = takes(request, polls ? "application/json" : "text/event-stream"); !fine)
    co_return std::unexpected(std::move(fine.error()));
  auto ticket = take_ticket(api, request);
  if (!ticket) co_return std::unexpected(std::move(ticket.error()));
  auto response = polls ? co_await api.streams.poll(request, std::move(scope), api.draining)
                        : co_await api.streams.open(request, std::move(scope));
  if (response && *ticket) co_await remember_ticket(api, **ticket, *response);
  co_return response;
}

Served whole_stream(Api& api, Request& request) { return stream_for(api, request, {}); }

Served agent_stream(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  co_return co_await stream_for(api, request, {.agent = *agent, .key = {}});
}

asio::awaitable<Result<Session>> session_of(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto target = target_param(request, api, Match::ignored);
  if (!target) co_return std::unexpected(std::move(target.error()));
  co_return co_await api.ledger.show(*agent, false, [&](const AgentState& state, Seen& seen) -> Result<Session> {
    auto session = visible(state, *target, request.principal);
    if (!session) return std::unexpected(std::move(session.error()));
    seen.only(**session, target->key);
    return **session;
  });
}

Served session_stream(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto session = co_await session_of(api, request);
  if (!session) co_return std::unexpected(std::move(session.error()));
  co_return co_await stream_for(api, request, {.agent = *agent, .key = session->key()});
}

// What is published and not kept: to whoever listens now, without an id.
Served publish(Api& api, Request& request, EventType type) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  const bool delta = type == EventType::text_delta;
  auto body = json_body(request, api.config.limits.json_depth, !delta);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  auto topic = fields->string("topic", 80);
  Ephemeral event{.type = type, .run_id = delta ? fields->string("runId", 128).value_or("") : "", .text = {}};
  if (delta) {
    if (auto text = fields->string("text", most_delta_bytes)) {
      event.text = std::move(*text);
    } else {
      fields->fault("text", "is missing");
    }
  }
  if (auto done = fields->done(); !done) co_return std::unexpected(std::move(done.error()));
  auto session = co_await session_of(api, request);
  if (!session) co_return std::unexpected(std::move(session.error()));
  event.envelope = {.time = unix_ms(),
                    .type = type,
                    .agent = *agent,
                    .key = session->key(),
                    .session_id = session->session_id,
                    .channel = session->channel,
                    .chat_type = session->chat_type,
                    .topic = std::move(topic),
                    .actor = request.principal.id,
                    .source = "api"};
  api.streams.publish(std::move(event));
  co_return no_content();
}

Served typing(Api& api, Request& request) { return publish(api, request, EventType::session_typing); }
Served deltas(Api& api, Request& request) { return publish(api, request, EventType::text_delta); }

}  // namespace

void add_event_routes(Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string session = "/v1/agents/{agent}/sessions/{key}";
  const QueryNames query{"types",  "agent",       "keyPrefix", "channel", "topic",  "after", "replay",
                         "ticket", "heartbeatMs", "ping",      "poll",    "waitMs", "limit"};
  on("GET", "/v1/events", Permission::stream, whole_stream, query);
  on("GET", "/v1/agents/{agent}/events", Permission::stream, agent_stream, query);
  on("GET", session + "/events", Permission::stream, session_stream, query);
  on("POST", session + "/typing", Permission::write, typing);
  on("POST", session + "/deltas", Permission::write, deltas);
}

}  // namespace sessiond
