// Approvals of tools: a runner asks, a person answers; what was allowed for a session (policy/runs/README.md).
#include <fmt/format.h>

#include <algorithm>

#include "daemon/api/asking.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/open_list.hpp"
#include "daemon/stream/filter.hpp"
#include "store/limits.hpp"

namespace sessiond::api {
namespace {

constexpr std::int64_t longest_answer_wait_ms = 30'000;
constexpr std::int64_t least_timeout_ms = 10;
constexpr std::int64_t most_timeout_ms = 24LL * 3'600'000;
constexpr std::size_t most_args_bytes = 64 << 10;

// Makes the envelope that approval.requested would have. Nothing: the token does not see the session.
asio::awaitable<std::optional<journal::Envelope>> asked_at(Api& api, const http::Request& request,
                                                           const SessionPath& path) {
  auto envelope =
      co_await ledger::show_of(api.ledger, path.agent, path.target.key, false,
                               [&](const decide::AgentState& state, ledger::Seen&) -> Result<journal::Envelope> {
                                 TRY(const decide::Session* session, visible(state, path.target, request.principal));
                                 const decide::SessionRuns* runs = state.runs.find(session->key());
                                 journal::Envelope envelope = envelope_about(api, state, *session);
                                 envelope.type = journal::EventType::approval_requested;
                                 if (runs != nullptr && runs->active) envelope.topic = runs->active->topic;
                                 return envelope;
                               });
  if (!envelope) co_return std::nullopt;
  co_return std::move(*envelope);
}

// Tells whether somebody who may answer holds a stream that would show the question.
asio::awaitable<bool> can_be_seen(Api& api, const http::Request& request, const SessionPath& path) {
  const auto about = co_await asked_at(api, request, path);
  if (!about) co_return false;
  co_return co_await api.streams.any([&about, asker = request.principal.id](const stream::StreamView& view) {
    return view.principal.id != asker && view.principal.may(auth::Permission::approve) && view.shows(*about);
  });
}

// Answers with an approval, as it is after at most `wait_ms`.
HandlerResult answer_when_decided(Api& api, const http::Request& request, const SessionPath& path, std::string id,
                                  std::int64_t wait_ms, bool asks) {
  http::Response response;
  const auto look = [&]() -> asio::awaitable<Result<bool>> {
    bool decided = false;
    CO_TRY(response,
           co_await ledger::show_of(
               api.ledger, path.agent, path.target.key, wants_fresh(request),
               [&](const decide::AgentState& state, ledger::Seen&) -> Result<http::Response> {
                 TRY(const decide::Session* session, visible(state, path.target, request.principal));
                 const decide::SessionRuns* runs = state.runs.find(session->key());
                 const decide::Approval* found = runs == nullptr ? nullptr : runs->approvals.find(id);
                 if (found == nullptr)
                   return fail(Code::approval_not_found, fmt::format("{} has no approval {}", session->key(), id));
                 decided = !found->is_open();
                 return as_of_response(api, approval_json(state.id(), session->key(), *found), state.last_seq);
               }));
    if (asks && !decided) response.status = 201;
    co_return decided;
  };
  CO_TRY(
      co_await api.work.approvals.follow({.id = id, .wait_ms = wait_ms, .gone = has_gone(api, request), .look = look}));
  co_return response;
}

HandlerResult ask_approval(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request));
  decide::AskApproval command{.target = path.target};
  command.hold.run_id = fields.string("runId", 128).value_or("");
  if (command.hold.run_id.empty()) fields.fault("runId", "is missing");
  const auto fence = fields.integer("fence", 1);
  if (!fence && !fields.has("fence")) fields.fault("fence", "is missing: it came with the run's lease");
  command.hold.fence = static_cast<std::uint64_t>(fence.value_or(0));
  command.tool = fields.string("tool", 256).value_or("");
  if (command.tool.empty()) fields.fault("tool", "is missing");
  if (const auto args = fields.object("args")) command.args = json::compact(*args);
  if (command.args.size() > most_args_bytes)
    fields.fault("args", fmt::format("has more than {} bytes; name a file instead", most_args_bytes));
  command.call_id = fields.string("callId", 256).value_or("");
  command.timeout_ms = fields.integer("timeoutMs");
  if (command.timeout_ms && (*command.timeout_ms < least_timeout_ms || *command.timeout_ms > most_timeout_ms))
    fields.fault("timeoutMs", fmt::format("must be {} to {}", least_timeout_ms, most_timeout_ms));
  const std::int64_t wait_ms = fields.integer("waitMs").value_or(0);
  if (wait_ms > longest_answer_wait_ms) fields.fault("waitMs", fmt::format("must be 0 to {}", longest_answer_wait_ms));
  CO_TRY(fields.done());
  command.age_now = api.ledger.parts().commits.clock().now();
  if (api.ledger.rules().runs.require_approver) command.can_be_seen = co_await can_be_seen(api, request, path);
  const decide::RunHold hold = command.hold;
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines, const decide::Asking& asking) {
    command.hooks = asking;
    return scoped(command, request)(state, context, lines);
  };
  ledger::Requester requester{.actor = request.principal.id};
  requester.in_memory = is_in_memory(api, path.agent, command);
  CO_TRY(auto reply, co_await commit_asking(api, {.agent = path.agent,
                                                  .event = "PreToolUse",
                                                  .requester = std::move(requester),
                                                  .gone = has_gone(api, request),
                                                  .decide = decide}));
  auto response = to_response(std::move(reply));
  api.work.claims.leases().renew(path.agent, json::string_at(response.body, "key").value_or(""), hold, {});
  if (response.status != 201 || wait_ms == 0) co_return response;
  const std::string id = json::string_at(response.body, "id").value_or("");
  co_return co_await answer_when_decided(api, request, path, id, wait_ms, true);
}

