// The send policy: that of the daemon (policy.json, which overrides the configuration), that of a session, and trying
// one out.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <map>

#include "daemon/api/handler.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "daemon/decide/view.hpp"
#include "policy/send_policy.hpp"
#include "store/files.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

std::string policy_etag(const std::string& policy) { return fmt::format("p{:016x}", std::hash<std::string>{}(policy)); }

http::Response policy_response(std::string policy) {
  const std::string tag = policy_etag(policy);
  http::Response response = json_response(std::move(policy));
  set_etag(response, tag);
  return response;
}

HandlerResult get_policy(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "read the policy"));  // its rules name channels, keys and people
  co_return policy_response(policy::to_json(api.ledger.rules().send_policy));
}

HandlerResult put_policy(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "change the policy"));
  std::string_view match = store::trim(request.header("if-match"));
  if (match.empty())
    co_return fail(Code::precondition_required, "If-Match is needed: GET /v1/policy/send returns the current ETag");
  CO_TRY(auto policy, co_await off_the_loop(api, request, [&](const Limits& limits) -> Result<policy::SendPolicy> {
           TRY(const auto body, body_of(request, limits));
           return policy::parse_send_policy(body, "");
         }));
  // No wait from here on, until the change is under way.
  const std::string current = policy_etag(policy::to_json(api.ledger.rules().send_policy));
  if (match != "*" && match != "\"" + current + "\"" && match != current) {
    co_return std::unexpected(
        Problem{.code = Code::precondition_failed, .detail = "the policy was changed meanwhile", .etag = current});
  }
  const std::string text = policy::to_json(policy);
  // One PUT at a time: the policy that If-Match was compared with stays in force until the file is written.
  if (std::exchange(api.policy_is_changing, true))
    co_return fail(Code::precondition_failed, "another request is changing the policy");
  auto written = co_await on_disk(api, [path = api.ledger.parts().env.paths.state_dir() / "policy.json", text] {
    return store::replace_file(path, text + "\n");
  });
  api.policy_is_changing = false;
  if (!written) co_return std::unexpected(std::move(written.error()));
  api.ledger.rules().send_policy = std::move(policy);
  CO_TRY(co_await api.ledger.announce(journal::EventType::policy_changed, "{\"policy\":" + text + "}",
                                      request.principal.id));
  co_return policy_response(text);
}

// One case of an evaluation.
struct Case {
  std::string key;
  policy::SendCall call;
  sessions::RawEntry entry{};  // the session with this key, if the token may see it; else null
};
Case read_case(Fields& fields) {
  Case out;
  out.key = fields.string("sessionKey", 512).value_or("");
  out.call.channel = fields.string("channel", 512);
  out.call.chat_type = fields.string("chatType", 512);
  out.call.to = fields.string("to", 512);
  out.call.account_id = fields.string("accountId", 512);
  return out;
}

// Tells whether a case lies within the token's scope. A part that the case leaves out counts as inside, and so does a
// session that was found. A token of role session asks only about those.
bool may_ask(const auth::Principal& principal, const policy::SendQuestion& question, bool found) {
  if (!principal.key.empty()) return found;
  std::string agent(store::parse_key(question.key).agent);
  if (agent.empty() && !principal.agents.empty()) agent = principal.agents.front();
  return principal.sees(agent, question.key.empty() ? principal.key_prefix : question.key,
                        question.channel.empty() ? principal.channel : question.channel);
}

// Reads the sessions that the cases name, agent by agent.
asio::awaitable<Result<void>> look_up(Api& api, const http::Request& request, std::vector<Case>& cases) {
  std::map<std::string, std::vector<std::pair<Case*, std::string>>> asked;  // with the keys as the cases give them
  for (Case& one : cases) {
    const std::string agent(store::parse_key(one.key).agent);
    if (!agent.empty() && request.principal.sees_agent(agent)) asked[agent].emplace_back(&one, one.key);
  }
  for (const auto& [agent, of_agent] : asked) {
    const auto found = co_await api.ledger.show(
        agent, false, [&](const decide::AgentState& state, ledger::Seen& seen) -> Result<bool> {
          for (const auto& [one, key] : of_agent) {
            const decide::AgentState* memory = api.ledger.parts().memory.holding(agent, key);
            const decide::AgentState& holding = memory == nullptr ? state : *memory;
            const auto session = visible(holding, {.key = key}, request.principal);
            one->entry.reset();
            if (session)
              one->entry = std::make_shared<const std::string>(
                  decide::entry_before_takeover(holding, **session, *(*session)->entry()));
            one->key = session ? (*session)->key() : key;
            if (session && of_agent.size() == 1) seen.only(**session, key);
          }
          return true;
        });
    if (!found && found.error().code != Code::agent_not_found) co_return std::unexpected(found.error());
  }
  co_return Result<void>{};
}

// The trace reveals rules, so it is only for tokens that may read the policy.
Result<std::string> evaluate_case(const http::Request& request, const policy::SendPolicy& policy, const Case& asked,
                                  bool with_trace, bool trace_of_one) {
  const std::string_view entry = asked.entry ? std::string_view(*asked.entry) : "{}";
  const policy::SendQuestion question = policy::send_question(asked.key, json::Index(entry), asked.call);
  if (!may_ask(request.principal, question, asked.entry != nullptr))
    return fail(Code::forbidden, "this token may ask only about sessions within its scope");
  return policy::to_json(policy::evaluate(policy, question, with_trace), with_trace || trace_of_one);
}

