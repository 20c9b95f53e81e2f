// The parts that handlers are made of. A handler reads a request (its path, query and body), asks the ledger, and
// answers; a step that fails is handed on with CO_TRY, and the router makes the reply of the problem, as the token may
// see it (as_seen):
//
//   HandlerResult archive(Api& api, Request& request) {
//     CO_TRY(auto path, session_path(request, api, Match::honoured));
//     CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
//     CO_TRY(fields.done());
//     co_return co_await commit(api, request, path.agent, ArchiveSession{.target = path.target},
//                               co_await requester_of(api, request));
//   }
//
// Handlers run on the loop's thread. Disk work goes through on_disk(). What looks at each byte of a body goes through
// off_the_loop(): a body of 8 MiB in small members takes a fifth of a second.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <concepts>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/api/api.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/scope.hpp"
#include "daemon/api/secret_check.hpp"
#include "daemon/decide/commands.hpp"
#include "daemon/ledger/show.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/clock.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::api {

// The result of a route's handler: `HandlerResult get(Api& api, Request& request)`.
using HandlerResult = asio::awaitable<Result<http::Response>>;

// How a file adds its routes: `const auto on = adding(router, api); on("GET", "/v1/whoami", Permission::self,
// whoami);`. `route` is the handler, and says what the strings of its body are (secret_check.hpp). `query` names the
// query parameters that the route knows, as openapi.json has them.
inline auto adding(http::Router& router, Api& api) {
  return [&router, &api](const char* method, const std::string& pattern, auth::Permission permission, Entrance route,
                         http::QueryNames query = {}) {
    const auto handle = [&api, route](http::Request& request) { return with_checked_strings(api, request, route); };
    router.add(method, pattern, permission, handle, std::move(query));
  };
}

// --- the path ---

// The session that a path names: /v1/agents/{agent}/sessions/{key}.
struct SessionPath {
  std::string agent;
  decide::Target target;
};
// Whether a route looks at If-Match, and asks for it where api.requireIfMatch is set.
enum class Match : std::uint8_t { ignored, honoured, required };

// {agent} of the path, normalised. Errors: agent_not_found when it is no agent id; forbidden when the token has no
// access to the agent.
Result<std::string> agent_param(const http::Request& request);
// {agent} and {key} of the path; {key} may be a session id. The session need not exist. Errors: those of agent_param;
// session_not_found for a key that is too long; precondition_required, bad_request for If-Match.
Result<SessionPath> session_path(const http::Request& request, const Api& api, Match match = Match::ignored);

// --- the query ---
// Errors: bad_request, naming the parameter. For numbers: http::query_int.

Result<std::optional<bool>> query_bool(const http::Request& request, std::string_view name);
std::optional<std::string> query_text(const http::Request& request, std::string_view name);
// One of `choices`, which are literals; the first one when the parameter is absent.
Result<std::string_view> query_choice(const http::Request& request, std::string_view name,
                                      std::initializer_list<std::string_view> choices);
// Names with commas between, sorted. Empty when absent.
Result<std::vector<std::string>> query_names(const http::Request& request, std::string_view name);
// ?limit= of a list: 1 to 200, 50 when absent.
Result<std::size_t> page_limit(const http::Request& request);

// --- the headers and the body ---

// Cache-Control: no-cache asks to look at the disk before answering.
bool wants_fresh(const http::Request& request);
// GET, HEAD or OPTIONS.
bool is_safe(std::string_view method);

// What a call on a disk thread knows of the limits: a copy, since SIGHUP changes those of the loop.
using Limits = config::Config::Limits;

enum class Body : std::uint8_t { required, optional };
// The JSON body, which is one value, as a view into request.body; an absent optional one is "". Errors:
// unsupported_media_type; bad_request, with the byte where the body stops being JSON. Ends of lines in it become
// escapes (json::escape_line_ends). Call it in off_the_loop().
Result<std::string_view> body_of(http::Request& request, const Limits& limits, Body body = Body::required);
// The body's members. Errors: those of body_of(); validation_failed when it is no object. Call it in off_the_loop().
Result<Fields> fields_of(http::Request& request, const Limits& limits, Body body = Body::required);
// The same, for commands whose fields are short.
asio::awaitable<Result<Fields>> body_fields(const Api& api, http::Request& request, Body body = Body::required);
// For a step that has replaced the body. Call it in off_the_loop().
// Returns the members of a body that body_of() has returned; none of what is not an object. `held` keeps those of a
// long one.
std::span<const json::Member> members_of(const http::Request& request, std::string_view body,
                                         std::vector<json::Member>& held);
void check_again(http::Request& request, const Limits& limits);
// Returns whether the body is so long that it is read on a disk thread.
inline bool is_long(const http::Request& request) { return request.body.size() > limits::checked_here; }

// The token and Idempotency-Key of a request that commits; `body_key` is the key when the body holds one. Errors:
// bad_request for a malformed key; validation_failed when header and body differ.
// `body`: the part of the body that asks for the commit; empty: all of it. `request` and `body` outlive the wait.
asio::awaitable<Result<ledger::Requester>> requester_of(const Api& api, const http::Request& request,
                                                        std::string body_key = {}, std::string_view body = {});

// Tells a request that waits whether to go on: false once its client has closed the connection, or its token is not
// valid any more. `api` and `request` outlive it.
std::function<bool()> has_gone(const Api& api, const http::Request& request);

// --- the ledger ---

