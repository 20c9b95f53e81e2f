// One session: create, read, put, patch, delete, reset, archive, spawn, children, topics, history, route.
#include <fmt/format.h>

#include "daemon/api/archives.hpp"
#include "daemon/api/conversation_summary.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/secrets.hpp"
#include "daemon/api/snapshots.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "daemon/decide/view.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "policy/names.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/counts.hpp"

namespace sessiond::api {
namespace {

decide::Sees seen_by(const auth::Principal& principal, const std::string& agent) {
  if (principal.sees_everything()) return {};
  return [principal, agent](const decide::Session& session) {
    return principal.sees(agent, session.key(), session.audience());
  };
}

// Reads the member `entry` of a command that makes a session.
Result<json::Edit> read_entry(Fields& fields) {
  const auto entry = fields.object("entry");
  if (!entry) return json::Edit{};
  TRY(policy::check_named_size(policy::size_of_named(*entry), "{}", "/entry"));
  return edit_of(*entry);
}

struct Create {
  decide::CreateSession command{};
  bool is_ephemeral = false;
};

Result<Create> read_create(http::Request& request, const Limits& limits) {
  TRY(auto fields, fields_of(request, limits, Body::optional));
  Create create;
  decide::CreateSession& command = create.command;
  const auto named_key = fields.string("key", 512);
  command.key = std::string(store::trim(named_key.value_or("")));
  if (named_key && command.key.empty())
    fields.fault("key", "is empty; leave it out for a key made from the session id");
  const auto named_id = fields.string("sessionId", 128);
  command.session_id = named_id.value_or("");
  if (named_id && command.session_id.empty()) fields.fault("sessionId", "is empty; leave it out for a fresh one");
  command.timestamp_id = fields.one_of("idKind", {"uuid", "timestamp"}) == "timestamp";
  command.reuse = fields.one_of("ifExists", {"error", "reuse"}) == "reuse";
  create.is_ephemeral = fields.boolean("ephemeral").value_or(false);
  const bool id_from_name = fields.one_of("idFrom", {"name"}).has_value();
  auto name = fields.string("name");
  const auto label = fields.string("label");
  TRY(command.entry, read_entry(fields));
  if (id_from_name && !name) fields.fault("name", "is needed to make an id of it (idFrom)");
  if (id_from_name && (!command.session_id.empty() || command.timestamp_id))
    fields.fault("idFrom", "goes without sessionId and idKind");
  TRY(fields.done());
  if (id_from_name) {
    TRY(name, policy::sanitized_name(*name, "/name"));
    TRY(command.session_id, policy::id_of_name(*name, "/name"));
  }
  if (name) command.entry.put_string("name", *name);
  if (label) command.entry.put_string("label", *label);
  return create;
}

HandlerResult create(Api& api, http::Request& request) {
  CO_TRY(auto agent, agent_param(request));
  CO_TRY(auto asked,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_create(request, limits); }));
  auto& [command, is_ephemeral] = asked;
  command.sees = seen_by(request.principal, agent);
  CO_TRY(co_await check_secrets(api, request, command.key, store::trim(request.body)));
  Pins pins;
  if (!is_ephemeral && may_store_snapshots(api, command.entry)) {
    CO_TRY(pins, co_await store_snapshots(api, command.entry));
  }
  if (!command.key.empty()) {
    CO_TRY(auto key, store::canonical_key(command.key, agent));
    std::string channel;
    for (const auto& member : command.entry.set) {
      if (member.name == "channel") channel = json::as_string(member.value).value_or("");
    }
    CO_TRY(may_create(request.principal, agent, key, channel));
  } else if (!request.principal.sees_whole_agent(agent)) {
    co_return fail(Code::forbidden, "a token with a key prefix or channel must name the key");
  }
  CO_TRY(auto requester, co_await requester_of(api, request));
  requester.in_memory = is_ephemeral;
  co_return co_await commit(api, request, agent, std::move(command), std::move(requester), true);
}

// Adds the member `paths` to a session: where its files are, for tokens that see everything.
void add_paths(const Api& api, const http::Request& request, const std::string& agent, const decide::Session& session,
               const decide::SessionView& view, std::string& body) {
  const bool wanted = view.fields.empty() || std::ranges::binary_search(view.fields, std::string("paths"));
  if (!wanted || !request.principal.sees_everything() ||
      api.ledger.parts().memory.holding(agent, session.key()) != nullptr || session.shown().has_paths())
    return;
  std::string file = api.ledger.parts().env.paths.store_name(agent);
  body.pop_back();
  body += ",\"paths\":";
  json::ObjectWriter paths(body);
  paths.string("store", file);
  file.resize(file.rfind('/') + 1);
  paths.string("transcript", file += decide::AgentState::file_of(session, {}));
  paths.close();
  body += '}';
}

