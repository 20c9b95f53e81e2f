// The life of a session: when it will be reset, and how it is restored.
#include <fmt/format.h>

#include <ranges>

#include "daemon/api/handler.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "policy/reset.hpp"
#include "policy/routing.hpp"
#include "store/files.hpp"
#include "store/limits.hpp"
#include "store/seal/sealed.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/counts.hpp"
#include "transcripts/origins.hpp"
#include "transcripts/sums.hpp"

namespace sessiond::api {
namespace {

// The rule of a session, copied since a reload may replace it, and the times that it goes by.
struct Age {
  std::string file;  // the transcript; empty if it is known when the session began
  policy::ResetRule rule;
  std::string_view rule_from;
  policy::SessionTimes times;
  std::uint64_t seq = 0;
};

std::string rule_json(const policy::ResetRule& rule, std::string_view from) {
  json::ObjectWriter writer;
  writer.string("from", from);
  writer.string("mode", policy::name(rule.mode));
  if (rule.mode == policy::ResetRule::Mode::idle || (rule.mode == policy::ResetRule::Mode::daily && rule.idle_minutes))
    writer.integer("idleMinutes", policy::idle_minutes_of(rule));
  if (rule.mode == policy::ResetRule::Mode::daily) writer.integer("atHour", rule.at_hour);
  return writer.text();
}

HandlerResult freshness(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto age, co_await show_session(
                       api, request, path, wants_fresh(request),
                       [&](const decide::Session& session, const ledger::Seen& seen) -> Result<Age> {
                         const decide::Rules& rules = api.ledger.rules();
                         const auto chosen =
                             rules.resets.choose(session.channel, session.chat_type,
                                                 policy::is_thread(rules.routing, session.channel, session.key()));
                         const bool unknown = !session.started_at && chosen.rule.mode == policy::ResetRule::Mode::daily;
                         return Age{
                             .file = unknown ? decide::AgentState::file_of(session, {}) : "",
                             .rule = chosen.rule,
                             .rule_from = chosen.from,
                             .times = {.started = session.started_at,
                                       .last_interaction = session.last_interaction_at.value_or(session.updated_at)},
                             .seq = seen.seq()};
                       }));
  if (!age.file.empty()) {
    const auto header_time = [](transcripts::Transcript& transcript) -> Result<std::optional<std::int64_t>> {
      return transcript.started();
    };
    CO_TRY(age.times.started, co_await api.ledger.read_transcript(path.agent, age.file, header_time));
  }
  const std::int64_t now = store::unix_ms();
  const policy::UtcOffset& offset = api.ledger.rules().utc_offset;
  const policy::ResetDue due = policy::reset_due(age.rule, age.times, now, offset);
  const policy::NextReset next = policy::next_reset(age.rule, age.times, now, offset);
  json::ObjectWriter writer;
  if (due == policy::ResetDue::none)
    writer.raw("due", "null");
  else
    writer.string("due", policy::name(due));
  writer.raw("rule", rule_json(age.rule, age.rule_from));
  if (next.idle_at) writer.integer("idleAt", *next.idle_at);
  if (next.daily_at) writer.integer("dailyAt", *next.daily_at);
  writer.integer("lastInteractionAt", age.times.last_interaction);
  if (age.times.started)
    writer.integer("sessionStartedAt", *age.times.started);
  else
    writer.raw("sessionStartedAt", "null");
  co_return as_of_response(api, writer.text(), age.seq);
}

// A key, and the record of the archives that a restore of it takes.
struct Archived {
  std::string key;
  std::optional<decide::ArchiveRecord> record{};
  std::uint64_t taken_back = 0;  // AgentState::last_taken_back
};

// Finds the archives that a request names: those of a session id, or of an archive's name, or the newest of the key.
// Without a record if there are none, or the session lives.
Result<Archived> archived_session(const decide::AgentState& state, const SessionPath& path,
                                  const auth::Principal& principal, const std::optional<std::string>& session_id,
                                  const std::optional<std::string>& archive) {
  if (const auto session = visible(state, path.target, principal)) return Archived{(*session)->key()};
  auto records = state.archives.of_key(path.target.key);
  if (records.empty())
    if (const auto made = store::canonical_key(path.target.key, path.agent)) records = state.archives.of_key(*made);
  if (records.empty()) records = state.archives.of_id(path.target.key);
  for (const decide::ArchiveRecord* record : records | std::views::reverse) {
    if (record->key.empty() || record->purged || record->topic || decide::ending_of(*record).empty()) continue;
    if (!sees(principal, state, *record)) continue;
    if (session_id && record->session_id != *session_id) continue;
    if (archive && record->entry_as != *archive + std::string(transcripts::entry_suffix) &&
        std::ranges::find(record->archived_as, *archive) == record->archived_as.end())
      continue;
    return Archived{record->key, *record, state.last_taken_back};
  }
  return Archived{path.target.key};
}

// Reads the folder for the archives of a record, and the entry beside them. Blocks.
Result<decide::RestoreSession> read_archived(const std::filesystem::path& folder, const Archived& archived) {
  const decide::ArchiveRecord& record = *archived.record;
  decide::RestoreSession command{.key = archived.key,
                                 .session_id = record.session_id,
                                 .seq = record.seq,
                                 .channels = record.channels.empty() ? record.channel : record.channels,
                                 .taken_back = archived.taken_back};
  const std::string_view ending = decide::ending_of(record);
  TRY(const auto names, transcripts::list_archives(folder, record.session_id));
  for (const std::string& name : names) {
    if (!name.ends_with(ending)) continue;
    const auto topic = store::topic_of_file(record.session_id, name.substr(0, name.size() - ending.size()));
    if (topic) command.topics.push_back(*topic);
    command.archives.push_back(name);
  }
  for (const std::string& name : record.archived_as)  // a transcript that an entry gave another name
    if (std::ranges::find(command.archives, name) == command.archives.end() && store::stat_of(folder / name))
      command.archives.push_back(name);
  if (record.entry_as.empty()) return command;
  auto entry = store::read_file(folder / record.entry_as);
  if (!entry && entry.error().code == Code::not_found) return command;
  if (!entry) return std::unexpected(std::move(entry.error()));
  command.entry_as = record.entry_as;
  auto opened = seal::open_if_sealed(std::move(*entry), transcripts::entry_place((folder / record.entry_as).native()));
  command.entry = opened ? store::trim(*opened) : std::string_view();
  if (!json::check(command.entry, {.max_depth = json::foreign_depth}) ||
      json::kind(command.entry) != json::Kind::object)
    return fail(Code::degraded, fmt::format("{} is damaged; move it away to restore the transcripts without it",
                                            (folder / record.entry_as).native()));
  return command;
}

// Leaves the beginning of the conversation out of an archived entry, if its message was edited or deleted since.
asio::awaitable<Result<void>> leave_out_taken_back(Api& api, const std::string& agent,
                                                   decide::RestoreSession& command) {
  const auto beginning = json::string_at(command.entry, "firstMessage");
  const auto id = json::string_at(command.entry, "firstMessageId");
  if (!beginning) co_return Result<void>{};
  // Returns whether the beginning stands; nothing if the archive does not have the message. An old entry does not name
  // the message: any change may be of it.
  const auto read = [&](transcripts::Transcript& from, const std::string& name) -> Result<std::optional<bool>> {
    if (!id) {
      TRY(const auto changes, transcripts::read_changes(from, name));
      return changes.empty() ? std::nullopt : std::optional(false);
    }
    TRY(const auto shown, transcripts::read_shown_line(from, name, *id));
    if (shown.line.empty()) return std::nullopt;
    const auto message = json::find(shown.line, "message").value_or("{}");
    return transcripts::beginning_of(json::find(message, "content").value_or("")) == *beginning;
  };
  bool stands = !id;
  for (const std::string& archive : command.archives) {
    const std::string file = archive.substr(0, archive.size() - transcripts::archive_ending(archive).size());
    const std::string name =
        transcripts::transcript_name(command.session_id, store::topic_of_file(command.session_id, file));
    const auto found = co_await api.ledger.read_transcript(
        agent, archive, [&](transcripts::Transcript& from) { return read(from, name); });
    if (found && !*found) continue;
    stands = found && **found;  // a restore needs no transcript that can be read
    break;
  }
  if (stands) co_return Result<void>{};
  json::Edit edit;
  edit.remove("firstMessage");
  edit.remove("firstMessageId");
  command.entry = json::apply(command.entry, edit);
  co_return Result<void>{};
}

// Counts what the archives hold, and notes how far each was read. What foreign programs wrote to a transcript before it
// became an archive, or to the archive, its entry does not count.
asio::awaitable<void> count_archives(Api& api, const std::string& agent, decide::RestoreSession& command) {
  using Read = std::pair<transcripts::Counts, std::uint64_t>;
  const auto read = [](transcripts::Transcript& from) -> Result<Read> {
    TRY(const auto counts, transcripts::counts_of(from));
    return Read{counts, from.tail().size};
  };
  transcripts::Counts counts;
  bool all_read = true;
  for (const std::string& archive : command.archives) {
    const auto found = co_await api.ledger.read_transcript(agent, archive, read);
    const auto status =
        co_await on_disk(api, [path = sessions_folder(api, agent) / archive] { return store::stat_within(path); });
    if (!found || !status) {
      all_read = false;
      continue;
    }
    std::string file = archive.substr(0, archive.size() - transcripts::archive_ending(archive).size());
    const auto topic = store::topic_of_file(command.session_id, file);
    if (!topic || !store::is_stream_topic(*topic)) counts.add(found->first);
    command.read.push_back({.file = std::move(file), .inode = status->st_ino, .size = found->second});
  }
  if (all_read) command.counts = counts;
}

HandlerResult restore(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  const auto session_id = fields.string("sessionId", 128);
  const auto archive = fields.string("archive", 512);
  CO_TRY(fields.done());
  CO_TRY(const auto archived,
         co_await api.ledger.show(path.agent, true, [&](const decide::AgentState& state, const ledger::Seen&) {
           return archived_session(state, path, request.principal, session_id, archive);
         }));
  decide::RestoreSession command{.key = archived.key};  // without a record it is refused, or answered from its key
  if (archived.record) {
    const std::string own = store::transcript_file(archived.record->session_id, "");
    CO_TRY(co_await api.ledger.flusher().flush(path.agent, own));
    CO_TRY(command, co_await on_disk(api, [&archived, folder = sessions_folder(api, path.agent)] {
             return read_archived(folder, archived);
           }));
    CO_TRY(co_await leave_out_taken_back(api, path.agent, command));
    co_await count_archives(api, path.agent, command);
  }
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

// A session and the files of its transcripts, its own first.
struct SessionFiles {
  decide::Session session;
  std::vector<std::string> files{};
  std::vector<std::optional<std::string>> topics{};  // of the files; nothing: the session's own
  bool in_memory = false;
  std::string_view work{};  // decide::work_in
};
asio::awaitable<Result<SessionFiles>> files_of(Api& api, const http::Request& request, const SessionPath& path) {
  co_return co_await ledger::show_of(
      api.ledger, path.agent, path.target.key, false,
      [&](const decide::AgentState& state, ledger::Seen& seen) -> Result<SessionFiles> {
        TRY(const decide::Session* session, visible(state, path.target, request.principal));
        seen.only(*session, path.target.key);
        SessionFiles out{.session = *session,
                         .in_memory = &state == api.ledger.parts().memory.of(path.agent),
                         .work = decide::work_in(state, *session)};
        const auto add = [&](const std::optional<std::string>& topic) {
          std::string file = decide::AgentState::file_of(*session, topic);
          if (!state.may_use(*session, file) || std::ranges::find(out.files, file) != out.files.end()) return;
          out.files.push_back(std::move(file));
          out.topics.push_back(topic);
        };
        add({});
        if (const auto* topics = state.transcripts.topics(session->session_id))
          for (const std::string& topic : *topics) add(topic);
        return out;
      });
}

HandlerResult clear(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::required));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  CO_TRY(fields.done());
  decide::ClearSession command{.target = path.target};
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

HandlerResult release(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  CO_TRY(fields.done());
  CO_TRY(auto found, co_await files_of(api, request, path));
  const bool streamed = (co_await streamed_sessions(api)).contains({path.agent, found.session.key()});
  const std::string_view because = found.in_memory ? "ephemeral" : streamed ? "stream" : found.work;
  if (!because.empty())
    co_return json_response(fmt::format(R"({{"released":false,"because":{}}})", json::quote(because)));
  CO_TRY(co_await api.ledger.release(path.agent, std::move(found.session), std::move(found.files)));
  co_return json_response(R"({"released":true})");
}

HandlerResult migrate(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  CO_TRY(fields.done());
  CO_TRY(const auto found, co_await files_of(api, request, path));
  std::string changed = "[";
  for (std::size_t index = 0; index < found.files.size() && !found.in_memory; ++index) {
    CO_TRY(const auto done, co_await api.ledger.migrate(path.agent, found.files[index], found.session.session_id));
    if (!done) continue;
    json::ObjectWriter writer;
    writer.string_or_null("topic", found.topics[index]);
    writer.integer("version", done->version);
    writer.integer("entries", static_cast<std::int64_t>(done->entries));
    writer.integer("rewritten", static_cast<std::int64_t>(done->changed));
    append_element(changed, writer.text());
  }
  if (changed == "[") co_return json_response(R"({"changed":false})");
  co_return json_response(R"({"changed":true,"transcripts":)" + changed + "]}");
}

}  // namespace

void add_lifecycle_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}";
  on("GET", one + "/freshness", auth::Permission::read, freshness);
  on("POST", one + "/clear", auth::Permission::write, clear);
  on("POST", one + "/restore", auth::Permission::write, restore);
  on("POST", one + "/release", auth::Permission::write, release);
  on("POST", one + "/migrate", auth::Permission::write, migrate);
}

}  // namespace sessiond::api
