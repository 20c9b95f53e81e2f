#include "daemon/api/handler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <ranges>

#include "policy/secret_scan.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/number.hpp"

namespace sessiond::api {
namespace {

// The scope of an Idempotency-Key: principal, method, path and key. The path is made of the route and its decoded
// parameters, so that two spellings of one path are the same scope.
ledger::IdempotencyScope scope_of(const http::Request& request, std::string_view key) {
  ledger::IdempotencyScope scope;
  std::string path;
  std::size_t param = 0;
  for (std::string_view rest = request.pattern; !rest.empty();) {
    const std::size_t begin = rest.find('{');
    path += rest.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const std::size_t end = rest.find('}', begin) + 1;
    const std::string_view name = rest.substr(begin, end - begin);
    const std::string& value = request.params.at(param++);
    if (name == "{key}") {
      scope.session = value;
      scope.before = std::exchange(path, {});
    } else {
      path += name == "{agent}" ? store::normalize_agent_id(value).value_or(value) : value;
    }
    rest.remove_prefix(end);
  }
  scope.after = std::move(path);
  scope.before.insert(0, request.principal.id + '\0' + request.method + '\0');
  scope.after.append(1, '\0').append(key);
  return scope;
}

// The parts of a request that must be the same when it is sent again: body, query (in any order), If-Match.
std::string repeatable_part(const http::Request& request, std::string_view body) {
  std::string part(body.empty() ? std::string_view(request.body) : body);
  const std::multimap<std::string, std::string> query(request.query.begin(), request.query.end());
  for (const auto& [name, value] : query)
    part += fmt::format("{0}{1}:{2}={3}:{4}", '\0', name.size(), name, value.size(), value);
  if (const std::string_view match = store::trim(request.header("if-match")); !match.empty())
    part.append(1, '\0').append("If-Match: ").append(match);
  return part;
}

bool is_json_type(std::string_view type) {
  if (type == "application/json") return true;  // most
  type = store::trim(type.substr(0, type.find(';')));
  const std::string media = store::lower(type);
  return media.empty() || media == "application/json" || media == "application/merge-patch+json" ||
         media.ends_with("+json");
}

}  // namespace

void add_routes(http::Router& router, Api& api) {
  for (const auto add :
       {add_health_routes,    add_agent_routes,  add_list_routes,      add_session_routes,     add_archive_routes,
        add_lifecycle_routes, add_last_routes,   add_fork_routes,      add_message_routes,     add_context_routes,
        add_export_routes,    add_import_routes, add_inbound_routes,   add_bridge_routes,      add_takeover_routes,
        add_run_routes,       add_runner_routes, add_approval_routes,  add_hook_routes,        add_delivery_routes,
        add_policy_routes,    add_event_routes,  add_ticket_routes,    add_admin_routes,       add_maintenance_routes,
        add_lock_routes,      add_login_routes,  add_schema_routes,    add_session_log_routes, add_run_work_routes,
        add_blob_routes,      add_search_routes, add_dashboard_routes, add_snapshot_routes,    add_mcp_routes})
    add(router, api);
  router.show_problems(as_seen);
}

http::Response json_response(std::string body, int status) {
  http::Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

http::Response no_content() {
  http::Response response = json_response("", 204);
  response.content_type = {};
  return response;
}

Result<std::optional<decide::RunHold>> run_of(const http::Request& request) {
  const std::string_view header = request.header("x-run");
  const auto is_it = [](const auto& one) { return one.first == "x-run"; };
  if (header.empty() && std::ranges::none_of(request.headers, is_it)) return std::nullopt;
  const std::size_t semicolon = header.rfind(';');
  const auto fence = semicolon == std::string_view::npos
                         ? std::nullopt
                         : store::parse_number<std::uint64_t>(store::trim(header.substr(semicolon + 1)));
  const std::string_view id = store::trim(header.substr(0, std::min(semicolon, header.size())));
  if (!fence || !store::valid_entry_id(id))
    return fail(Code::bad_request, "X-Run must be <runId>;<fence>, as the run's lease has them");
  return decide::RunHold{.run_id = std::string(id), .fence = *fence};
}

Result<std::string> client_of(const http::Request& request) {
  const std::string_view client = store::trim(request.header("sessiond-client"));
  if (client.empty() || store::valid_entry_id(client)) return std::string(client);
  return fail(Code::bad_request, "Sessiond-Client " + std::string(client_rule));
}

std::function<bool()> has_gone(const Api& api, const http::Request& request) {
  return [&api, &request] {
    if (request.client_gone && request.client_gone()) return true;
    const std::string& id = request.principal.id;
    return id != "local" && !api.tokens.principal(id, store::unix_ms());
  };
}

journal::Envelope envelope_about(const Api& api, const decide::AgentState& state, const decide::Session& session) {
  return {.agent = state.id(),
          .key = session.key(),
          .session_id = session.session_id,
          .channel = session.channel,
          .channels = session.channels,
          .chat_type = session.chat_type,
          .lineage = api.ledger.parts().env.lineage.of(state, session)};
}

http::Response to_response(ledger::Reply reply) {
  http::Response response;
  response.status = reply.status;
  if (reply.status >= 400) response.content_type = "application/problem+json";
  if (reply.status == 204) response.content_type = {};
  if (!reply.etag.empty()) set_etag(response, reply.etag);
  if (!reply.location.empty()) response.headers.emplace_back("Location", std::move(reply.location));
  if (reply.replayed) response.headers.emplace_back("Idempotency-Replayed", "true");
  response.body = std::move(reply.body);
  return response;
}

Result<std::string> agent_param(const http::Request& request) {
  const auto agent = store::normalize_agent_id(request.params.at(0));
  // An agent id becomes the name of a folder, and a token that was pasted into the path must not.
  if (!agent || policy::find_secret(request.params.at(0)))
    return fail(Code::agent_not_found, fmt::format("{} is not a valid agent id", json::quote(request.params.at(0))));
  if (!request.principal.sees_agent(*agent))
    return fail(Code::forbidden, fmt::format("this token has no access to agent {}", *agent));
  return *agent;
}

Result<SessionPath> session_path(const http::Request& request, const Api& api, Match wanted) {
  SessionPath path;
  TRY(path.agent, agent_param(request));
  path.target.key = request.params.at(1);
  if (path.target.key.size() > 512) return fail(Code::session_not_found, "a session key has at most 512 bytes");
  if (wanted == Match::ignored) return path;
  const std::string_view match = store::trim(request.header("if-match"));
  if (match.empty() && wanted == Match::required && api.config.api.require_if_match)
    return fail(Code::precondition_required, "this daemon requires If-Match on writes (api.requireIfMatch)");
  for (const auto part : std::views::split(match, ',')) {
    std::string_view one = store::trim(std::string_view(part));
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one.size() >= 2 && one.front() == '"' && one.back() == '"') one = one.substr(1, one.size() - 2);
    if (!one.empty()) path.target.if_match.emplace_back(one);
    if (path.target.if_match.size() > limits::if_match_tags)
      return fail(Code::bad_request, fmt::format("If-Match names more than {} versions", limits::if_match_tags));
  }
  return path;
}

Result<std::string_view> body_of(http::Request& request, const Limits& limits, Body body) {
  if (request.body.empty() && body == Body::optional) return std::string_view{};
  if (!is_json_type(request.header("content-type")))
    return fail(Code::unsupported_media_type,
                fmt::format("this route takes application/json, not {}", request.header("content-type")));
  const std::size_t depth = limits.json_depth;
  if (!request.checked || request.checked->max_depth != depth) request.checked = http::check_json(request.body, depth);
  if (const auto& fine = request.checked->result; !fine)
    return fail(Code::bad_request,
                fmt::format("the body is not JSON at byte {}: {}", fine.error().offset, fine.error().detail));
  if (std::exchange(request.checked->line_ends, false)) {
    request.checked->members.clear();      // which view the text as it was
    json::escape_line_ends(request.body);  // what is stored of it has them as escapes
  }
  return store::trim(request.body);
}

std::span<const json::Member> members_of(const http::Request& request, std::string_view body,
                                         std::vector<json::Member>& held) {
  if (!request.checked->members.empty()) return request.checked->members;
  held = json::all_members(body);
  return held;
}

void check_again(http::Request& request, const Limits& limits) {
  request.checked.reset();
  if (is_long(request)) request.checked = http::check_json(request.body, limits.json_depth);
}

Result<Fields> fields_of(http::Request& request, const Limits& limits, Body body) {
  TRY(const std::string_view object, body_of(request, limits, body));
  if (object.empty()) return Fields::of(object);
  return Fields::of(object, request.checked->members);
}

asio::awaitable<Result<Fields>> body_fields(const Api& api, http::Request& request, Body body) {
  return off_the_loop(api, request,
                      [&request, body](const Limits& limits) { return fields_of(request, limits, body); });
}

std::filesystem::path sessions_folder(const Api& api, const std::string& agent) {
  const ledger::Paths& paths = api.ledger.parts().env.paths;
  return paths.root() / paths.sessions_dir(agent);
}

asio::awaitable<Result<transcripts::TranscriptTail>> transcript_tail(Api& api, std::string agent, std::string file) {
  return api.ledger.read_transcript(
      std::move(agent), std::move(file),
      [](transcripts::Transcript& transcript) -> Result<transcripts::TranscriptTail> { return transcript.tail(); });
}

http::Response as_of_response(std::string body, std::string_view as_of) {
  assert(body.ends_with('}'));
  body.pop_back();
  body.append(body.size() > 1 ? R"(,"asOf":")" : R"("asOf":")").append(as_of).append("\"}");
  return json_response(std::move(body));
}

http::Response as_of_response(const Api& api, std::string body, std::uint64_t last_seq) {
  return as_of_response(std::move(body), api.ledger.as_of(last_seq));
}

void set_etag(http::Response& response, std::string_view tag) {
  std::string quoted;
  quoted.reserve(tag.size() + 2);
  quoted.append(1, '"').append(tag).append(1, '"');
  response.headers.emplace_back("ETag", std::move(quoted));
}

void append_element(std::string& list, std::string_view element) {
  begin_element(list);
  list += element;
}

void begin_element(std::string& list) {
  assert(!list.empty());
  if (list.back() != '[') list += ',';
}

std::string page_end(std::string_view next, bool has_more) {
  return fmt::format(R"(],"page":{{"next":{},"hasMore":{}}})", next.empty() ? "null" : json::quote(next), has_more);
}

bool is_safe(std::string_view method) { return method == "GET" || method == "HEAD" || method == "OPTIONS"; }

bool wants_fresh(const http::Request& request) {
  return request.header("cache-control").find("no-cache") != std::string_view::npos;
}

asio::awaitable<Result<ledger::Requester>> requester_of(const Api& api, const http::Request& request,
                                                        std::string body_key, std::string_view body) {
  ledger::Requester requester{.actor = request.principal.id, .scope = {}, .request = {}, .respond_async = false};
  requester.respond_async = request.header("prefer").find("respond-async") != std::string_view::npos;
  std::string_view key = request.header("idempotency-key");
  if (key.size() >= 2 && key.front() == '"' && key.back() == '"')
    key = key.substr(1, key.size() - 2);  // structured-field string
  if (!body_key.empty()) {
    if (!key.empty() && key != body_key)
      co_return fail_at("/idempotencyKey", "differs from the Idempotency-Key header");
    key = body_key;
  }
  if (key.empty()) {
    if (std::ranges::any_of(request.headers, [](const auto& header) { return header.first == "idempotency-key"; })) {
      co_return fail(Code::bad_request, "Idempotency-Key is empty");
    }
    co_return requester;
  }
  if (key.size() > 255) co_return fail(Code::bad_request, "Idempotency-Key is longer than 255 bytes");
  requester.scope = scope_of(request, key);
  requester.request = co_await off_the_loop(
      api, request, [&](const Limits&) { return answers::digest(repeatable_part(request, body)); });
  co_return requester;
}

Result<std::optional<bool>> query_bool(const http::Request& request, std::string_view name) {
  const std::string* text = request.query_value(name);
  if (text == nullptr) return std::optional<bool>{};
  if (*text == "true" || *text == "1" || text->empty()) return true;
  if (*text == "false" || *text == "0") return false;
  return fail(Code::bad_request, fmt::format("{} must be true or false", name));
}

std::string degraded_member(const auth::Principal& principal, const std::vector<std::string>& agents) {
  if (agents.empty()) return {};
  std::string out = ",\"degraded\":[";
  for (const std::string& agent : agents) {
    if (principal.sees_whole_agent(agent)) append_element(out, json::quote(agent));
  }
  return out.back() == '[' ? "" : out + "]";
}

std::optional<std::string> query_text(const http::Request& request, std::string_view name) {
  const std::string* text = request.query_value(name);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

Result<std::string_view> query_choice(const http::Request& request, std::string_view name,
                                      std::initializer_list<std::string_view> choices) {
  const std::string* text = request.query_value(name);
  if (text == nullptr) return *choices.begin();
  if (const auto* found = std::ranges::find(choices, *text); found != choices.end()) return *found;
  return fail(Code::bad_request, fmt::format("{} must be one of {}", name, fmt::join(choices, ", ")));
}

Result<std::size_t> page_limit(const http::Request& request) {
  TRY(const auto limit, query_int(request, "limit", 1, 200));
  return static_cast<std::size_t>(limit.value_or(50));
}

Result<std::vector<std::string>> query_names(const http::Request& request, std::string_view name) {
  std::vector<std::string> names;
  const auto text = query_text(request, name);
  if (!text) return names;
  TRY(names, http::names_in(*text, name));
  if (text->ends_with(',')) names.pop_back();
  std::ranges::sort(names);
  return names;
}

}  // namespace sessiond::api
