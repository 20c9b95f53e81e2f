#include "daemon/api/handler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "policy/secret_scan.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"

namespace sessiond {
namespace {

// As decisions say it (resolve).
std::string no_such_session(std::string_view agent, std::string_view key) {
  return fmt::format("agent {} has no session {}", agent, key);
}

// Principal, method, path and key. The path is made from the route and its decoded parameters: one that is spelt in
// another way is the same path.
IdempotencyScope scope_of(const Request& request, std::string_view key) {
  IdempotencyScope scope;
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
      path += name == "{agent}" ? normalize_agent_id(value).value_or(value) : value;
    }
    rest.remove_prefix(end);
  }
  scope.after = std::move(path);
  scope.before.insert(0, request.principal.id + '\0' + request.method + '\0');
  scope.after.append(1, '\0').append(key);
  return scope;
}

// All that says what is asked for: the body, the query in any order, If-Match.
std::string said_by(const Request& request) {
  std::string said = request.body;
  auto query = request.query;
  std::ranges::stable_sort(query, {}, &std::pair<std::string, std::string>::first);
  for (const auto& [name, value] : query)
    said += fmt::format("{0}{1}:{2}={3}:{4}", '\0', name.size(), name, value.size(), value);
  if (const std::string_view match = trim(request.header("if-match")); !match.empty())
    said.append(1, '\0').append("If-Match: ").append(match);
  return said;
}

}  // namespace

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~:").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Response json_response(std::string body, int status) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

Response no_content() {
  Response response = json_response("", 204);
  response.content_type.clear();
  return response;
}

Response to_response(Reply reply) {
  Response response;
  response.status = reply.status;
  if (reply.status >= 400) response.content_type = "application/problem+json";
  if (reply.status == 204) response.content_type.clear();
  if (!reply.etag.empty()) response.headers.emplace_back("ETag", "\"" + reply.etag + "\"");
  if (!reply.location.empty()) response.headers.emplace_back("Location", std::move(reply.location));
  if (reply.replayed) response.headers.emplace_back("Idempotency-Replayed", "true");
  response.body = std::move(reply.body);
  return response;
}

Result<std::string> agent_param(const Request& request) {
  const auto agent = normalize_agent_id(request.params.at(0));
  // An id becomes the name of a folder: a token that came into the path by mistake must not.
  if (!agent || find_secret(request.params.at(0)))
    return fail(Code::agent_not_found, fmt::format("{} is no agent id", json::quote(request.params.at(0))));
  if (!request.principal.sees_agent(*agent))
    return fail(Code::forbidden, fmt::format("this token has no access to agent {}", *agent));
  return *agent;
}

Result<Target> target_param(const Request& request, const Api& api, Match wanted) {
  Target target{.key = request.params.at(1), .if_match = {}};
  if (target.key.size() > 512) return fail(Code::session_not_found, "a session key has at most 512 bytes");
  std::string_view match = trim(request.header("if-match"));
  if (wanted != Match::ignored) {
    if (match.empty() && wanted == Match::required && api.config.api.require_if_match)
      return fail(Code::precondition_required, "this daemon wants If-Match on writes");
    while (!match.empty()) {
      std::string_view one = trim(match.substr(0, match.find(',')));
      match = match.find(',') == std::string_view::npos ? "" : match.substr(match.find(',') + 1);
      if (one.starts_with("W/")) one.remove_prefix(2);
      if (one.size() >= 2 && one.front() == '"' && one.back() == '"') one = one.substr(1, one.size() - 2);
      if (!one.empty()) target.if_match.emplace_back(one);
      if (target.if_match.size() > limits::if_match_tags)
        return fail(Code::bad_request, fmt::format("If-Match names more than {} versions", limits::if_match_tags));
    }
  }
  return target;
}

Result<const Session*> visible(const AgentState& state, const Target& target, const Principal& principal) {
  const Session* session = state.find(target.key);
  if (session == nullptr || !principal.sees(state.id(), session->key(), session->channel)) {
    return fail(Code::session_not_found, no_such_session(state.id(), target.key));
  }
  return session;
}

bool sees_archives(const Principal& principal, const AgentState& state, std::string_view session_id) {
  if (principal.sees_whole_agent(state.id())) return true;
  const auto records = state.archives.of_id(session_id);
  return !records.empty() && std::ranges::all_of(records, [&](const ArchiveRecord* record) {
    return !record->key.empty() && principal.sees(state.id(), record->key, record->channel);
  });
}

Problem as_seen(Problem problem, const Request& request) {
  const bool about_agent = problem.code == Code::agent_not_found || problem.code == Code::degraded;
  if (!about_agent || request.params.size() < 2) return problem;  // not about a session
  const auto agent = normalize_agent_id(request.params[0]);
  if (!agent || request.principal.sees_whole_agent(*agent)) return problem;
  if (problem.code == Code::degraded) {
    problem.detail = "this session cannot be served now";
    return problem;
  }
  return {.code = Code::session_not_found, .detail = no_such_session(*agent, request.params[1])};
}

