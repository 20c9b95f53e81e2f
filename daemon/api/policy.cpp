// The send policy: of a session, of the daemon (policy.json stands before the configuration), and trying one out (API
// §5).
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <map>

#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/decide/view.hpp"
#include "daemon/runtime/hop.hpp"
#include "policy/send_policy.hpp"
#include "store/files.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"

namespace sessiond {
namespace {

std::string policy_etag(const std::string& policy) { return fmt::format("p{:016x}", std::hash<std::string>{}(policy)); }

Served get_policy(Api& api, Request& request) {
  if (!request.principal.sees_everything())  // its rules name channels, keys and people
    co_return fail(Code::forbidden, "only a token that sees everything may read the policy");
  const std::string policy = to_json(api.ledger.rules().send_policy);
  Response response = json_response(policy);
  response.headers.emplace_back("ETag", "\"" + policy_etag(policy) + "\"");
  co_return response;
}

Served put_policy(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may change the policy");
  std::string_view match = trim(request.header("if-match"));
  if (match.empty())
    co_return fail(Code::precondition_required, "If-Match is needed: GET /v1/policy/send tells the current ETag");
  const std::string current = policy_etag(to_json(api.ledger.rules().send_policy));
  if (match != "*" && match != "\"" + current + "\"" && match != current) {
    co_return std::unexpected(
        Problem{.code = Code::precondition_failed, .detail = "the policy was changed meanwhile", .etag = current});
  }
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto policy = parse_send_policy(*body, "");
  if (!policy) co_return std::unexpected(std::move(policy.error()));
  const std::string text = to_json(*policy);
  // One at a time: while the file is written, the version that was compared is still the one that holds.
  if (std::exchange(api.policy_is_changing, true))
    co_return fail(Code::precondition_failed, "the policy is just being changed");
  auto written = co_await hop(api.ledger.disk().get_executor(), [path = api.ledger.paths().state_dir() / "policy.json",
                                                                 text] { return replace_file(path, text + "\n"); });
  api.policy_is_changing = false;
  if (!written) co_return std::unexpected(std::move(written.error()));
  api.ledger.rules().send_policy = std::move(*policy);
  auto told =
      co_await api.ledger.announce(EventType::policy_changed, "{\"policy\":" + text + "}", request.principal.id);
  if (!told) co_return std::unexpected(std::move(told.error()));
  Response response = json_response(text);
  response.headers.emplace_back("ETag", "\"" + policy_etag(text) + "\"");
  co_return response;
}

// One case of an evaluation, from its fields.
struct Case {
  std::string key;
  SendCall call;
  RawEntry entry{};  // of the session with this key, if the token sees one
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

// Whether a case lies within the token's scope; what the case leaves out is taken to.
bool may_ask(const Principal& principal, const SendQuestion& question) {
  std::string agent(parse_key(question.key).agent);
  if (agent.empty() && !principal.agents.empty()) agent = principal.agents.front();
  return principal.sees(agent, question.key.empty() ? principal.key_prefix : question.key,
                        question.channel.empty() ? principal.channel : question.channel);
}

// Reads the sessions that cases ask about, agent by agent.
asio::awaitable<Result<void>> look_up(Api& api, const Request& request, std::vector<Case>& cases) {
  std::map<std::string, std::vector<std::pair<Case*, std::string>>> asked;  // with the keys as they were asked for
  for (Case& one : cases) {
    const std::string agent(parse_key(one.key).agent);
    if (!agent.empty() && request.principal.sees_agent(agent)) asked[agent].emplace_back(&one, one.key);
  }
  for (const auto& [agent, of_agent] : asked) {
    const auto found = co_await api.ledger.show(agent, false, [&](const AgentState& state, Seen& seen) -> Result<bool> {
      for (const auto& [one, key] : of_agent) {
        const auto session = visible(state, {.key = key}, request.principal);
        one->entry = session ? (*session)->entry() : RawEntry{};
        one->key = session ? (*session)->key() : key;
        if (session && of_agent.size() == 1) seen.only(**session, key);
      }
      return true;
    });
    if (!found && found.error().code != Code::agent_not_found) co_return std::unexpected(found.error());
  }
  co_return Result<void>{};
}

// The trace tells what the rules say: only to who may read them.
Result<std::string> evaluate_case(const Request& request, const SendPolicy& policy, const Case& asked, bool with_trace,
                                  bool trace_of_one) {
  const SendQuestion question = send_question(asked.key, asked.entry ? *asked.entry : std::string_view(), asked.call);
  if (!may_ask(request.principal, question))
    return fail(Code::forbidden, "this token may only ask about what lies within its scope");
  return to_json(evaluate(policy, question, with_trace), with_trace || trace_of_one);
}

Served evaluate_policy(Api& api, Request& request) {
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  SendPolicy policy = api.ledger.rules().send_policy;
  const auto given = fields->object("policy");
  const bool with_trace = given.has_value() || request.principal.sees_everything();
  if (given) {
    auto parsed = parse_send_policy(*given, "/policy");
    if (!parsed) co_return std::unexpected(std::move(parsed.error()));
    policy = std::move(*parsed);
  }
  const auto trace = fields->boolean("trace");
  if (!fields->has("cases")) {
    std::vector<Case> asked{read_case(*fields)};
    if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
    if (auto fine = co_await look_up(api, request, asked); !fine) co_return std::unexpected(std::move(fine.error()));
    const bool told = trace.value_or(true);
    auto result = evaluate_case(request, policy, asked.front(), with_trace && told, told);
    if (!result) co_return std::unexpected(std::move(result.error()));
    co_return json_response(std::move(*result));
  }
  const auto cases = fields->array("cases");
  if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  std::vector<Case> asked;
  for (const auto element : json::elements(cases.value_or("[]"))) {
    if (asked.size() == limits::evaluated_cases)
      co_return fail_at("/cases", fmt::format("more than {} cases", limits::evaluated_cases));
    auto one = Fields::of(element, fmt::format("/cases/{}", asked.size()));
    if (!one) co_return std::unexpected(std::move(one.error()));
    asked.push_back(read_case(*one));
    if (auto fine = one->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  }
  if (auto fine = co_await look_up(api, request, asked); !fine) co_return std::unexpected(std::move(fine.error()));
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
    auto result = evaluate_case(request, policy, one, traced, trace.value_or(false));
    if (!result) co_return std::unexpected(std::move(result.error()));
    out.append(out.back() == '[' ? "" : ",").append(*result);
    rules += policy.rules.size();
    bytes += one.entry ? one.entry->size() : 0;
    if (rules < limits::slice_rules && bytes < limits::slice_bytes) continue;
    rules = bytes = 0;
    co_await asio::post(api.ledger.io(), asio::use_awaitable);
  }
  co_return json_response(out + "]}");
}

Served session_policy(Api& api, const Request& request, const std::string& agent, const Target& target) {
  co_return co_await api.ledger.show(agent, false, [&](const AgentState& state, Seen& seen) -> Result<Response> {
    auto session = visible(state, target, request.principal);
    if (!session) return std::unexpected(std::move(session.error()));
    seen.only(**session, target.key);
    const std::string action = json::string_at(*(*session)->entry(), "sendPolicy").value_or("inherit");
    const SendDecision decision =
        evaluate(api.ledger.rules().send_policy, send_question((*session)->key(), *(*session)->entry(), {}));
    Response response = json_response(fmt::format(R"({{"action":{},"effective":{},"asOf":"{}"}})", json::quote(action),
                                                  to_json(decision), api.ledger.as_of(seen.seq())));
    response.headers.emplace_back("ETag", "\"" + etag(**session) + "\"");
    return response;
  });
}

Served get_session_policy(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto target = target_param(request, api, Match::ignored);
  if (!target) co_return std::unexpected(std::move(target.error()));
  co_return co_await session_policy(api, request, *agent, *target);
}

Served put_session_policy(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto target = target_param(request, api, Match::required);
  if (!target) co_return std::unexpected(std::move(target.error()));
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  const auto action = fields->one_of("action", {"allow", "deny", "inherit"});
  if (!fields->has("action")) fields->fault("action", "is needed");
  if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  PatchSession command{
      .target = *target,
      .patch = fmt::format(R"({{"sendPolicy":{}}})", *action == "inherit" ? "null" : json::quote(*action))};
  auto reply = co_await api.ledger.commit(*agent, {.actor = request.principal.id},
                                          scoped(std::move(command), request.principal));
  if (!reply) co_return std::unexpected(std::move(reply.error()));
  target->if_match.clear();
  co_return co_await session_policy(api, request, *agent, *target);
}

}  // namespace

void add_policy_routes(Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string of_session = "/v1/agents/{agent}/sessions/{key}/send-policy";
  on("GET", "/v1/policy/send", Permission::read, get_policy);
  on("PUT", "/v1/policy/send", Permission::policy, put_policy);
  on("POST", "/v1/policy/evaluate", Permission::read, evaluate_policy);
  on("GET", of_session, Permission::read, get_session_policy);
  on("PUT", of_session, Permission::write, put_session_policy);
}

}  // namespace sessiond
