#include "daemon/api/asking.hpp"

#include "daemon/decide/run_commands.hpp"

namespace sessiond::api {
namespace {

constexpr std::string_view prompt_event = "UserPromptSubmit";

// Tells requests with an Idempotency-Key apart.
std::string name_of(const ledger::Requester& requester) {
  if (!requester.scope) return {};
  const std::string_view digest(reinterpret_cast<const char*>(requester.request.data()), requester.request.size());
  return requester.scope->before + '\0' + requester.scope->after + '\0' + std::string(digest);
}

bool has_asked(const Result<decide::Decision>& decided) {
  return decided && !decided->need && decided->status == decide::asked;
}

}  // namespace

asio::awaitable<Result<ledger::Reply>> commit_asking(Api& api, AskingCommit commit) {
  leases::Hooks& hooks = api.work.hooks;
  decide::Asking asking{.ask = hooks.list().is_waited_for(commit.agent, commit.event)};
  const auto decide = [&commit, &asking](const decide::AgentState& state, const decide::Context& context,
                                         const decide::FetchedLines& lines) {
    return commit.decide(state, context, lines, asking);
  };
  ledger::Requester first = commit.requester;
  if (asking.ask) first.respond_async = false;
  CO_TRY(auto reply, co_await api.ledger.commit(commit.agent, std::move(first), decide));
  if (reply.status != decide::asked) co_return reply;
  CO_TRY(asking.verdict, co_await hooks.wait(std::move(reply.body), commit.gone));
  co_return co_await api.ledger.commit(commit.agent, std::move(commit.requester), decide);
}

HandlerResult start_run(Api& api, const http::Request& request, const std::string& agent, decide::StartRun command) {
  CO_TRY(auto requester, co_await requester_of(api, request));
  requester.in_memory = requester.in_memory || is_in_memory(api, agent, command);
  leases::Claims& claims = api.work.claims;
  const std::string name = name_of(requester);
  std::shared_ptr<void> hold;
  bool is_held = false;  // by this request
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines, const decide::Asking& asking) -> Result<decide::Decision> {
    if (asking.ask && command.run_id.empty()) command.run_id = context.ids->uuid();
    decide::StartRun now = command;
    now.hooks = asking;
    const decide::Session* session = session_named(state, command.target);
    const auto* held = session == nullptr || is_held ? nullptr : claims.held(agent, session->key());
    if (held != nullptr && !name.empty() && held->request == name)
      return fail(Code::idempotency_in_flight, "a request with this Idempotency-Key is still running");
    if (held != nullptr) now.asked_about = held->run_id;
    const std::string key = session == nullptr ? "" : session->key();
    auto decided = scoped(std::move(now), request)(state, context, lines);
    if (has_asked(decided)) {
      hold = claims.hold(agent, key, {.run_id = command.run_id, .request = name});
      is_held = true;
    }
    return decided;
  };
  CO_TRY(auto reply, co_await commit_asking(api, {.agent = agent,
                                                  .event = prompt_event,
                                                  .requester = std::move(requester),
                                                  .gone = has_gone(api, request),
                                                  .decide = decide}));
  co_return to_response(std::move(reply));
}

asio::awaitable<Result<std::optional<ledger::Reply>>> take_run(Api& api, const http::Request& request,
                                                               const std::string& agent, ledger::Requester requester,
                                                               decide::ClaimRun command) {
  leases::Claims& claims = api.work.claims;
  std::shared_ptr<void> hold;
  requester.in_memory = is_in_memory(api, agent, command);
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines, const decide::Asking& asking) -> Result<decide::Decision> {
    command.hooks = asking;
    auto decided = scoped(command, request)(state, context, lines);
    if (has_asked(decided)) hold = claims.hold(agent, command.target.key, {.run_id = command.run_id});
    return decided;
  };
  auto reply = co_await commit_asking(api, {.agent = agent,
                                            .event = prompt_event,
                                            .requester = std::move(requester),
                                            .gone = has_gone(api, request),
                                            .decide = decide});
  if (!reply && reply.error().code == Code::draining && api.draining) co_return std::nullopt;
  if (!reply) co_return std::unexpected(std::move(reply.error()));
  if (reply->status == 204) co_return std::nullopt;
  co_return std::move(*reply);
}

}  // namespace sessiond::api
