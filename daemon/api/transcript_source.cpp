#include "daemon/api/transcript_source.hpp"

#include <fmt/format.h>

#include "daemon/api/archives.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "store/files.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

// Finds an archive by its name among the records of a key or a session id. A session that was cleared has the id of its
// archives still, so the id does not name them.
Result<std::optional<TranscriptSource>> archive_in(Api& api, const auth::Principal& principal,
                                                   const decide::AgentState& state,
                                                   const std::vector<const decide::ArchiveRecord*>& records,
                                                   const std::string& archive, std::uint64_t seq) {
  for (const decide::ArchiveRecord* record : records) {
    if (!sees(principal, state, *record)) continue;
    if (record->purged || std::ranges::find(record->archived_as, archive) == record->archived_as.end()) continue;
    return TranscriptSource{
        .agent = state.id(),
        .session_id = record->session_id,
        .file = archive,
        .as_of = api.ledger.as_of(seq),
        .name = transcripts::transcript_name(record->session_id, decide::topic_of(*record, archive))};
  }
  return fail(Code::not_found, "it has no archive " + archive);
}

// Notes what the session's runs say of the order of its conversation, and whose view is asked for.
Result<void> note_runs(const decide::AgentState& state, const auth::Principal& principal,
                       const decide::Session& session, const TranscriptAsked& asked, TranscriptSource& into) {
  const decide::SessionRuns* runs = state.runs.find(session.key());
  into.order = state.order_of(session, into.file);
  const auto is_here = [&](const std::optional<std::string>& topic) {
    return decide::AgentState::file_of(session, topic) == into.file;
  };
  const auto show = [&](const decide::Run& active) {
    into.order.run = active.id;
    into.first_attempt = active.attempt == 1;
  };
  if (asked.hold) {
    TRY(const decide::Run* held, decide::held_run(state, session, *asked.hold, principal.id));
    if (is_here(held->topic)) show(*held);
  }
  if (!asked.run) return {};
  if (runs != nullptr && runs->active && runs->active->id == *asked.run && is_here(runs->active->topic)) {
    show(*runs->active);
    return {};
  }
  into.order.run = *asked.run;
  into.first_attempt = false;
  const std::string* ended = runs == nullptr ? nullptr : runs->find_ended(*asked.run);
  const bool has_begun = ended != nullptr && json::int_at(*ended, "startedAt") &&
                         json::string_at(*ended, "sessionId") == session.session_id;
  if (has_begun && is_here(json::string_at(*ended, "topic"))) return {};
  return fail(Code::run_not_found,
              fmt::format("{} has no run {} that has begun in this conversation", session.key(), *asked.run));
}

}  // namespace

Result<std::optional<std::string>> topic_of(const http::Request& request) {
  auto topic = query_text(request, "topic");
  if (topic) TRY(store::check_topic(*topic));
  return topic;
}

asio::awaitable<Result<TranscriptSource>> source_of(Api& api, const http::Request& request, bool by_runs) {
  TranscriptAsked asked{.guard = query_text(request, "sessionId"),
                        .archive = query_text(request, "archive"),
                        .fresh = wants_fresh(request)};
  CO_TRY(asked.path, session_path(request, api));
  CO_TRY(asked.topic, topic_of(request));
  asked.by_runs = by_runs;
  if (by_runs) {
    asked.run = query_text(request, "run");
    CO_TRY(asked.hold, run_of(request));
  }
  if (asked.archive && (asked.topic || asked.guard))
    co_return fail(Code::bad_request, "archive goes without topic and sessionId");
  co_return co_await source_at(api, request, std::move(asked));
}

