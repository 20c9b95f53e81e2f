// Transcripts that are written before the commit that takes them (staging.hpp): a fork copies that of another session,
// a PUT brings one.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "daemon/api/media.hpp"
#include "daemon/api/secrets.hpp"
#include "daemon/api/transcript_source.hpp"
#include "daemon/ledger/staging.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "policy/context/entry.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/copy.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/origins.hpp"
#include "transcripts/sums.hpp"

namespace sessiond::api {
namespace {

// The session whose transcript is copied or replaced, and the files of its topics.
struct Origin {
  std::string session_id{}, key{}, file{}, cwd{};
  std::vector<std::pair<std::string, std::string>> topics{};  // and their files
  std::vector<std::string> waiting{};                         // words that wait for a run, in any of these
  std::int64_t files_per_message = 0;
  std::uint64_t taken_back = 0;  // AgentState::last_taken_back
};

asio::awaitable<Result<Origin>> origin_of(Api& api, const http::Request& request, const SessionPath& path) {
  co_return co_await ledger::show_of(
      api.ledger, path.agent, path.target.key, false,
      [&](const decide::AgentState& state, const ledger::Seen&) -> Result<Origin> {
        TRY(const decide::Session* session, visible(state, path.target, request.principal));
        if (&state == api.ledger.parts().memory.of(path.agent))
          return fail_at("", session->key() + " is ephemeral: nothing of it goes to a file");
        const decide::Rules& rules = api.ledger.rules();
        Origin out{.session_id = session->session_id,
                   .key = session->key(),
                   .file = decide::AgentState::file_of(*session, {}),
                   .cwd = json::string_at(*session->entry(), "cwd").value_or(rules.cwd),
                   .files_per_message = rules.context.files_per_message,
                   .taken_back = state.last_taken_back};
        out.waiting = state.order_of(*session, out.file).waiting;
        if (const auto* topics = state.transcripts.topics(session->session_id)) {
          for (const std::string& topic : *topics) {
            std::string file = decide::AgentState::file_of(*session, topic);
            if (file == out.file || !state.may_use(*session, file)) continue;
            std::ranges::move(state.order_of(*session, file).waiting, std::back_inserter(out.waiting));
            out.topics.emplace_back(topic, std::move(file));
          }
        }
        return out;
      });
}

// Notes that a new session names blobs: its entries are in no event.
void note_names(Api& api, const std::string& agent, const std::string& session_id, const std::set<std::string>& names) {
  for (const std::string& hash : names) api.blobs.note(hash, {.agent = agent, .name = session_id});
}

// A staged copy of the path to a message.
struct Copied : transcripts::PathCopy {
  std::shared_ptr<transcripts::StagedTranscript> staged{};  // null: the transcript has no entries
};

// A transcript that is to be copied, how far it goes, and the file that is made.
struct CopyAsked : transcripts::CopyAsked {
  transcripts::PathAsked path{};
  std::string copy{};
};

void add_session_ids(std::vector<std::string>& ids, std::span<const transcripts::CopiedLines> records) {
  for (const transcripts::CopiedLines& record : records) {
    std::string id(transcripts::parts_of(record.name).session_id);
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(std::move(id));
  }
}

asio::awaitable<Result<Copied>> copy_path(Api& api, std::string agent, CopyAsked asked) {
  const ledger::Paths& paths = api.ledger.parts().env.paths;
  std::string file = asked.file;
  const auto call = [&paths, agent, asked = std::move(asked)](transcripts::Transcript& from) -> Result<Copied> {
    Copied out;
    out.sums = asked.sums;
    TRY(const auto spans, transcripts::read_path(from, asked.path));
    if (spans.empty()) return out;
    const auto write = [&](transcripts::StagedTranscript& into) -> Result<void> {
      TRY(static_cast<transcripts::PathCopy&>(out), transcripts::copy_path(from, spans, asked, into));
      return {};
    };
    TRY(auto staged, ledger::write_staged(paths, agent, asked.copy, write));
    if (asked.sums.first_message.empty() && !out.sums.first_message.empty()) {
      TRY(const auto shown, transcripts::read_shown_line(from, asked.name, out.sums.first_id));
      const auto message = json::find(shown.line, "message").value_or("{}");
      out.sums.first_message = transcripts::beginning_of(json::find(message, "content").value_or(""));
    }
    out.staged = std::make_shared<transcripts::StagedTranscript>(std::move(staged));
    return out;
  };
  co_return co_await api.ledger.read_transcript(std::move(agent), std::move(file), call);
}

// Copies the session's own transcript, and that of the topic which has the message. Sets what the command says of them.
asio::awaitable<Result<void>> copy_all(Api& api, const std::string& agent, const Origin& origin, std::string message_id,
                                       decide::ForkSession& command, std::vector<transcripts::StagedTranscript>& files,
                                       std::set<std::string>& blobs) {
  const auto take = [&](std::optional<std::string> topic, Copied copied) {
    blobs.merge(copied.blobs);
    command.sums = std::move(copied.sums);
    command.message_id = message_id.empty() ? std::move(copied.last_id) : message_id;
    if (!copied.staged) return;
    add_session_ids(command.copied_from, copied.records);
    command.files.push_back({.topic = std::move(topic), .name = copied.staged->name()});
    files.push_back(std::move(*copied.staged));
  };
  const std::string key = store::canonical_key(command.key, agent).value_or(command.key);
  const std::string own(store::parse_key(key).topic);
  const auto copy = [&](const std::string& file, const std::optional<std::string>& topic, const std::string& to) {
    return copy_path(api, agent,
                     {{.file = file,
                       .name = transcripts::transcript_name(origin.session_id, topic),
                       .session_id = command.session_id,
                       .cwd = origin.cwd,
                       .sums = command.sums},
                      {.to = to, .waiting = origin.waiting},
                      store::transcript_file(command.session_id, topic.value_or(own))});
  };
  auto main = co_await copy(origin.file, {}, message_id);
  if (!main && main.error().code == Code::message_not_found) {
    const Problem not_found = std::move(main).error();
    for (const auto& [topic, file] : origin.topics) {
      CO_TRY(auto whole, co_await copy(origin.file, {}, ""));
      command.sums = whole.sums;
      auto part = co_await copy(file, topic, message_id);
      command.sums = {};
      if (!part && part.error().code == Code::message_not_found) continue;
      if (!part) co_return std::unexpected(std::move(part.error()));
      const auto last_prompt = whole.sums.last_prompt;
      take({}, std::move(whole));
      take(topic, std::move(*part));
      command.sums.last_prompt = last_prompt;
      co_return Result<void>{};
    }
    co_return std::unexpected(not_found);
  }
  if (!main) co_return std::unexpected(std::move(main.error()));
  take({}, std::move(*main));
  co_return Result<void>{};
}

HandlerResult fork(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  const auto message_id = fields.string("messageId", 128);
  if (message_id && !store::valid_entry_id(*message_id)) fields.fault("messageId", "is no message id");
  decide::ForkSession command{.target = path.target};
  command.key = std::string(store::trim(fields.string("key", 512).value_or("")));
  command.name = fields.string("name");
  CO_TRY(fields.done());
  CO_TRY(co_await check_secrets(api, request, command.key, fields.text()));
  if (!command.key.empty()) {
    CO_TRY(const auto key, store::canonical_key(command.key, path.agent));
    CO_TRY(may_create(request.principal, path.agent, key, ""));
  } else if (!request.principal.sees_whole_agent(path.agent)) {
    co_return fail(Code::forbidden, "a token with a key prefix or channel must name the key");
  }
  CO_TRY(auto requester, co_await requester_of(api, request));
  CO_TRY(const auto origin, co_await origin_of(api, request, path));
  command.target.key = origin.key;
  command.origin_id = origin.session_id;
  command.taken_back = origin.taken_back;
  command.session_id = decide::IdSource::secure().uuid();
  const auto staged = std::make_shared<std::vector<transcripts::StagedTranscript>>();
  std::set<std::string> named;
  CO_TRY(co_await copy_all(api, path.agent, origin, message_id.value_or(""), command, *staged, named));
  Pins pins;
  for (const std::string& hash : named) pins.push_back(api.blobs.store().pin(hash));
  const std::string session_id = command.session_id;
  CO_TRY(auto reply, co_await api.ledger.commit(path.agent, std::move(requester),
                                                ledger::keeping(staged, scoped(std::move(command), request))));
  note_names(api, path.agent, session_id, named);
  co_return to_response(std::move(reply));
}

// The entries of a PUT that the replaced transcript has too, with the same id and content.
struct CopiedEntries {
  std::vector<transcripts::CopiedLines> records{};
  std::set<std::string, std::less<>> changed{};  // ids of those that people edited or deleted
};

// Returns whether an entry of a PUT is a copy of a line, or of what is shown for it. Who replaces a message by another
// one under the same id has written a new one.
bool is_copy(std::string_view entry, const transcripts::StoredLine& line, const transcripts::ShownChanges& changes) {
  const auto content = json::find(entry, "content");
  const auto text = content && json::kind(*content) == json::Kind::string ? json::as_string(*content)
                                                                          : json::string_at(entry, "text");
  const auto same = [&](std::string_view stored) {
    const auto message = json::find(stored, "message");
    if (!message || (!content && !text)) return true;
    const std::string_view there = json::find(*message, "content").value_or("null");
    return text ? transcripts::text_of(there) == *text : json::same(there, *content);
  };
  if (same(line.line)) return true;
  const auto changed = transcripts::changed_line(line.line, line.seq, changes);
  return changed && same(*changed);
}

asio::awaitable<Result<CopiedEntries>> copied_of(Api& api, const std::string& agent, const Origin& origin,
                                                 std::string_view entries) {
  std::vector<std::pair<std::string, std::string_view>> asked;  // by id
  for (const std::string_view element : json::elements(entries))
    asked.emplace_back(json::kind(element) == json::Kind::object ? json::string_at(element, "id").value_or("") : "",
                       element);
  const auto call = [&](transcripts::Transcript& from) -> Result<CopiedEntries> {
    std::vector<std::string> wanted;
    for (const auto& [id, element] : asked)
      if (!id.empty()) wanted.push_back(id);
    TRY(const auto lines, from.find(wanted));
    TRY(const std::string header, from.header());
    const std::string name = transcripts::transcript_name(origin.session_id, {});
    const auto origins = transcripts::Origins::read(name, header);
    std::vector<transcripts::StoredLine> found;
    for (const auto& [id, line] : lines) found.push_back(line);
    TRY(const auto changes, transcripts::read_changes(from, name, found));
    CopiedEntries copied;
    for (std::uint64_t seq = 0; seq < asked.size(); ++seq) {
      const auto& [id, element] = asked[seq];
      const auto there = lines.find(id);
      if (there == lines.end() || !is_copy(element, there->second, changes)) continue;
      transcripts::add_copied(copied.records, origins.at(there->second.seq), seq, seq);
      const transcripts::ShownChange* change = changes.of(there->second.seq, id);
      if (change != nullptr && (change->deleted || !change->edit.empty())) copied.changed.insert(id);
    }
    return copied;
  };
  co_return co_await api.ledger.read_transcript(agent, origin.file, call);
}

// Writes the entries of a PUT as a transcript. Blocks. Errors: those of read_replacing_entry(); entry_id_conflict.
Result<transcripts::EntrySums> write_entries(transcripts::StagedTranscript& into, std::string_view entries,
                                             const std::string& header, std::int64_t files_per_message) {
  TRY(into.add(header));
  decide::IdSource ids = decide::IdSource::secure();
  transcripts::EntrySums sums;
  std::set<std::string> taken;
  std::string last_id;
  std::uint64_t seq = 0;
  for (const std::string_view element : json::elements(entries)) {
    const std::string pointer = fmt::format("/entries/{}", seq);
    transcripts::NewEntry entry;
    TRY(read_replacing_entry(entry, element, pointer));
    const std::string id = entry.id.empty() ? ids.entry_id() : entry.id;
    if (!taken.insert(id).second)
      return fail(Code::entry_id_conflict, fmt::format("this request has two entries with the id {}", id));
    if (entry.type == "message" && context::files_in(entry.body) > files_per_message)
      return fail_at(pointer, fmt::format("has {} files; a message may have {} (context.maxFilesPerMessage)",
                                          context::files_in(entry.body), files_per_message));
    std::string line =
        transcripts::write_entry(entry, id, entry.parent_id.value_or(last_id), seq++, store::unix_ms()).line;
    line.pop_back();
    TRY(into.add(line));
    sums.add(line);
    last_id = id;
  }
  return sums;
}

HandlerResult put_transcript(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api, Match::honoured));
  CO_TRY(auto fields, co_await body_fields(api, request));
  const auto entries = fields.array("entries");
  if (!entries) fields.fault("entries", "is needed");
  const auto expected = fields.integer("expectedSeq");
  if (expected && *expected < 0) fields.fault("expectedSeq", "must not be negative");
  CO_TRY(fields.done());
  if (!expected)
    co_return fail(Code::precondition_required, "expectedSeq is needed: the seq that the next entry would get");
  CO_TRY(const auto origin, co_await origin_of(api, request, path));
  decide::ReplaceTranscript command{.target = path.target,
                                    .origin_id = origin.session_id,
                                    .expected_seq = static_cast<std::uint64_t>(*expected),
                                    .session_id = decide::IdSource::secure().uuid(),
                                    .taken_back = origin.taken_back};
  command.target.key = origin.key;
  CO_TRY(const auto copied, co_await copied_of(api, path.agent, origin, *entries));
  add_session_ids(command.copied_from, copied.records);
  CO_TRY(const std::string header, transcripts::copy_header(command.session_id, origin.cwd, "", copied.records));
  const auto write = [&](transcripts::StagedTranscript& into) -> Result<void> {
    TRY(command.sums, write_entries(into, *entries, header, origin.files_per_message));
    if (copied.changed.contains(command.sums.first_id)) command.sums.first_message.clear();
    return {};
  };
  const auto staged = std::make_shared<std::vector<transcripts::StagedTranscript>>();
  CO_TRY(auto file,
         co_await ledger::stage(
             api.ledger, path.agent,
             store::transcript_file(command.session_id, std::string(store::parse_key(origin.key).topic)), write));
  command.file.name = file.name();
  staged->push_back(std::move(file));
  const std::string session_id = command.session_id;
  std::set<std::string> named;
  policy::names_in(*entries, policy::NamedBy::message, [&named](std::string_view hash) { named.emplace(hash); });
  CO_TRY(auto reply, co_await api.ledger.commit(path.agent, ledger::Requester{.actor = request.principal.id},
                                                ledger::keeping(staged, scoped(std::move(command), request))));
  note_names(api, path.agent, session_id, named);
  co_return to_response(std::move(reply));
}

}  // namespace

void add_fork_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}";
  on("POST", one + "/fork", auth::Permission::write, entry(fork));
  on("PUT", one + "/transcript", auth::Permission::write, words(lasting<put_transcript>));
}

}  // namespace sessiond::api
