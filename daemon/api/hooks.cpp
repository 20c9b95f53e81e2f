// Hooks: handlers that clients make, and their answers (policy/runs/README.md). The shutdown of a session.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/api/handler.hpp"
#include "daemon/decide/hooks.hpp"
#include "policy/runs/hooks.hpp"
#include "store/limits.hpp"

namespace sessiond::api {
namespace {

constexpr std::int64_t least_hook_ms = 10;
constexpr std::size_t longest_context = 16 << 10;
constexpr std::size_t longest_reason = 1024;

bool is_hook_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_plain);
}

// A hook lies within the scope of tokens that see all sessions that it is called for.
bool sees_hook(const auth::Principal& principal, const runs::Hook& hook) {
  if (hook.agents.empty()) return principal.sees_everything();
  return std::ranges::all_of(hook.agents, [&](const std::string& agent) { return principal.sees_whole_agent(agent); });
}

std::unexpected<Problem> no_such_hook(std::string_view name) {
  return fail(Code::hook_not_found, fmt::format("there is no hook {}", name));
}

std::unexpected<Problem> no_such_call(std::string_view id) {
  return fail(Code::hook_not_found, fmt::format("there is no call {}: its time may be over", id));
}

// forbidden: a hook is called for whole agents.
Result<void> check_may_make(const auth::Principal& principal) {
  if (principal.key_prefix.empty() && principal.channel.empty() && principal.key.empty()) return {};
  return fail(Code::forbidden, "a token that is limited to some sessions of an agent may not make hooks");
}

void read_events(Fields& fields, runs::Hook& hook) {
  hook.events = fields.strings("events", 20);
  if (!fields.has("events")) fields.fault("events", "is missing");
  if (fields.has("events") && hook.events.empty()) fields.fault("events", "names no event");
  for (const std::string& event : hook.events) {
    if (!runs::is_hook_event(event)) {
      fields.fault("events", fmt::format("{} is none of {}", json::quote(event), runs::hook_event_names()));
    } else if (hook.blocking && !runs::can_block(event)) {
      fields.fault("blocking", fmt::format("nothing waits for {}", event));
    }
  }
}

// Reads the agents of a hook: without any it is called for all that the token sees.
Result<void> read_agents(Fields& fields, const auth::Principal& principal, runs::Hook& hook) {
  for (const std::string& name : fields.strings("agents", limits::token_agents)) {
    const auto agent = store::normalize_agent_id(name);
    if (!agent) {
      fields.fault("agents", fmt::format("{} is not a valid agent id", json::quote(name)));
    } else if (!principal.sees_agent(*agent)) {
      return fail(Code::forbidden, fmt::format("this token has no access to agent {}", *agent));
    } else if (std::ranges::find(hook.agents, *agent) == hook.agents.end()) {
      hook.agents.push_back(*agent);
    }
  }
  if (hook.agents.empty()) hook.agents = principal.agents;
  return {};
}

HandlerResult put_hook(Api& api, http::Request& request) {
  CO_TRY(check_may_make(request.principal));
  runs::Hook hook{.name = request.params.at(0)};
  if (!is_hook_name(hook.name)) co_return fail(Code::invalid_id, "a hook's name is 1..64 of [A-Za-z0-9._-]");
  CO_TRY(auto fields, co_await body_fields(api, request));
  hook.blocking = fields.boolean("blocking").value_or(false);
  read_events(fields, hook);
  hook.timeout_ms = fields.integer("timeoutMs");
  const std::int64_t longest = api.ledger.rules().runs.hook_timeout_ms;
  if (hook.timeout_ms && (*hook.timeout_ms < least_hook_ms || *hook.timeout_ms > longest))
    fields.fault("timeoutMs", fmt::format("must be {} to hooks.timeoutMs, {}", least_hook_ms, longest));
  hook.blocks_on_timeout = fields.one_of("onTimeout", {"continue", "block"}) == "block";
  CO_TRY(read_agents(fields, request.principal, hook));
  CO_TRY(fields.done());
  if (!request.principal.sees_everything()) hook.owner = request.principal.id;
  const int status = api.work.hooks.list().find(hook.name) == nullptr ? 201 : 200;
  std::string body = to_json(hook);
  CO_TRY(co_await api.work.hooks.put(std::move(hook), [principal = request.principal](const runs::Hook& there) {
    return sees_hook(principal, there);
  }));
  co_return json_response(std::move(body), status);
}

HandlerResult get_hook(Api& api, http::Request& request) {
  const runs::Hook* hook = api.work.hooks.list().find(request.params.at(0));
  if (hook == nullptr || !sees_hook(request.principal, *hook)) co_return no_such_hook(request.params.at(0));
  co_return json_response(to_json(*hook));
}

