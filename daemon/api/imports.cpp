// Imports sessions of other programs, and of other daemons. Each session is one commit, and is counted when it is
// durable. What is there already stays, so an import that was interrupted is simply sent again.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "daemon/api/import_body.hpp"
#include "daemon/api/media.hpp"
#include "daemon/api/secrets.hpp"
#include "daemon/api/snapshots.hpp"
#include "daemon/ledger/staging.hpp"
#include "formats/index.hpp"
#include "formats/known.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t most_named = 100;         // in `ids` and in `skips`; more are only counted
constexpr std::size_t append_bytes = 64 << 10;  // of entries that one commit appends
constexpr std::size_t append_lines = 100;
constexpr std::size_t unnamed_lines = 10'000;  // without an id, in a row, of a transcript that is there

enum class IfExists : std::uint8_t { skip, replace, go_on };

// The answer, as it grows.
struct Tally {
  std::int64_t created = 0, updated = 0, skipped = 0;
  std::vector<std::string> ids{};
  std::string skips = "[";
  std::size_t named = 0;

  void done(bool is_new, const std::string& id) {
    ++(is_new ? created : updated);
    if (ids.size() < most_named) ids.push_back(id);
  }
  void skip(const std::string& id, std::string_view why) {
    ++skipped;
    name(id, why);
  }
  void name(const std::string& id, std::string_view why) {
    if (++named > most_named) return;
    append_element(skips,
                   fmt::format(R"({{"id":{},"why":{}}})", id.empty() ? "null" : json::quote(id), json::quote(why)));
  }
  std::string text() const {
    return fmt::format(R"({{"created":{},"updated":{},"skipped":{},"ids":{},"skips":{}]}})", created, updated, skipped,
                       json::array_of(ids), skips);
  }
};

// One session that is being imported.
struct Import {
  std::string agent{};
  ImportedSession session{};
  IfExists if_exists = IfExists::skip;
  std::optional<decide::FilesOfId> found{};  // files of its id
};

std::string taken(const Import& import) {
  return fmt::format("another session has the id {} or its key", import.session.id);
}

// Tells of a fault of the session, for which the others need not fail.
bool is_its_own(const Problem& problem) {
  return http::status_of(problem.code) / 100 == 4 && problem.code != Code::too_many_requests;
}

std::string why_not(const Import& import, const Problem& problem, const auth::Principal& principal) {
  const bool hidden = problem.code == Code::forbidden || problem.code == Code::agent_not_found ||
                      problem.code == Code::session_not_found ||
                      (problem.code == Code::session_exists && !principal.sees_whole_agent(import.agent));
  return hidden ? taken(import) : problem.detail;
}

std::string key_of(const Import& import) {
  const ImportedSession& session = import.session;
  if (session.key.empty()) return fmt::format("agent:{}:session:{}", import.agent, store::lower(session.id));
  return store::canonical_key(session.key, import.agent).value_or(session.key);
}

// Tells whether the session is there, as far as the token sees: with this key and this id.
asio::awaitable<Result<bool>> is_there(Api& api, const http::Request& request, const Import& import) {
  const std::string key = key_of(import);
  auto there = co_await api.ledger.show(import.agent, false,
                                        [&](const decide::AgentState& state, ledger::Seen&) -> Result<bool> {
                                          const decide::Session* session = state.find_key(key);
                                          return session != nullptr && session->session_id == import.session.id &&
                                                 sees(request.principal, state, *session);
                                        });
  if (!there && there.error().code == Code::agent_not_found) co_return false;
  co_return there;
}

// The result of an import into a session that exists.
struct Continued {
  bool appended = false;
  std::string left{};  // the message that grew, behind which people went on; empty: all was taken
};

// Appends what the transcripts do not have yet.
asio::awaitable<Result<Continued>> go_on(Api& api, const http::Request& request, const Import& import) {
  Continued done;
  for (const ImportedTranscript& transcript : import.session.transcripts) {
    decide::ContinueTranscript step{.target = {.key = key_of(import)},
                                    .session_id = import.session.id,
                                    .topic = transcript.topic,
                                    .header = transcript.header,
                                    .counts_usage = import.session.counts_usage};
    std::string left;
    for (std::size_t at = 0; at < transcript.lines.size() && left.empty();) {
      step.lines.clear();
      std::size_t bytes = 0;
      // A line without an id goes with the entry before it.
      for (; at < transcript.lines.size(); ++at) {
        const decide::ImportedLine& line = transcript.lines[at];
        if ((bytes >= append_bytes || step.lines.size() >= append_lines) && !line.id.empty()) break;
        if (step.lines.size() >= unnamed_lines)
          co_return fail(
              Code::validation_failed,
              fmt::format("more than {} entries in a row have no id, by which they are known", unnamed_lines));
        bytes += line.line.size();
        step.lines.push_back(line);
      }
      CO_TRY(const auto reply,
             co_await api.ledger.commit(import.agent, {.actor = request.principal.id}, scoped(step, request)));
      done.appended = done.appended || json::int_at(reply.body, "appended") != 0;
      left = json::string_at(reply.body, "left").value_or("");
    }
    if (!left.empty()) done.left = std::move(left);
  }
  co_return done;
}

