// Event streams over everything, an agent, a session (API §6).
#include "daemon/api/handler.hpp"
#include "daemon/api/tickets.hpp"
#include "daemon/stream/stream.hpp"

namespace sessiond {
namespace {

using Served = asio::awaitable<Result<Response>>;

// Who a token is by now: streams outlive the request that opened them.
Result<Principal> again(Api& api, const Principal& principal) {
  if (principal.id == "local") return principal;
  return api.tokens.principal(principal.id, wall_now());
}

// EventSource asks for text/event-stream, curl for anything; a client that can take neither gets a clear answer.
Result<void> takes_events(const Request& request) {
  const std::string_view accept = request.header("accept");
  for (const std::string_view type : {"text/event-stream", "text/*", "*/*"}) {
    if (accept.empty() || accept.find(type) != std::string_view::npos) return {};
  }
  return fail(Code::not_acceptable, "this route answers text/event-stream");
}

// By token or by ticket.
Served stream_for(Api& api, StreamContext& context, Request& request, StreamScope scope) {
  auto ticket = take_ticket(api, request);
  if (!ticket) co_return std::unexpected(std::move(ticket.error()));
  auto response = open_stream(context, request, std::move(scope));
  if (response && *ticket) co_await remember_ticket(api, **ticket, *response);
  co_return response;
}

}  // namespace

void add_event_routes(Router& router, Api& api) {
  auto context = std::make_shared<StreamContext>(
      StreamContext{.ledger = api.ledger,
                    .heartbeat_ms = api.config.stream.heartbeat_ms,
                    .retry_ms = api.config.stream.retry_ms,
                    .version = SESSIOND_VERSION,
                    .again = [&api](const Principal& principal) { return again(api, principal); },
                    .token_generation = [&api] { return api.tokens.generation(); },
                    .draining = api.draining});
  router.add("GET", "/v1/events", Permission::stream, answering([context, &api](Request& request) -> Served {
               if (auto fine = takes_events(request); !fine) co_return std::unexpected(std::move(fine.error()));
               co_return co_await stream_for(api, *context, request, {});
             }));
  router.add("GET", "/v1/agents/{agent}/events", Permission::stream,
             answering([context, &api](Request& request) -> Served {
               if (auto fine = takes_events(request); !fine) co_return std::unexpected(std::move(fine.error()));
               auto agent = agent_param(request);
               if (!agent) co_return std::unexpected(std::move(agent.error()));
               co_return co_await stream_for(api, *context, request, {.agent = *agent, .key = {}});
             }));
  router.add("GET", "/v1/agents/{agent}/sessions/{key}/events", Permission::stream,
             answering([context, &api](Request& request) -> Served {
               if (auto fine = takes_events(request); !fine) co_return std::unexpected(std::move(fine.error()));
               auto agent = agent_param(request);
               if (!agent) co_return std::unexpected(std::move(agent.error()));
               auto target = target_param(request, api, Match::ignored);
               if (!target) co_return std::unexpected(std::move(target.error()));
               auto state = co_await api.ledger.agent(*agent);
               if (!state) co_return std::unexpected(std::move(state.error()));
               auto session = visible(**state, *target, request.principal);
               if (!session) co_return std::unexpected(std::move(session.error()));
               co_return co_await stream_for(api, *context, request, {.agent = *agent, .key = (*session)->key()});
             }));
}

}  // namespace sessiond