HandlerResult list_hooks(Api& api, http::Request& request) {
  std::string body = "{\"data\":[";
  for (const auto& [name, hook] : api.work.hooks.list().all())
    if (sees_hook(request.principal, hook)) append_element(body, to_json(hook));
  co_return json_response(body + "]}");
}

HandlerResult delete_hook(Api& api, http::Request& request) {
  const runs::Hook* hook = api.work.hooks.list().find(request.params.at(0));
  if (hook == nullptr || !sees_hook(request.principal, *hook)) co_return no_such_hook(request.params.at(0));
  CO_TRY(check_may_make(request.principal));
  CO_TRY(co_await api.work.hooks.erase(request.params.at(0)));
  co_return no_content();
}

// Tells whether the token sees the session that a call is about.
asio::awaitable<bool> sees_call(Api& api, const http::Request& request, const leases::Hooks::Call& call) {
  const auto& [agent, key] = call.place;
  if (!request.principal.sees_agent(agent)) co_return false;
  const auto seen = co_await ledger::show_of(api.ledger, agent, key, false,
                                             [&](const decide::AgentState& state, ledger::Seen&) -> Result<bool> {
                                               TRY(visible(state, call.call.target, request.principal));
                                               return true;
                                             });
  co_return seen.has_value();
}

// Returns how a call has ended, as its answer said or that nobody answered it in time.
std::string outcome_json(const leases::Hooks::Call& call) {
  json::ObjectWriter out;
  if (call.is_expired) out.boolean("expired", true);
  json::write_fields(out, *call.outcome);
  return out.text();
}

HandlerResult answer_call(Api& api, http::Request& request) {
  const std::string id = request.params.at(0);
  CO_TRY(auto fields, co_await body_fields(api, request));
  const auto block = fields.boolean("block");
  const auto reason = fields.string("reason", longest_reason);
  const auto context = fields.string("additionalContext", longest_context);
  CO_TRY(fields.done());
  leases::Hooks& hooks = api.work.hooks;
  const auto call = hooks.find(id);
  if (call == nullptr || !co_await sees_call(api, request, *call)) co_return no_such_call(id);
  if (!hooks.begin_end(id)) {  // the first answer counts; it may not be durable yet
    CO_TRY(co_await api.ledger.wait_until_durable(api.ledger.parts().commits.last()));
    if (!call->outcome) co_return no_such_call(id);
    co_return json_response(outcome_json(*call));
  }
  json::ObjectWriter answer;
  if (block) answer.boolean("block", *block);
  if (reason) answer.string("reason", *reason);
  if (context) answer.string("additionalContext", *context);
  auto reply =
      co_await commit(api, request, call->place.first,
                      decide::AnswerHook{.target = call->call.target, .call = call->call, .answer = answer.text()});
  if (!reply) hooks.undo_end(id);
  if (!reply && reply.error().code == Code::session_not_found) co_return no_such_call(id);
  co_return reply;
}

HandlerResult shut_down(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request));
  const std::string reason = fields.string("reason", longest_reason).value_or("");
  if (!fields.has("reason")) fields.fault("reason", "is missing");
  CO_TRY(fields.done());
  decide::ShutDown command{.target = path.target, .reason = reason};
  std::string key;
  CO_TRY(key, co_await show_session(api, request, path, false,
                                    [](const decide::Session& session, const ledger::Seen&) -> Result<std::string> {
                                      return session.key();
                                    }));
  CO_TRY(co_await commit(api, request, path.agent, command));
  // The daemon itself ends a run whose runner does not, when its grace is over.
  const std::int64_t most_ms = api.ledger.rules().runs.abort_grace_ms + 1'000;
  co_await api.work.claims.leases().wait_until_idle({path.agent, key}, most_ms, has_gone(api, request));
  if (api.draining) co_return fail(Code::draining, "the daemon is shutting down; send it again");
  command.last_step = true;
  co_return co_await commit(api, request, path.agent, std::move(command));
}

}  // namespace

void add_hook_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/hooks", auth::Permission::read, list_hooks);
  on("PUT", "/v1/hooks/{name}", auth::Permission::policy, put_hook);
  on("GET", "/v1/hooks/{name}", auth::Permission::read, get_hook);
  on("DELETE", "/v1/hooks/{name}", auth::Permission::policy, delete_hook);
  on("POST", "/v1/hooks/calls/{id}", auth::Permission::hook, words(answer_call));
  on("POST", "/v1/agents/{agent}/sessions/{key}/shutdown", auth::Permission::policy, words(shut_down));
}

}  // namespace sessiond::api