asio::awaitable<Result<ledger::StagedFiles>> staged(Api& api, const std::shared_ptr<const Import>& import) {
  auto files = std::make_shared<std::vector<transcripts::StagedTranscript>>();
  const std::string key = key_of(*import);
  const std::string own(store::parse_key(key).topic);
  for (const ImportedTranscript& transcript : import->session.transcripts) {
    const std::string file = store::transcript_file(import->session.id, transcript.topic.value_or(own));
    CO_TRY(auto one, co_await ledger::stage(api.ledger, import->agent, file,
                                            [import, &transcript](transcripts::StagedTranscript& to) -> Result<void> {
                                              TRY(to.add(transcript.header));
                                              for (const auto& line : transcript.lines) TRY(to.add(line.line));
                                              return {};
                                            }));
    files->push_back(std::move(one));
  }
  co_return files;
}

// The result of the import of one session.
struct Outcome {
  enum class What : std::uint8_t { created, updated, as_it_was };
  What what = What::as_it_was;
  std::string left{};  // Continued::left
};

void tell(Tally& tally, const std::string& id, const Outcome& outcome) {
  const bool changed = outcome.what != Outcome::What::as_it_was;
  if (changed) tally.done(outcome.what == Outcome::What::created, id);
  if (outcome.left.empty() && changed) return;
  const std::string why =
      outcome.left.empty()
          ? "is there already"
          : fmt::format(
                "the message {} has grown, but the conversation went on here behind it: it is left as it is, "
                "and so is what comes behind it. ifExists=replace takes the session as it is there",
                outcome.left);
  if (changed)
    tally.name(id, why);
  else
    tally.skip(id, why);
}

asio::awaitable<Result<Outcome>> import_one(Api& api, const http::Request& request,
                                            std::shared_ptr<const Import> import) {
  const ImportedSession& session = import->session;
  const std::string key = key_of(*import);
  std::string channel(store::parse_key(key).channel);
  for (const auto& member : session.entry.set)
    if (member.name == "channel") channel = json::as_string(member.value).value_or("");
  if (!request.principal.sees(import->agent, key, channel)) co_return fail(Code::forbidden, taken(*import));
  if (api.ledger.parts().memory.holding(import->agent, key) != nullptr ||
      api.ledger.parts().memory.holding(import->agent, session.id) != nullptr)
    co_return fail(Code::session_exists, taken(*import));
  CO_TRY(const bool there, co_await is_there(api, request, *import));
  if (there && import->if_exists == IfExists::go_on) {
    CO_TRY(Continued done, co_await go_on(api, request, *import));
    co_return Outcome{.what = done.appended ? Outcome::What::updated : Outcome::What::as_it_was,
                      .left = std::move(done.left)};
  }
  if (there && import->if_exists == IfExists::skip) co_return Outcome{};
  if (session.only_topics)
    co_return fail(Code::validation_failed, "a topic's transcript follows that of its session, or goes on with one");
  for (const ImportedTranscript& transcript : session.transcripts)
    if (transcript.topic && *transcript.topic == store::parse_key(key).topic)
      co_return fail(
          Code::validation_failed,
          fmt::format("its key ends in :topic:{0}, so the transcript of topic {0} is its own", *transcript.topic));
  CO_TRY(co_await check_secrets(api, request, key, json::apply("{}", session.entry)));
  json::Edit entry = session.entry;
  // The daemon took these words from the messages, which have been scanned. check_secrets() is for fields of clients.
  if (!session.first_message.empty()) {
    entry.put_string("firstMessage", session.first_message);
    entry.put_string("firstMessageId", session.first_message_id);
  }
  CO_TRY(const Pins pins, co_await store_snapshots(api, entry));
  CO_TRY(const auto files, co_await staged(api, import));
  decide::ImportSession command{.key = session.key,
                                .session_id = session.id,
                                .entry = std::move(entry),
                                .replace = import->if_exists == IfExists::replace,
                                .found = there ? std::nullopt : import->found,
                                .last_prompt = session.last_prompt};
  for (std::size_t at = 0; at < files->size(); ++at)
    command.files.push_back({.topic = session.transcripts[at].topic, .name = (*files)[at].name()});
  if (!request.principal.sees_everything())
    command.sees = [principal = request.principal, agent = import->agent](const decide::Session& other) {
      return principal.sees(agent, other.key(), other.audience());
    };
  CO_TRY(const auto reply,
         co_await api.ledger.commit(import->agent, {.actor = request.principal.id},
                                    ledger::keeping(files, scoped(std::move(command), request)), true));
  if (reply.body.empty()) co_return Outcome{};
  for (const ImportedTranscript& transcript : session.transcripts)
    for (const decide::ImportedLine& line : transcript.lines)
      policy::names_in(line.line, policy::NamedBy::message, [&](std::string_view hash) {
        api.blobs.note(std::string(hash), {.agent = import->agent, .name = session.id});
      });
  co_return Outcome{.what = reply.status == 201 ? Outcome::What::created : Outcome::What::updated};
}

