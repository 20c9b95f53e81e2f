// One session: create, read, put, patch, delete, reset, archive, spawn, children, topics, history, route (API §3).
#include <fmt/format.h>

#include <filesystem>

#include "daemon/api/archives.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/secrets.hpp"
#include "daemon/decide/view.hpp"
#include "daemon/ledger/reader.hpp"
#include "daemon/runtime/hop.hpp"
#include "store/delivery/delivery.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/utf8.hpp"
#include "transcripts/archive.hpp"

namespace sessiond {
namespace {

// Where a path and a token meet: agent and target, or the problem.
struct Place {
  std::string agent;
  Target target;
};
Result<Place> place_of(const Request& request, const Api& api, Match match) {
  auto agent = agent_param(request);
  if (!agent) return std::unexpected(std::move(agent.error()));
  auto target = target_param(request, api, match);
  if (!target) return std::unexpected(std::move(target.error()));
  return Place{std::move(*agent), std::move(*target)};
}

// A state, as of an event id.
Response as_of_response(const Api& api, std::string body, std::uint64_t last_seq, const std::string& etag = {}) {
  Response response = json_response(std::move(body));
  response.body.pop_back();
  response.body += fmt::format("{}\"asOf\":\"{}\"}}", response.body.size() > 1 ? "," : "", api.ledger.as_of(last_seq));
  if (!etag.empty()) response.headers.emplace_back("ETag", "\"" + etag + "\"");
  return response;
}

template <class Command>
Served run(Api& api, Place place, Command command, const Request& request, Intent intent, bool create = false) {
  auto reply =
      co_await api.ledger.commit(place.agent, std::move(intent), scoped(std::move(command), request.principal), create);
  if (!reply) co_return std::unexpected(std::move(reply.error()));
  co_return to_response(std::move(*reply));
}

Sees seen_by(const Principal& principal, const std::string& agent) {
  if (principal.sees_everything()) return {};
  return [principal, agent](const Session& session) { return principal.sees(agent, session.key(), session.channel); };
}

// What a new session would be must lie within the token's scope.
Result<void> may_create(const Principal& principal, const std::string& agent, const std::string& key,
                        std::string_view channel) {
  const std::string own(parse_key(key).channel);
  if (principal.sees(agent, key, channel.empty() ? own : channel)) return {};
  return fail(Code::forbidden, fmt::format("this token may not make the session {}", key));
}

Served create(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto body = json_body(request, api.config.limits.json_depth, true);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  CreateSession command;
  command.sees = seen_by(request.principal, *agent);
  const auto named_key = fields->string("key", 512);
  command.key = std::string(trim(named_key.value_or("")));
  if (named_key && command.key.empty())
    fields->fault("key", "is empty; leave it out for a key made from the session id");
  command.session_id = fields->string("sessionId", 128).value_or("");
  command.timestamp_id = fields->one_of("idKind", {"uuid", "timestamp"}) == "timestamp";
  command.reuse = fields->one_of("ifExists", {"error", "reuse"}) == "reuse";
  command.ephemeral = fields->boolean("ephemeral").value_or(false);
  const auto name = fields->string("name");
  const auto label = fields->string("label");
  if (const auto entry = fields->object("entry")) command.entry = edit_of(*entry);
  if (name) command.entry.put_string("name", *name);
  if (label) command.entry.put_string("label", *label);
  if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  if (auto fine = check_secrets(api, request, command.key, *body); !fine)
    co_return std::unexpected(std::move(fine.error()));
  if (!command.key.empty()) {
    auto key = canonical_key(command.key, *agent);
    if (!key) co_return std::unexpected(std::move(key.error()));
    std::string channel;
    for (const auto& member : command.entry.set) {
      if (member.name == "channel") channel = json::as_string(member.value).value_or("");
    }
    if (auto fine = may_create(request.principal, *agent, *key, channel); !fine)
      co_return std::unexpected(std::move(fine.error()));
  } else if (!request.principal.sees_whole_agent(*agent)) {
    co_return fail(Code::forbidden, "a token with a key prefix or channel must name the key");
  }
  auto intent = intent_of(request);
  if (!intent) co_return std::unexpected(std::move(intent.error()));
  co_return co_await run(api, {*agent, {}}, std::move(command), request, std::move(*intent), true);
}

Served get_session(Api& api, Request& request) {
  auto place = place_of(request, api, Match::ignored);
  if (!place) co_return std::unexpected(std::move(place.error()));
  SessionView view;
  auto fields = query_names(request, "fields");
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  view.fields = std::move(*fields);
  co_return co_await api.ledger.show(
      place->agent, wants_fresh(request), [&](const AgentState& state, Seen& seen) -> Result<Response> {
        auto session = visible(state, place->target, request.principal);
        if (!session) return std::unexpected(std::move(session.error()));
        seen.only(**session, place->target.key);
        const std::string tag = etag(**session);
        if (request.header("if-none-match").find("\"" + tag + "\"") != std::string_view::npos) {
          Response unchanged;
          unchanged.status = 304;
          unchanged.content_type.clear();
          unchanged.headers.emplace_back("ETag", "\"" + tag + "\"");
          return unchanged;
        }
        return as_of_response(api, session_json(place->agent, **session, view), seen.seq(), tag);
      });
}

Served put(Api& api, Request& request) {
  auto place = place_of(request, api, Match::required);
  if (!place) co_return std::unexpected(std::move(place.error()));
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  if (json::kind(*body) != json::Kind::object) co_return fail_at("", "must be an object");
  auto clean = check_secrets(api, request, place->target.key, *body);
  if (clean) clean = check_secrets(api, request, "", json::quote(place->target.key), "/key");  // it may be a new one
  if (!clean) co_return std::unexpected(std::move(clean.error()));
  PutSession command{.target = place->target, .entry = edit_of(*body)};
  command.entry.unset.clear();  // null in a whole entry is absence
  command.sees = seen_by(request.principal, place->agent);
  const std::string key = canonical_key(place->target.key, place->agent).value_or(place->target.key);
  if (auto fine = may_create(request.principal, place->agent, key, json::string_at(*body, "channel").value_or(""));
      !fine) {
    co_return std::unexpected(std::move(fine.error()));
  }
  auto intent = intent_of(request);
  if (!intent) co_return std::unexpected(std::move(intent.error()));
  intent->scope.reset();  // PUT is idempotent by itself
  co_return co_await run(api, std::move(*place), std::move(command), request, std::move(*intent), true);
}

Served patch(Api& api, Request& request) {
  auto place = place_of(request, api, Match::required);
  if (!place) co_return std::unexpected(std::move(place.error()));
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  if (json::kind(*body) != json::Kind::object) co_return fail_at("", "must be an object");
  if (auto fine = check_secrets(api, request, place->target.key, *body); !fine)
    co_return std::unexpected(std::move(fine.error()));
  PatchSession command{.target = place->target, .patch = std::string(*body)};
  co_return co_await run(api, std::move(*place), std::move(command), request, {.actor = request.principal.id});
}

Served remove(Api& api, Request& request) {
  auto place = place_of(request, api, Match::required);
  if (!place) co_return std::unexpected(std::move(place.error()));
  auto purge = query_bool(request, "purge");
  if (!purge) co_return std::unexpected(std::move(purge.error()));
  const auto missing = query_text(request, "missing");
  if (missing && *missing != "ok") co_return fail(Code::bad_request, "missing may only be ok");
  DeleteSession command{.target = place->target, .purge = purge->value_or(false), .missing_ok = missing.has_value()};
  auto done = co_await run(api, std::move(*place), std::move(command), request, {.actor = request.principal.id});
  if (!done && missing && done.error().code == Code::agent_not_found) co_return to_response(Reply{.status = 204});
  co_return done;
}

Served reset(Api& api, Request& request) {
  auto place = place_of(request, api, Match::required);
  if (!place) co_return std::unexpected(std::move(place.error()));
  auto body = json_body(request, api.config.limits.json_depth, true);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  ResetSession command{.target = place->target};
  command.reason = fields->string("reason", 200).value_or("api");
  command.keep_metadata = fields->boolean("keepMetadata").value_or(true);
  if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  if (auto fine = check_secrets(api, request, place->target.key, *body); !fine)
    co_return std::unexpected(std::move(fine.error()));
  auto intent = intent_of(request);
  if (!intent) co_return std::unexpected(std::move(intent.error()));
  co_return co_await run(api, std::move(*place), std::move(command), request, std::move(*intent));
}

Served archive_to(Api& api, Request& request, bool archived) {
  auto place = place_of(request, api, Match::honoured);
  if (!place) co_return std::unexpected(std::move(place.error()));
  auto body = json_body(request, api.config.limits.json_depth, true);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  auto intent = intent_of(request);
  if (!intent) co_return std::unexpected(std::move(intent.error()));
  ArchiveSession command{.target = place->target, .archived = archived};
  co_return co_await run(api, std::move(*place), std::move(command), request, std::move(*intent));
}

Served spawn(Api& api, Request& request) {
  auto place = place_of(request, api, Match::ignored);
  if (!place) co_return std::unexpected(std::move(place.error()));
  auto body = json_body(request, api.config.limits.json_depth, true);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  SpawnSession command{.target = place->target};
  command.below_parent = !request.principal.sees(place->agent, "agent:" + place->agent + ":subagent:", "");
  command.label = fields->string("label", 200).value_or("");
  command.task = fields->string("task", 1U << 20).value_or("");
  if (const auto entry = fields->object("entry")) command.entry = edit_of(*entry);
  if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  if (auto fine = check_secrets(api, request, place->target.key, *body); !fine)
    co_return std::unexpected(std::move(fine.error()));
  auto intent = intent_of(request);
  if (!intent) co_return std::unexpected(std::move(intent.error()));
  co_return co_await run(api, std::move(*place), std::move(command), request, std::move(*intent));
}

Served route_to(Api& api, Request& request) {
  auto place = place_of(request, api, Match::required);
  if (!place) co_return std::unexpected(std::move(place.error()));
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  std::string context;
  json::ObjectWriter writer(context);
  const auto text = [&](std::string_view name, bool needed) {
    const auto value = fields->string(name, 512);
    if (value && !trim(*value).empty()) {
      writer.string(name, *value);
    } else {
      if (needed) fields->fault(name, "is needed");
      writer.raw(name, "null");
    }
  };
  text("channel", true);
  text("to", true);
  text("accountId", false);
  const auto thread = fields->raw("threadId");
  if (thread && json::kind(*thread) != json::Kind::string && json::kind(*thread) != json::Kind::number &&
      *thread != "null") {
    fields->fault("threadId", "must be a string or a number");
  }
  writer.raw("threadId", thread.value_or("null"));
  writer.close();
  if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  if (auto fine = check_secrets(api, request, place->target.key, *body); !fine)
    co_return std::unexpected(std::move(fine.error()));
  PatchSession command{.target = place->target, .patch = "{\"deliveryContext\":" + context + "}"};
  co_return co_await run(api, std::move(*place), std::move(command), request, {.actor = request.principal.id});
}

Served children(Api& api, Request& request) {
  auto place = place_of(request, api, Match::ignored);
  if (!place) co_return std::unexpected(std::move(place.error()));
  co_return co_await api.ledger.show(place->agent, wants_fresh(request),
                                     [&](const AgentState& state, const Seen& seen) -> Result<Response> {
                                       auto session = visible(state, place->target, request.principal);
                                       if (!session) return std::unexpected(std::move(session.error()));
                                       std::string body = "{\"data\":[";
                                       bool more = false;
                                       for (const Session* child : state.children((*session)->key())) {
                                         if (!request.principal.sees(place->agent, child->key(), child->channel))
                                           continue;
                                         more = body.size() > limits::page_bytes;
                                         if (more) break;
                                         if (body.back() != '[') body += ',';
                                         body += session_json(place->agent, *child, {.snapshots = false});
                                       }
                                       body += more ? "],\"hasMore\":true}" : "]}";
                                       return as_of_response(api, std::move(body), seen.seq());
                                     });
}

// The transcripts of a session's topics, by topic, and the seq that they are of; of a session id that only archives
// bear, the newest archive of each.
struct TopicFiles {
  std::vector<std::pair<std::string, std::string>> files;
  std::uint64_t seq = 0;
};
asio::awaitable<Result<TopicFiles>> topic_files(Api& api, Place place, Principal principal, bool fresh) {
  auto found = co_await api.ledger.show(
      place.agent, fresh, [&](const AgentState& state, const Seen& seen) -> Result<std::optional<TopicFiles>> {
        auto session = visible(state, place.target, principal);
        if (!session) {
          if (!sees_archives(principal, state, place.target.key) || state.find(place.target.key) != nullptr)
            return std::unexpected(std::move(session.error()));
          return std::nullopt;  // archived, if at all
        }
        TopicFiles out{.files = {}, .seq = seen.seq()};
        const auto* names = state.transcripts.topics((*session)->session_id);
        if (names == nullptr) return out;
        const std::string own = AgentState::file_of(**session, {});
        for (const std::string& topic : *names) {
          std::string file = AgentState::file_of(**session, topic);
          if (file != own && state.may_use(**session, file)) out.files.emplace_back(topic, std::move(file));
        }
        return out;
      });
  if (!found) co_return std::unexpected(std::move(found.error()));
  if (*found) co_return std::move(**found);
  auto archives = co_await archives_of(api, place.agent, place.target.key);
  if (!archives) co_return std::unexpected(std::move(archives.error()));
  archives->erase("");  // its own transcript
  co_return TopicFiles{.files = {archives->begin(), archives->end()}};
}

Served topics(Api& api, Request& request) {
  auto place = place_of(request, api, Match::ignored);
  if (!place) co_return std::unexpected(std::move(place.error()));
  const auto found = co_await topic_files(api, *place, request.principal, wants_fresh(request));
  if (!found) co_return std::unexpected(found.error());
  const auto& [files, seq] = *found;
  std::string body = "{\"data\":[";
  for (const auto& [topic, file] : files) {
    auto tail = co_await api.ledger.read_transcript(
        place->agent, file, [](Transcript& transcript) -> Result<TranscriptTail> { return transcript.tail(); });
    if (!tail) co_return std::unexpected(std::move(tail.error()));
    const auto path = api.ledger.paths().state_dir() / api.ledger.paths().sessions_dir(place->agent) / file;
    struct stat status{};
    const std::int64_t updated = ::stat(path.c_str(), &status) == 0 ? identity(status).mtime_ns / 1'000'000 : 0;
    body += fmt::format(R"({}{{"topic":{},"messageCount":{},"updatedAt":{}}})", body.back() == '[' ? "" : ",",
                        json::quote(topic), tail->count, updated);
  }
  co_return as_of_response(api, body + "]}", seq);
}

Served delete_topic(Api& api, Request& request) {
  auto place = place_of(request, api, Match::honoured);
  if (!place) co_return std::unexpected(std::move(place.error()));
  DeleteTopic command{.target = place->target, .topic = request.params.at(2)};
  if (auto fine = check_topic(command.topic); !fine) co_return std::unexpected(std::move(fine.error()));
  co_return co_await run(api, std::move(*place), std::move(command), request, {.actor = request.principal.id});
}

Served history(Api& api, Request& request) {
  auto place = place_of(request, api, Match::ignored);
  if (!place) co_return std::unexpected(std::move(place.error()));
  co_return co_await api.ledger.show(
      place->agent, wants_fresh(request), [&](const AgentState& state, Seen& seen) -> Result<Response> {
        auto session = visible(state, place->target, request.principal);
        if (!session) return std::unexpected(std::move(session.error()));
        seen.only(**session, place->target.key);
        const RawEntry entry = (*session)->entry();
        std::string body = fmt::format(R"({{"data":[{{"sessionId":{},"archivedAs":[],"current":true}})",
                                       json::quote((*session)->session_id));
        for (const auto old : json::elements(json::find(*entry, "previousSessions").value_or("[]"))) {
          std::string held;
          body.append(",").append(as_utf8(old, held));
        }
        return as_of_response(api, body + "]}", seen.seq());
      });
}

}  // namespace

void add_session_routes(Router& router, Api& api) {
  const std::string sessions = "/v1/agents/{agent}/sessions";
  const std::string one = sessions + "/{key}";
  const auto on = adding(router, api);
  on("POST", sessions, Permission::write, create);
  on("GET", one, Permission::read, get_session, {"fields"});
  on("PUT", one, Permission::write, put);
  on("PATCH", one, Permission::write, patch);
  on("DELETE", one, Permission::write, remove, {"purge", "missing"});
  on("POST", one + "/reset", Permission::write, reset);
  on("POST", one + "/archive", Permission::write,
     [](Api& a, Request& request) { return archive_to(a, request, true); });
  on("POST", one + "/unarchive", Permission::write,
     [](Api& a, Request& request) { return archive_to(a, request, false); });
  on("POST", one + "/spawn", Permission::write, spawn);
  on("GET", one + "/children", Permission::read, children);
  on("GET", one + "/topics", Permission::read, topics);
  on("DELETE", one + "/topics/{topic}", Permission::write, delete_topic);
  on("GET", one + "/history", Permission::read, history);
  on("PUT", one + "/route", Permission::bridge, route_to);
}

}  // namespace sessiond