HandlerResult get_session(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  decide::SessionView view;
  CO_TRY(view.fields, query_names(request, "fields"));
  CO_TRY(const Included included, included_in(request));
  std::string session_id;
  const auto show = [&](const decide::AgentState& state, ledger::Seen& seen) -> Result<http::Response> {
    TRY(const decide::Session* there, visible(state, path.target, request.principal));
    const decide::Session& session = *there;
    seen.only(session, path.target.key);
    session_id = session.session_id;
    view.parent = sees_parent(request.principal, path.agent, session);
    view.takeover = decide::shown_takeover(state, session);
    const std::string tag = decide::etag(session);
    http::Response response;
    // A new message does not change the tag, so an answer with what is read of the transcript is never 304.
    if (!included.last_message && !included.message_counts &&
        request.header("if-none-match").contains("\"" + tag + "\"")) {
      response.status = 304;
      response.content_type = {};
    } else {
      std::string body = decide::session_json(path.agent, session, view);
      add_paths(api, request, path.agent, session, view, body);
      response = as_of_response(api, std::move(body), seen.seq());
    }
    set_etag(response, tag);
    return response;
  };
  CO_TRY(auto response, co_await ledger::show_of(api.ledger, path.agent, path.target.key, wants_fresh(request), show));
  if (included.snapshots) co_await show_snapshots(api, response, false);
  if (included.last_message && response.status == 200) {
    const std::string said = co_await last_message(api, request, path, session_id);
    if (!said.empty()) response.body = json::apply(response.body, {.set = {{"lastMessage", said}}});
  }
  if (included.message_counts && response.status == 200) {
    const std::string counts = co_await message_counts(api, request, path, session_id);
    if (!counts.empty()) response.body = json::apply(response.body, {.set = {{"messageCounts", counts}}});
  }
  co_return response;
}

// Reads a body that is an entry, or a patch of one.
Result<std::string_view> read_object(http::Request& request, const Limits& limits) {
  TRY(const auto body, body_of(request, limits));
  if (json::kind(body) != json::Kind::object) return fail_at("", "must be an object");
  return body;
}

struct Put {
  decide::PutSession command{};
  std::string channel{};
};

Result<Put> read_put(http::Request& request, const Limits& limits) {
  TRY(const auto body, read_object(request, limits));
  Put put{.command = {.entry = edit_of(body), .size = policy::size_of_named(body)},
          .channel = json::string_at(body, "channel").value_or("")};
  put.command.entry.unset.clear();  // in a whole entry, null means that the member is absent
  put.command.size.fields = put.command.entry.set.size();
  return put;
}

HandlerResult put(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::required));
  CO_TRY(auto asked,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_put(request, limits); }));
  decide::PutSession& command = asked.command;
  command.target = path.target;
  CO_TRY(co_await check_secrets(api, request, path.target.key, store::trim(request.body)));
  CO_TRY(co_await check_secrets(api, request, "", json::quote(path.target.key),
                                "/key"));  // PUT may make a session of this key
  command.sees = seen_by(request.principal, path.agent);
  const std::string key = store::canonical_key(path.target.key, path.agent).value_or(path.target.key);
  CO_TRY(may_create(request.principal, path.agent, key, asked.channel));
  Pins pins;
  if (may_store_snapshots(api, command.entry) && !is_in_memory(api, path.agent, command)) {
    CO_TRY(pins, co_await store_snapshots(api, command.entry));
    command.size = co_await off_the_loop(api, request, [&entry = command.entry](const Limits&) {
      return policy::size_of_named(json::apply("{}", entry));
    });
  }
  CO_TRY(auto requester, co_await requester_of(api, request));
  requester.scope.reset();  // PUT is idempotent by itself
  co_return co_await commit(api, request, path.agent, std::move(command), std::move(requester), true);
}

HandlerResult patch(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::required));
  CO_TRY(auto body,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_object(request, limits); }));
  CO_TRY(co_await check_secrets(api, request, path.target.key, body));
  decide::PatchSession command{.target = path.target, .patch = std::string(body)};
  Pins pins;
  if (body.size() > policy::small_snapshot_bytes) {
    CO_TRY(pins, co_await store_snapshots(api, path.agent, command));
  }
  co_return co_await commit(api, request, path.agent, std::move(command));
}