std::vector<policy::WrittenHandle> names_of(const ImportBody& body) {
  std::set<std::string> names;
  const auto name = [&names](std::string_view hash) { names.emplace(hash); };
  for (const ImportedSession& session : body.sessions) {
    for (const json::Edit::Set& member : session.entry.set)
      policy::names_in(member.value, policy::NamedBy::entry, name);
    for (const ImportedTranscript& transcript : session.transcripts)
      for (const decide::ImportedLine& line : transcript.lines)
        policy::names_in(line.line, policy::NamedBy::message, name);
  }
  std::vector<policy::WrittenHandle> out;
  out.reserve(names.size());
  for (const std::string& hash : names) out.push_back({.sha256 = hash});
  return out;
}

// Stores the media of all lines. Blocks.
Result<Pins> store_media_of(const Api& api, MediaSettings settings, ImportBody& body) {
  Pins all;
  for (ImportedSession& session : body.sessions)
    for (ImportedTranscript& transcript : session.transcripts)
      for (decide::ImportedLine& line : transcript.lines) {
        if (!may_change(settings.content, line.line) || !json::check(line.line, {.max_depth = json::foreign_depth}))
          continue;
        TRY(Pins pins, store_media_now(api, settings, line.line));
        std::ranges::move(pins, std::back_inserter(all));
      }
  return all;
}

// The ids among these that another agent in memory has, or of which it has a transcript. Of agents that the token does
// not see whole it is told nothing.
asio::awaitable<Result<std::vector<std::string>>> elsewhere(Api& api, const http::Request& request,
                                                            const std::string& agent,
                                                            const std::vector<std::string>& ids) {
  const auto asked = [&](const std::string& other) {
    return other != agent && request.principal.sees_whole_agent(other);
  };
  std::vector<std::filesystem::path> folders;
  for (const std::string& other : co_await api.ledger.agent_ids())
    if (asked(other)) folders.push_back(sessions_folder(api, other));
  // A transcript that was imported just now may not have its name yet.
  CO_TRY(std::vector<std::string> found, co_await ledger::ids_in_memory(api.ledger, ids, asked));
  std::ranges::move(co_await on_disk(api, [&] { return api.transcript_names.found(folders, ids); }),
                    std::back_inserter(found));
  co_return found;
}

asio::awaitable<Result<void>> import_all(Api& api, const http::Request& request, const std::string& agent,
                                         ImportBody body, IfExists if_exists, Tally& tally) {
  for (const formats::Skipped& skipped : body.skips) tally.skip(skipped.id, skipped.why);
  std::vector<std::string> ids;
  ids.reserve(body.sessions.size());
  for (const ImportedSession& session : body.sessions) ids.push_back(session.id);
  CO_TRY(const auto elsewhere_too, co_await elsewhere(api, request, agent, ids));
  const std::unordered_set<std::string> other(elsewhere_too.begin(), elsewhere_too.end());
  CO_TRY(auto found, co_await ledger::files_of(api.ledger, agent, ids));
  for (ImportedSession& session : body.sessions) {
    auto import =
        std::make_shared<Import>(Import{.agent = agent, .session = std::move(session), .if_exists = if_exists});
    const std::string& id = import->session.id;
    if (other.contains(id)) {
      tally.skip(id, taken(*import));
      continue;
    }
    // Only the first of several sessions with one id: its import changes what is there.
    if (const auto files = found.find(id); files != found.end()) import->found = found.extract(files).mapped();
    auto done = co_await import_one(api, request, import);
    if (!done && !is_its_own(done.error())) co_return std::unexpected(std::move(done.error()));
    if (done)
      tell(tally, id, *done);
    else
      tally.skip(id, why_not(*import, done.error(), request.principal));
    if (request.client_gone && request.client_gone()) co_return fail(Code::request_timeout, "the client is gone");
  }
  co_return Result<void>{};
}