struct Evaluation {
  std::optional<policy::SendPolicy> policy{};  // nothing: the one in force
  std::optional<bool> trace{};
  std::vector<Case> cases{};
  bool is_list = false;
};

Result<Evaluation> read_evaluation(http::Request& request, const Limits& limits) {
  TRY(auto fields, fields_of(request, limits));
  Evaluation out;
  if (const auto given = fields.object("policy")) {
    TRY(out.policy, policy::parse_send_policy(*given, "/policy"));
  }
  out.trace = fields.boolean("trace");
  out.is_list = fields.has("cases");
  if (!out.is_list) {
    out.cases.push_back(read_case(fields));
    TRY(fields.done());
    return out;
  }
  const auto cases = fields.array("cases");
  TRY(fields.done());
  for (const auto element : json::elements(cases.value_or("[]"))) {
    if (out.cases.size() == limits::evaluated_cases)
      return fail_at("/cases", fmt::format("more than {} cases", limits::evaluated_cases));
    TRY(auto one, Fields::of(element, fmt::format("/cases/{}", out.cases.size())));
    out.cases.push_back(read_case(one));
    TRY(one.done());
  }
  return out;
}

HandlerResult evaluate_policy(Api& api, http::Request& request) {
  CO_TRY(auto evaluation,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_evaluation(request, limits); }));
  auto& [given, trace, asked, is_list] = evaluation;
  const bool with_trace = given.has_value() || request.principal.sees_everything();
  const policy::SendPolicy policy = given ? *std::move(given) : api.ledger.rules().send_policy;
  if (!is_list) {
    CO_TRY(co_await look_up(api, request, asked));
    const bool told = trace.value_or(true);
    CO_TRY(auto result, evaluate_case(request, policy, asked.front(), with_trace && told, told));
    co_return json_response(std::move(result));
  }
  CO_TRY(co_await look_up(api, request, asked));
  const std::size_t product = asked.size() * policy.rules.size();
  const bool traced = with_trace && trace.value_or(false);
  const std::size_t most = traced ? limits::traced_rules : limits::evaluated_rules;
  if (product > most) {
    co_return fail_at("/cases", fmt::format("{} cases of {} rules: at most {} rules are evaluated at once{}",
                                            asked.size(), policy.rules.size(), most, traced ? " with a trace" : ""));
  }
  std::string out = "{\"results\":[";
  std::size_t rules = 0;
  std::size_t bytes = 0;
  for (const Case& one : asked) {
    CO_TRY(auto result, evaluate_case(request, policy, one, traced, trace.value_or(false)));
    append_element(out, result);
    rules += policy.rules.size();
    bytes += one.entry ? one.entry->size() : 0;
    if (rules < limits::slice_rules && bytes < limits::slice_bytes) continue;
    rules = bytes = 0;
    co_await asio::post(api.ledger.parts().env.io, asio::use_awaitable);
  }
  co_return json_response(out + "]}");
}

HandlerResult session_policy(Api& api, const http::Request& request, SessionPath path) {
  const auto show = [&](const decide::AgentState& state, ledger::Seen& seen) -> Result<http::Response> {
    TRY(const decide::Session* session, visible(state, path.target, request.principal));
    seen.only(*session, path.target.key);
    const std::string text = decide::entry_before_takeover(state, *session, *session->entry());
    const json::Index entry(text);
    json::ObjectWriter body;
    body.string("action", entry.string_at("sendPolicy").value_or("inherit"));
    body.raw("effective", policy::to_json(policy::evaluate(api.ledger.rules().send_policy, session->key(), entry, {})));
    http::Response response = as_of_response(api, body.text(), seen.seq());
    set_etag(response, decide::etag(*session));
    return response;
  };
  co_return co_await ledger::show_of(api.ledger, path.agent, path.target.key, false, show);
}

HandlerResult get_session_policy(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  co_return co_await session_policy(api, request, std::move(path));
}

HandlerResult put_session_policy(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::required));
  CO_TRY(auto fields, co_await body_fields(api, request));
  const auto action = fields.one_of("action", {"allow", "deny", "inherit"});
  if (!fields.has("action")) fields.fault("action", "is needed");
  CO_TRY(fields.done());
  decide::PatchSession command{
      .target = path.target,
      .patch = fmt::format(R"({{"sendPolicy":{}}})", *action == "inherit" ? "null" : json::quote(*action))};
  CO_TRY(co_await commit(api, request, path.agent, std::move(command)));
  co_return co_await session_policy(api, request, std::move(path));
}

}  // namespace

void add_policy_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string of_session = "/v1/agents/{agent}/sessions/{key}/send-policy";
  on("GET", "/v1/policy/send", auth::Permission::read, get_policy);
  on("PUT", "/v1/policy/send", auth::Permission::policy, put_policy);
  on("POST", "/v1/policy/evaluate", auth::Permission::read, evaluate_policy);
  on("GET", of_session, auth::Permission::read, get_session_policy);
  on("PUT", of_session, auth::Permission::write, put_session_policy);
}

}  // namespace sessiond::api