asio::awaitable<Result<TranscriptSource>> source_at(Api& api, const http::Request& request, TranscriptAsked asked) {
  const auto& [path, topic, guard, archive, fresh, by_runs, run, hold] = asked;
  TranscriptSource archived;
  archived.agent = path.agent;
  archived.session_id = path.target.key;
  const auto of_session = [&](const decide::AgentState& state,
                              ledger::Seen& seen) -> Result<std::optional<TranscriptSource>> {
    TRY(const decide::Session* session, visible_or_archived(state, path.target, request.principal));
    if (session == nullptr && archive) {  // the path names the session that was, or its key
      auto records = state.archives.of_id(path.target.key);
      if (records.empty()) records = state.archives.of_key(path.target.key);
      return archive_in(api, request.principal, state, records, *archive, seen.seq());
    }
    if (session == nullptr) {
      const auto records = state.archives.of_id(path.target.key);
      const bool is_own = topic && !records.empty() && decide::was_own(*records.back(), *topic);
      archived.name = transcripts::transcript_name(path.target.key, is_own ? std::nullopt : topic);
      return std::nullopt;
    }
    seen.only(*session, path.target.key);
    const std::string& id = session->session_id;
    if (guard && *guard != id) {
      return std::unexpected(Problem{.code = Code::session_reset,
                                     .detail = fmt::format("the session was reset; its id is {} now", id),
                                     .members = {{"sessionId", json::quote(id)}}});
    }
    if (archive)
      return archive_in(api, request.principal, state, state.archives.of_key(session->key()), *archive, state.last_seq);
    std::string file = decide::AgentState::file_of(*session, topic);
    if (topic && !state.may_use(*session, file))
      return fail(Code::not_found, fmt::format("{} has no topic {}", session->key(), *topic));
    TranscriptSource out{
        .agent = path.agent,
        .session_id = id,
        .file = std::move(file),
        .as_of = api.ledger.as_of(seen.seq()),
        .entry = session->entry(),
        .name = transcripts::transcript_name(id, topic == session->own_topic() ? std::nullopt : topic)};
    if (const auto* end = state.transcripts.find(out.file)) out.meter = end->meter;
    // A session of another program has no counts: reading it changes nothing.
    if (session->message_count) api.ledger.follower().put_counts_right_soon(path.agent, *session);
    if (asked.by_runs) TRY(note_runs(state, request.principal, *session, asked, out));
    const auto* runs = api.run_signatures.is_empty() ? nullptr : state.runs.find(session->key());
    if (runs != nullptr && runs->active)
      out.signatures = api.run_signatures.of(path.agent, session->key(), runs->active->id);
    if (&state == api.ledger.parts().memory.of(path.agent)) {
      const auto* memory = api.ledger.parts().memory.transcript(path.agent, out.file);
      out.memory = memory == nullptr ? std::make_shared<const transcripts::MemoryTranscript>()
                                     : std::make_shared<const transcripts::MemoryTranscript>(*memory);
    }
    return out;
  };
  CO_TRY(auto source, co_await ledger::show_of(api.ledger, path.agent, path.target.key, fresh, of_session));
  if (source && archive && run) co_return fail(Code::run_not_found, "an archive has no runs");
  if ((archive || !source) && hold) co_return fail(Code::lease_lost, "an archive has no runs");
  if (source) co_return std::move(*source);
  if (run) co_return fail(Code::run_not_found, "an archived session has no runs");
  const std::string& id = path.target.key;
  if (guard && *guard != id)
    co_return fail(Code::session_reset, fmt::format("{} is archived; it is not session {}", id, *guard));
  CO_TRY(const auto archives, co_await archives_of(api, path.agent, id));
  const auto found = archives.find(topic.value_or(""));
  if (found == archives.end()) co_return no_such_session(path.agent, id);
  archived.file = found->second;
  archived.as_of = api.ledger.as_of(0);
  co_return archived;
}

asio::awaitable<Result<TranscriptFile>> transcript_file(Api& api, const TranscriptSource& source) {
  constexpr int most_tries = 10;
  TranscriptFile file{.path = sessions_folder(api, source.agent) / source.file};
  const auto inode = [&file]() -> ino_t {
    const auto status = store::stat_within(file.path);
    return status ? status->st_ino : 0;
  };
  for (int tries = 0; tries < most_tries; ++tries) {
    file.inode = co_await on_disk(api, inode);
    CO_TRY(file.tail, co_await transcript_tail(api, source.agent, source.file));
    if (file.inode == co_await on_disk(api, inode)) co_return file;
  }
  co_return fail(Code::session_reset, "the transcript is being replaced; try again");
}

}  // namespace sessiond::api