struct NewName {
  std::string key{}, patch{};  // the changes, an object
};
// Compares an index with a session. Nothing: the token sees no such session.
asio::awaitable<Result<std::optional<NewName>>> named_anew(Api& api, const http::Request& request,
                                                           const std::string& agent,
                                                           const formats::IndexedSession& indexed) {
  auto named = co_await api.ledger.show(
      agent, false, [&](const decide::AgentState& state, ledger::Seen&) -> Result<std::optional<NewName>> {
        const decide::Session* session = state.find_session_id(indexed.id);
        if (session == nullptr || !sees(request.principal, state, *session)) return std::nullopt;
        json::ObjectWriter out;
        if (indexed.name && *indexed.name != json::string_at(*session->entry(), "name").value_or(indexed.id))
          out.string("name", *indexed.name);
        if (indexed.description && indexed.description != json::string_at(*session->entry(), "description"))
          out.string("description", *indexed.description);
        return NewName{.key = session->key(), .patch = out.text()};
      });
  if (!named && named.error().code == Code::agent_not_found) co_return std::nullopt;
  co_return named;
}

asio::awaitable<Result<void>> import_index(Api& api, const http::Request& request, const std::string& agent,
                                           std::vector<formats::IndexedSession> sessions, Tally& tally) {
  for (const formats::IndexedSession& indexed : sessions) {
    CO_TRY(const auto named, co_await named_anew(api, request, agent, indexed));
    if (!named) {
      tally.skip(indexed.id, "is missing: an index has no messages, import the session's own file");
      continue;
    }
    if (named->patch == "{}") {
      tally.skip(indexed.id, "is named so already");
      continue;
    }
    auto done = co_await check_secrets(api, request, named->key, named->patch);
    if (done) {
      decide::PatchSession command{.target = {.key = named->key}, .patch = named->patch};
      auto reply =
          co_await api.ledger.commit(agent, {.actor = request.principal.id}, scoped(std::move(command), request));
      if (!reply) done = std::unexpected(std::move(reply.error()));
    }
    if (done) {
      tally.done(false, indexed.id);
    } else if (is_its_own(done.error())) {
      tally.skip(indexed.id, done.error().detail);
    } else {
      co_return std::unexpected(std::move(done.error()));
    }
  }
  co_return Result<void>{};
}

Result<std::vector<formats::IndexedSession>> read_index(std::string_view body) {
  auto sessions = formats::read_index(body);
  if (!sessions) return std::unexpected(formats::naming_known(std::move(sessions.error()), body));
  return sessions;
}

Result<void> check_type(const http::Request& request) {
  const std::string type =
      store::lower(store::trim(request.header("content-type").substr(0, request.header("content-type").find(';'))));
  for (const char* known : {"", "application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"})
    if (type == known) return {};
  return fail(Code::unsupported_media_type, "send application/json or application/x-ndjson");
}

// The lines that are stored of it end for no reader within a text.
std::string_view with_escapes(std::string& body) {
  json::escape_line_ends(body);
  return body;
}

HandlerResult import_sessions(Api& api, http::Request& request) {
  CO_TRY(const auto agent, agent_param(request));
  CO_TRY(const auto format, query_choice(request, "format", formats::body_formats));
  CO_TRY(const auto if_exists, query_choice(request, "ifExists", {"skip", "replace", "continue"}));
  if (if_exists == "continue" && format != "jsonl")
    co_return fail(Code::bad_request, "ifExists: only format=jsonl can be continued");
  CO_TRY(check_type(request));
  if (store::trim(request.body).empty()) co_return fail(Code::bad_request, "the body is empty");
  Tally tally;
  if (format == "index") {
    CO_TRY(auto sessions, co_await on_disk(api, [&] { return read_index(with_escapes(request.body)); }));
    CO_TRY(co_await import_index(api, request, agent, std::move(sessions), tally));
  } else {
    CO_TRY(auto body, co_await on_disk(api, [&, now = store::unix_ms()] {
             return read_import(with_escapes(request.body), format, now);
           }));
    // Readers make JSON of what was text in the body, so it is the lines that are looked at.
    CO_TRY(const Pins named,
           co_await accept_handles(api, request, co_await on_disk(api, [&] { return names_of(body); })));
    CO_TRY(const Pins pins,
           co_await on_disk(api, [&, settings = media_settings(api)] { return store_media_of(api, settings, body); }));
    const IfExists how = if_exists == "replace"    ? IfExists::replace
                         : if_exists == "continue" ? IfExists::go_on
                                                   : IfExists::skip;
    CO_TRY(co_await import_all(api, request, agent, std::move(body), how, tally));
  }
  co_return json_response(tally.text());
}

}  // namespace

void add_import_routes(http::Router& router, Api& api) {
  adding(router, api)("POST", "/v1/agents/{agent}/import", auth::Permission::write, words(import_sessions),
                      {"format", "ifExists"});
}

}  // namespace sessiond::api