http::Response to_response(ledger::Reply reply);

// Tells whether a command is about a session of this state.
template <class Command>
bool is_about_one_of(const decide::AgentState& state, const Command& command) {
  if constexpr (std::same_as<Command, decide::PutSession>) {
    return decide::put_target(state, command) != nullptr;
  } else if constexpr (requires { command.target; }) {
    return session_named(state, command.target) != nullptr;
  } else if constexpr (requires { command.reuse; }) {
    return session_named(state, command) != nullptr;
  } else if constexpr (requires { command.route; }) {
    return state.find_key(command.route.key) != nullptr;
  } else {
    return state.find_key(command.key) != nullptr;
  }
}

// Tells whether a command is about an ephemeral session, and so is committed in memory.
template <class Command>
bool is_in_memory(const Api& api, const std::string& agent, const Command& command) {
  const decide::AgentState* state = api.ledger.parts().memory.of(agent);
  return state != nullptr && is_about_one_of(*state, command);
}

// Commits a command within the token's scope, and answers once the commit is durable (202 at once with respond-async).
// A command about an ephemeral session is committed in memory. `requester` is requester_of() for a command that is done
// once for each Idempotency-Key. `create` makes an agent that does not exist.
template <class Command>
HandlerResult commit(Api& api, const http::Request& request, std::string agent, Command command,
                     Result<ledger::Requester> requester, bool create = false) {
  if (!requester) co_return std::unexpected(std::move(requester.error()));
  CO_TRY(const auto run, run_of(request));
  std::shared_ptr<void> turn;
  if (run) turn = co_await api.work.claims.leases().turn(agent, run->run_id, request.principal.id);
  requester->in_memory = requester->in_memory || is_in_memory(api, agent, command);
  CO_TRY(auto reply, co_await api.ledger.commit(std::move(agent), std::move(*requester),
                                                scoped(std::move(command), request), create));
  co_return to_response(std::move(reply));
}
// The same for a command that is idempotent by itself: Idempotency-Key is not looked at.
template <class Command>
HandlerResult commit(Api& api, const http::Request& request, std::string agent, Command command) {
  return commit(api, request, std::move(agent), std::move(command), ledger::Requester{.actor = request.principal.id});
}

// The envelope of an event about a session, but for its type, time, actor and topic.
journal::Envelope envelope_about(const Api& api, const decide::AgentState& state, const decide::Session& session);

// Makes an answer of one session alone: `call(session, seen)`, in a view of the ledger (Ledger::show). Errors:
// session_not_found also when the token may not see the session.
// `request` and `path` outlive the wait.
template <class Call>
asio::awaitable<std::invoke_result_t<Call&, const decide::Session&, ledger::Seen&>> show_session(
    Api& api, const http::Request& request, const SessionPath& path, bool fresh, Call call) {
  using Answer = std::invoke_result_t<Call&, const decide::Session&, ledger::Seen&>;
  return ledger::show_of(
      api.ledger, path.agent, path.target.key, fresh,
      [&request, &path, call = std::move(call)](const decide::AgentState& state, ledger::Seen& seen) mutable -> Answer {
        TRY(const decide::Session* session, visible(state, path.target, request.principal));
        seen.only(*session, path.target.key);
        return call(*session, seen);
      });
}

// Where a transcript ends. Errors: those of Ledger::read_transcript.
asio::awaitable<Result<transcripts::TranscriptTail>> transcript_tail(Api& api, std::string agent, std::string file);

// Runs a call that blocks on a disk thread: `co_await on_disk(api, [] { return read(); })`.
template <class Call>
auto on_disk(const Api& api, Call call) {
  return runtime::run_on(api.ledger.parts().env.disk.get_executor(), std::move(call));
}

// The folder that holds an agent's sessions.json and transcripts.
std::filesystem::path sessions_folder(const Api& api, const std::string& agent);

// Runs a call that reads the body, `call(limits)`: here, or on a disk thread if the body is long. All handlers read
// bodies through this. What is read may be a view into request.body. The call must not use what belongs to the loop, so
// it has no Api: what it needs of the settings beside the limits is captured by value.
template <class Call>
asio::awaitable<std::invoke_result_t<Call&, const Limits&>> off_the_loop(const Api& api, const http::Request& request,
                                                                         Call call) {
  const Limits limits = api.config.limits;
  if (!is_long(request)) co_return call(limits);
  co_return co_await on_disk(api, [&] { return call(limits); });
}

// --- the reply ---

http::Response json_response(std::string body, int status = 200);
http::Response no_content();  // 204
// `body` is an object; gains the member asOf.
http::Response as_of_response(std::string body, std::string_view as_of);
// The same; asOf is the id of the event with the number `last_seq`.
http::Response as_of_response(const Api& api, std::string body, std::uint64_t last_seq);
void set_etag(http::Response& response, std::string_view tag);

// Appends an element to a JSON array that is being written: `list` ends with `[` or an element.
void append_element(std::string& list, std::string_view element);
void begin_element(std::string& list);  // only the comma, if one is needed
// The end of a page of a list: `],"page":{…}`; `next` is the next page's cursor, empty on the last page.
std::string page_end(std::string_view next, bool has_more);
// `,"degraded":[…]`: the agents that a list over agents lacks because their stores cannot be read. Does not name agents
// of which the token sees only a part. Empty when none is left.
std::string degraded_member(const auth::Principal& principal, const std::vector<std::string>& agents);

}  // namespace sessiond::api