HandlerResult remove(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::required));
  CO_TRY(auto purge, query_bool(request, "purge"));
  const auto missing = query_text(request, "missing");
  if (missing && *missing != "ok") co_return fail(Code::bad_request, "missing may only be ok");
  decide::DeleteSession command{
      .target = path.target, .purge = purge.value_or(false), .missing_ok = missing.has_value()};
  auto done = co_await commit(api, request, path.agent, std::move(command));
  if (!done && missing && done.error().code == Code::agent_not_found)
    co_return to_response(ledger::Reply{.status = 204});
  co_return done;
}

HandlerResult reset(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::required));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  decide::ResetSession command{.target = path.target};
  command.reason = fields.string("reason", 200).value_or("api");
  command.keep_metadata = fields.boolean("keepMetadata").value_or(true);
  CO_TRY(fields.done());
  CO_TRY(co_await check_secrets(api, request, path.target.key, fields.text()));
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

HandlerResult archive_to(Api& api, http::Request& request, bool archived) {
  CO_TRY(auto path, session_path(request, api, Match::honoured));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  CO_TRY(fields.done());
  decide::ArchiveSession command{.target = path.target, .archived = archived};
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

Result<decide::SpawnSession> read_spawn(http::Request& request, const Limits& limits) {
  TRY(auto fields, fields_of(request, limits, Body::optional));
  decide::SpawnSession command;
  command.label = fields.string("label", 200).value_or("");
  command.task = fields.string("task", 1U << 20).value_or("");
  TRY(command.entry, read_entry(fields));
  TRY(fields.done());
  if (fields.has("entry") && !request.principal.may(auth::Permission::write))
    return fail(Code::forbidden, "this token may spawn, but not set fields of the entry");
  return command;
}

HandlerResult spawn(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto command,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_spawn(request, limits); }));
  command.target = path.target;
  command.below_parent = !request.principal.sees(path.agent, "agent:" + path.agent + ":subagent:", "");
  CO_TRY(co_await check_secrets(api, request, path.target.key, store::trim(request.body)));
  Pins pins;
  if (may_store_snapshots(api, command.entry) && !is_in_memory(api, path.agent, command)) {
    CO_TRY(pins, co_await store_snapshots(api, command.entry));
  }
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

HandlerResult route_to(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::required));
  CO_TRY(auto fields, co_await body_fields(api, request));
  json::ObjectWriter writer;
  const auto text = [&](std::string_view name, bool needed) {
    const auto value = fields.string(name, 512);
    if (value && !store::trim(*value).empty()) {
      writer.string(name, *value);
    } else {
      if (needed) fields.fault(name, "is needed");
      writer.raw(name, "null");
    }
  };
  text("channel", true);
  text("to", true);
  text("accountId", false);
  std::string thread;
  read_thread(fields, thread);
  writer.raw("threadId", thread.empty() ? "null" : thread);
  CO_TRY(fields.done());
  CO_TRY(co_await check_secrets(api, request, path.target.key, fields.text()));
  decide::PatchSession command{.target = path.target, .patch = "{\"deliveryContext\":" + writer.text() + "}"};
  co_return co_await commit(api, request, path.agent, std::move(command));
}

HandlerResult children(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  co_return co_await ledger::show_of(
      api.ledger, path.agent, path.target.key, wants_fresh(request),
      [&](const decide::AgentState& state, const ledger::Seen& seen) -> Result<http::Response> {
        TRY(const decide::Session* session, visible(state, path.target, request.principal));
        std::string body = "{\"data\":[";
        bool more = false;
        for (const decide::Session* child : state.children(session->key())) {
          if (!sees(request.principal, state, *child)) continue;
          more = body.size() > limits::page_bytes;
          if (more) break;
          begin_element(body);
          decide::append_session(body, path.agent, *child,
                                 {.snapshots = false,
                                  .parent = sees_parent(request.principal, path.agent, *child),
                                  .takeover = decide::shown_takeover(state, *child)});
        }
        body += more ? "],\"hasMore\":true}" : "]}";
        return as_of_response(api, std::move(body), seen.seq());
      });
}