HandlerResult get_approval(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(const auto wait_ms, query_int(request, "waitMs", 0, longest_answer_wait_ms));
  co_return co_await answer_when_decided(api, request, path, request.params.at(2), wait_ms.value_or(0), false);
}

HandlerResult answer_approval(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request));
  const std::string decision = fields.one_of("decision", {"allow", "allow-session", "deny"}).value_or("");
  if (!fields.has("decision")) fields.fault("decision", "is missing");
  decide::AnswerApproval command{.target = path.target,
                                 .id = request.params.at(2),
                                 .allow = decision != "deny",
                                 .for_session = decision == "allow-session",
                                 .reason = fields.string("reason", 1024).value_or("")};
  CO_TRY(fields.done());
  co_return co_await commit(api, request, path.agent, std::move(command));
}

HandlerResult list_approvals(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(const auto open, query_bool(request, "open"));
  co_return co_await ledger::show_of(api.ledger, path.agent, path.target.key, wants_fresh(request),
                                     [&](const decide::AgentState& state, ledger::Seen&) -> Result<http::Response> {
                                       TRY(const decide::Session* session,
                                           visible(state, path.target, request.principal));
                                       std::string body = "{\"data\":[";
                                       if (const decide::SessionRuns* runs = state.runs.find(session->key())) {
                                         for (const decide::Approval& each : runs->approvals.all())
                                           if (!open || *open == each.is_open())
                                             append_element(body, approval_json(state.id(), session->key(), each));
                                       }
                                       return as_of_response(api, body + "]}", state.last_seq);
                                     });
}

HandlerResult all_approvals(Api& api, http::Request& request) {
  CO_TRY(const auto open, query_bool(request, "open"));
  if (open && !*open) co_return fail(Code::bad_request, "open may only be true: a session lists the others");
  const auto add = [](const decide::AgentState& state, const decide::Session& session, const decide::SessionRuns& runs,
                      const AddOpen& found) {
    for (const decide::Approval& each : runs.approvals.all())
      if (each.is_open())
        found({.since = each.asked_at, .id = each.id, .json = [&] {
                 return approval_json(state.id(), session.key(), each);
               }});
  };
  co_return co_await list_open(api, request, co_await api.work.approvals.places(), add);
}

HandlerResult allowed_tools(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  co_return co_await show_session(
      api, request, path, wants_fresh(request),
      [&](const decide::Session& session, ledger::Seen& seen) -> Result<http::Response> {
        const std::string_view tools = json::find(*session.entry(), "allowedTools").value_or("[]");
        const bool is_list = json::kind(tools) == json::Kind::array;  // a foreign program may have written it
        return as_of_response(fmt::format(R"({{"data":{}}})", is_list ? tools : "[]"), api.ledger.as_of(seen.seq()));
      });
}

HandlerResult forget_tools(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  decide::ForgetAllowedTools command{.target = path.target};
  if (request.params.size() > 2) command.tool = request.params.at(2);
  co_return co_await commit(api, request, path.agent, std::move(command));
}

}  // namespace

void add_approval_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string session = "/v1/agents/{agent}/sessions/{key}";
  on("GET", "/v1/approvals", auth::Permission::approvals, all_approvals, {"open", "agent", "channel"});
  on("POST", session + "/approvals", auth::Permission::run, words(ask_approval));
  on("GET", session + "/approvals", auth::Permission::approvals, list_approvals, {"open"});
  on("GET", session + "/approvals/{id}", auth::Permission::approvals, get_approval, {"waitMs"});
  on("POST", session + "/approvals/{id}", auth::Permission::approve, words(answer_approval));
  on("GET", session + "/allowed-tools", auth::Permission::read, allowed_tools);
  on("DELETE", session + "/allowed-tools", auth::Permission::policy, forget_tools);
  on("DELETE", session + "/allowed-tools/{tool}", auth::Permission::policy, forget_tools);
}

}  // namespace sessiond::api