const Session* session_named(const AgentState& state, const Target& target) { return state.find(target.key); }

const Session* session_named(const AgentState& state, const CreateSession& command) {
  const auto made = canonical_key(command.key, state.id());
  for (const std::string& key : {command.key, made.value_or("")}) {
    const Session* there = key.empty() ? nullptr : state.find_key(key);
    if (there != nullptr) return there;
  }
  return nullptr;
}

Result<Decision> within_scope(Result<Decision> decided, const Principal& principal) {
  if (!decided || decided->events.empty()) return decided;
  const Envelope& about = decided->events.back().envelope;  // as the session is then; a decision is about one
  if (principal.sees_whole_agent(about.agent)) return decided;
  if (!principal.sees(about.agent, about.key, about.channel))
    return fail(Code::forbidden, fmt::format("{} would then lie outside what this token may see", about.key));
  for (const Event& event : decided->events) {
    for (const std::string_view part : {"set", "entry"}) {
      const std::string_view fields = json::find(event.data, part).value_or("{}");
      if (json::find(fields, "sessionFile"))
        return fail(Code::forbidden, "a token with a key prefix or channel may not name a sessionFile");
      const std::string_view delivery = json::find(fields, "deliveryContext").value_or("{}");
      for (const auto& channel : {json::string_at(delivery, "channel"), json::string_at(fields, "lastChannel")}) {
        if (channel && !principal.channel.empty() && !equals_nocase(trim(*channel), principal.channel))
          return fail(Code::forbidden,
                      fmt::format("this token may not have {} answered in another channel", about.key));
      }
    }
  }
  return decided;
}

bool wants_fresh(const Request& request) {
  return request.header("cache-control").find("no-cache") != std::string_view::npos;
}

Result<Intent> intent_of(const Request& request, std::string_view body_key) {
  Intent intent{.actor = request.principal.id, .scope = {}, .request = {}, .respond_async = false};
  intent.respond_async = request.header("prefer").find("respond-async") != std::string_view::npos;
  std::string_view key = request.header("idempotency-key");
  if (key.size() >= 2 && key.front() == '"' && key.back() == '"')
    key = key.substr(1, key.size() - 2);  // structured-field string
  if (!body_key.empty()) {
    if (!key.empty() && key != body_key) return fail_at("/idempotencyKey", "differs from the Idempotency-Key header");
    key = body_key;
  }
  if (key.empty()) {
    if (std::ranges::any_of(request.headers, [](const auto& header) { return header.first == "idempotency-key"; })) {
      return fail(Code::bad_request, "Idempotency-Key is empty");
    }
    return intent;
  }
  if (key.size() > 255) return fail(Code::bad_request, "Idempotency-Key is longer than 255 bytes");
  intent.scope = scope_of(request, key);
  intent.request = digest(said_by(request));
  return intent;
}

Result<std::optional<std::int64_t>> query_int(const Request& request, std::string_view name, std::int64_t least,
                                              std::int64_t most) {
  const std::string* text = request.query_value(name);
  if (text == nullptr) return std::optional<std::int64_t>{};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < least || value > most) {
    return fail(Code::bad_request, fmt::format("{} must be a number from {} to {}", name, least, most));
  }
  return value;
}

Result<std::optional<bool>> query_bool(const Request& request, std::string_view name) {
  const std::string* text = request.query_value(name);
  if (text == nullptr) return std::optional<bool>{};
  if (*text == "true" || *text == "1" || text->empty()) return true;
  if (*text == "false" || *text == "0") return false;
  return fail(Code::bad_request, fmt::format("{} must be true or false", name));
}

std::string degraded_member(const Principal& principal, const std::vector<std::string>& agents) {
  if (agents.empty()) return {};
  std::string out = ",\"degraded\":[";
  for (const std::string& agent : agents) {
    if (!principal.sees_whole_agent(agent)) continue;
    out.append(out.back() == '[' ? "" : ",").append(json::quote(agent));
  }
  return out.back() == '[' ? "" : out + "]";
}

std::optional<std::string> query_text(const Request& request, std::string_view name) {
  const std::string* text = request.query_value(name);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

Result<std::vector<std::string>> query_names(const Request& request, std::string_view name) {
  std::vector<std::string> names;
  const auto text = query_text(request, name);
  if (!text) return names;
  if (text->size() > limits::listed_bytes || std::ranges::count(*text, ',') >= std::ptrdiff_t{limits::listed_names}) {
    return fail(Code::bad_request, fmt::format("{} takes at most {} names and {} bytes", name, limits::listed_names,
                                               limits::listed_bytes));
  }
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    names.emplace_back(trim(rest.substr(0, comma)));
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace sessiond