// The transcripts of a session's topics, by topic, and the seq of the newest event that the list depends on. For the
// session id of archived transcripts: the newest archive of each topic, deleted topics included. Which files a session
// may use depends on all sessions of the agent.
struct TopicFiles {
  std::vector<std::pair<std::string, std::string>> files;
  std::uint64_t seq = 0;
};
asio::awaitable<Result<TopicFiles>> topic_files(Api& api, const http::Request& request, const SessionPath& path) {
  const auto of_session = [&](const decide::AgentState& state,
                              const ledger::Seen& seen) -> Result<std::optional<TopicFiles>> {
    TRY(const decide::Session* session, visible_or_archived(state, path.target, request.principal));
    if (session == nullptr) return std::nullopt;
    TopicFiles out{.files = {}, .seq = seen.seq()};
    const auto* names = state.transcripts.topics(session->session_id);
    if (names == nullptr) return out;
    const std::string own = decide::AgentState::file_of(*session, {});
    for (const std::string& topic : *names) {
      std::string file = decide::AgentState::file_of(*session, topic);
      if (file != own && state.may_use(*session, file)) out.files.emplace_back(topic, std::move(file));
    }
    return out;
  };
  CO_TRY(auto found,
         co_await ledger::show_of(api.ledger, path.agent, path.target.key, wants_fresh(request), of_session));
  if (found) co_return std::move(*found);
  CO_TRY(auto archives, co_await archives_of(api, path.agent, path.target.key));
  archives.erase("");  // the session's own transcript
  co_return TopicFiles{.files = {archives.begin(), archives.end()}};
}

std::string topic_json(std::string_view topic, const transcripts::Counts& counts, std::int64_t updated_at) {
  json::ObjectWriter one;
  one.string("topic", topic);
  one.integer("messageCount", counts.messages);
  one.integer("entryCount", counts.entries);
  one.integer("updatedAt", updated_at);
  return one.text();
}

HandlerResult topics(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(const auto found, co_await topic_files(api, request, path));
  const auto& [files, seq] = found;
  std::string body = "{\"data\":[";
  for (const auto& [topic, file] : files) {
    if (store::is_stream_topic(topic)) continue;
    if (const auto* memory = api.ledger.parts().memory.transcript(path.agent, file)) {
      CO_TRY(const auto counts, transcripts::counts_of(*memory));
      append_element(body, topic_json(topic, counts, memory->updated_at()));
      continue;
    }
    const auto count = [](transcripts::Transcript& transcript) { return transcripts::counts_of(transcript); };
    CO_TRY(const auto counts, co_await api.ledger.read_transcript(path.agent, file, count));
    const auto transcript = sessions_folder(api, path.agent) / file;
    const std::int64_t updated = co_await on_disk(api, [&transcript] {
      struct stat status{};
      return ::stat(transcript.c_str(), &status) == 0 ? store::identity(status).mtime_ns / 1'000'000 : 0;
    });
    append_element(body, topic_json(topic, counts, updated));
  }
  co_return as_of_response(api, body + "]}", seq);
}

HandlerResult delete_topic(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::honoured));
  decide::DeleteTopic command{.target = path.target, .topic = request.params.at(2)};
  CO_TRY(store::check_topic(command.topic));
  co_return co_await commit(api, request, path.agent, std::move(command));
}

HandlerResult history(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  co_return co_await show_session(
      api, request, path, wants_fresh(request),
      [&](const decide::Session& session, const ledger::Seen& seen) -> Result<http::Response> {
        std::string body = fmt::format(R"({{"data":[{{"sessionId":{},"archivedAs":[],"current":true}})",
                                       json::quote(session.session_id));
        const sessions::RawEntry& entry = session.entry();
        for (const auto old : json::elements(json::find(*entry, "previousSessions").value_or("[]"))) {
          std::string held;
          body.append(",").append(json::as_sent(old, held));
        }
        return as_of_response(api, body + "]}", seen.seq());
      });
}

}  // namespace

void add_session_routes(http::Router& router, Api& api) {
  const std::string sessions = "/v1/agents/{agent}/sessions";
  const std::string one = sessions + "/{key}";
  const auto on = adding(router, api);
  on("POST", sessions, auth::Permission::write, entry(create));
  on("GET", one, auth::Permission::read, get_session, {"fields", "include"});
  on("PUT", one, auth::Permission::write, entry(put));
  on("PATCH", one, auth::Permission::write, entry(patch));
  on("DELETE", one, auth::Permission::write, remove, {"purge", "missing"});
  on("POST", one + "/reset", auth::Permission::write, entry(reset));
  on("POST", one + "/archive", auth::Permission::write,
     [](Api& a, http::Request& request) { return archive_to(a, request, true); });
  on("POST", one + "/unarchive", auth::Permission::write,
     [](Api& a, http::Request& request) { return archive_to(a, request, false); });
  on("POST", one + "/spawn", auth::Permission::spawn, entry(spawn));
  on("GET", one + "/children", auth::Permission::read, children);
  on("GET", one + "/topics", auth::Permission::read, topics);
  on("DELETE", one + "/topics/{topic}", auth::Permission::write, delete_topic);
  on("GET", one + "/history", auth::Permission::read, history);
  on("PUT", one + "/route", auth::Permission::bridge, route_to);
}

}  // namespace sessiond::api
