// Sessions as documents: S/export, and the index of an agent's sessions.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/api/document_export.hpp"
#include "daemon/api/snapshots.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "daemon/runtime/log.hpp"
#include "formats/conversation.hpp"
#include "formats/documents.hpp"
#include "formats/index.hpp"
#include "formats/jsonl.hpp"
#include "policy/entry_rules.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t piece_bytes = 256 << 10;  // of a file that is sent

// --- json, robota, manager, relavium-yaml, conversation ---

// The entry of a session as an import takes it.
std::string exported_entry(std::string_view entry, bool with_parent) {
  json::Edit edit{.unset = {"sessionFile"}};
  for (const json::Member& member : json::members(entry)) {
    std::string name = json::unescape(member.name);
    if (policy::never_imported(name)) edit.unset.push_back(std::move(name));
  }
  if (!with_parent) edit.unset.insert(edit.unset.end(), {"spawnedBy", "spawnDepth"});
  return json::apply(entry, edit);
}

// Writes what is left of a document. Returns false when it broke off: the client is gone, or it cannot be read.
asio::awaitable<bool> send_rest(auto& document, http::StreamWriter& writer) {
  for (;;) {
    const auto piece = co_await document.next();
    if (!piece) log::error("export_broken_off", {{"error", piece.error().detail}});
    if (!piece) co_return false;
    if (piece->empty()) co_return true;
    if (!co_await writer.write({*piece})) co_return false;
  }
}

// A stream of a session that is there.
struct StreamSource {
  std::string name{};
  TranscriptSource source{};
};
asio::awaitable<Result<std::vector<StreamSource>>> streams_of(Api& api, const http::Request& request,
                                                              const SessionPath& path, const std::string& session_id) {
  std::vector<StreamSource> all;
  for (const std::string_view name : store::stream_names()) {
    auto source =
        co_await source_at(api, request, {.path = path, .topic = store::stream_topic(name), .guard = session_id});
    if (!source && http::status_of(source.error().code) == 404) continue;  // of an archive
    if (!source) co_return std::unexpected(std::move(source.error()));
    bool exists = source->memory != nullptr && !source->memory->text().empty();
    if (source->memory == nullptr) {
      CO_TRY(const TranscriptFile file, co_await transcript_file(api, *source));
      exists = file.tail.exists;
    }
    if (exists) all.push_back({.name = std::string(name), .source = std::move(*source)});
  }
  co_return all;
}

// A document, and behind it the streams of the session that are a part of it.
class WholeDocument {
 public:
  WholeDocument(Api& api, const formats::DocumentFormat& format, bool with_media, std::vector<StreamSource> streams)
      : api_(api), format_(format), with_media_(with_media), streams_(std::move(streams)) {}

  asio::awaitable<Result<void>> begin(TranscriptSource source, formats::SessionFacts facts) {
    for (const StreamSource& stream : streams_) facts.streams.push_back(stream.name);
    co_return co_await open(std::move(source), format_.write(std::move(facts)));
  }
  // As DocumentExport::next().
  asio::awaitable<Result<std::string>> next() {
    for (;;) {
      CO_TRY(std::string piece, co_await part_->next());
      if (!piece.empty() || opened_ == streams_.size()) co_return piece;
      const StreamSource& stream = streams_[opened_++];
      CO_TRY(co_await open(stream.source, format_.write_stream(stream.name, opened_ == streams_.size())));
    }
  }

 private:
  asio::awaitable<Result<void>> open(TranscriptSource source, std::unique_ptr<formats::Writer> writer) {
    part_ = std::make_unique<DocumentExport>(api_, std::move(source), with_media_,
                                             std::string_view(format_.content_type).contains("json"));
    co_return co_await part_->begin(std::move(writer));
  }

  Api& api_;
  const formats::DocumentFormat& format_;
  bool with_media_;
  std::vector<StreamSource> streams_;
  std::size_t opened_ = 0;  // of the streams
  std::unique_ptr<DocumentExport> part_{};
};

asio::awaitable<Result<http::Response>> export_document(Api& api, const TranscriptSource& source,
                                                        std::vector<StreamSource> streams,
                                                        const formats::DocumentFormat& format) {
  const bool is_whole = std::string_view(format.name) != "relavium-yaml" && api.blobs.active();  // with media
  const auto document = std::make_shared<WholeDocument>(api, format, is_whole, std::move(streams));
  formats::SessionFacts facts{
      .id = source.session_id, .agent = source.agent, .header = co_await header_of(api, source)};
  if (source.entry != nullptr) facts.entry = *source.entry;
  if (is_whole) facts.entry = co_await on_disk(api, [&] { return whole_entry(api, std::move(facts.entry)); });
  CO_TRY(co_await document->begin(source, std::move(facts)));
  // A short one has a length; of a long one, its end shows whether it is whole.
  CO_TRY(std::string first, co_await document->next());
  CO_TRY(std::string second, co_await document->next());
  http::Response response;
  response.content_type = format.content_type;
  if (second.empty()) {
    response.body = std::move(first);
    co_return response;
  }
  response.stream = [document, first = std::move(first),
                     second = std::move(second)](http::StreamWriter& writer) mutable -> asio::awaitable<void> {
    if (!co_await writer.write({first, second})) co_return;
    first.clear();
    second.clear();
    co_await send_rest(*document, writer);
  };
  co_return response;
}

// --- jsonl ---

// A transcript file as it is sent: the header, and what follows it in the file.
struct Piece {
  std::string text{};
  std::filesystem::path file{};
  std::uint64_t offset = 0, end = 0;
  bool ends_in_newline = true;
  ino_t inode = 0;                                  // a clear gives the name to another file
  std::shared_ptr<transcripts::PlainFile> plain{};  // set: the file is sealed, and this is read in its place
};

struct SharedFile {
  store::Fd fd{};
  std::shared_ptr<transcripts::PlainFile> plain{};  // read in its place
  std::string left{};                               // the beginning of a line whose end was not read yet
};

// Opens the file. Null: it is gone, or another one has the name by now.
asio::awaitable<std::shared_ptr<SharedFile>> open_piece(Api& api, const Piece& piece) {
  if (piece.plain) co_return std::make_shared<SharedFile>(SharedFile{.plain = piece.plain});
  co_return co_await on_disk(api, [&piece]() -> std::shared_ptr<SharedFile> {
    auto opened = store::open_within(piece.file, O_RDONLY | O_NONBLOCK);
    if (!opened) return nullptr;
    const auto status = store::status_of(opened->get(), piece.file.native());
    if (!status || status->st_ino != piece.inode) return nullptr;
    return std::make_shared<SharedFile>(SharedFile{.fd = std::move(*opened)});
  });
}

// Puts media in the place of handles in the whole lines of a text, which are taken from it. Blocks.
std::string whole_lines(const Api& api, std::string& text, bool is_last) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
    out += shown_media(api, text.substr(from, end - from), policy::MediaAs::inlined).json + "\n";
    from = end + 1;
  }
  text.erase(0, from);
  if (is_last && !text.empty()) out += shown_media(api, std::exchange(text, {}), policy::MediaAs::inlined).json;
  return out;
}

// Sends the part of a file, with media if there may be blobs. False: it became shorter, or the client is gone.
asio::awaitable<bool> send_file(Api& api, const Piece& piece, std::shared_ptr<SharedFile> file, bool with_media,
                                http::StreamWriter& writer) {
  for (std::uint64_t at = piece.offset; at < piece.end;) {
    const auto read = [&api, &piece, file, &at, with_media]() -> Result<std::string> {
      const std::size_t size = std::min<std::uint64_t>(piece_bytes, piece.end - at);
      TRY(std::string bytes,
          file->plain ? file->plain->read(at, size) : store::read_at(file->fd.get(), at, size, piece.file.native()));
      bytes.resize(std::min(bytes.size(), size));
      if (bytes.empty()) return fail(Code::degraded, "the file became shorter");
      at += bytes.size();
      if (!with_media) return bytes;
      file->left += bytes;
      return whole_lines(api, file->left, at == piece.end);
    };
    Result<std::string> got = fail(Code::session_reset, "the file was replaced");
    if (file) got = co_await on_disk(api, read);
    if (!got) {
      log::error("export_broken_off", {{"path", piece.file.string()}, {"what", got.error().detail}});
      co_return false;
    }
    if (!got->empty() && !co_await writer.write({*got})) co_return false;
  }
  co_return true;
}

// A session with all of its transcripts, as an import takes it.
struct Whole {
  std::string key{}, entry{}, session_id{};
  std::vector<std::string> topics{};
};
asio::awaitable<Result<Whole>> whole_session(Api& api, const http::Request& request, const SessionPath& path) {
  co_return co_await ledger::show_of(
      api.ledger, path.agent, path.target.key, wants_fresh(request),
      [&](const decide::AgentState& state, ledger::Seen&) -> Result<Whole> {
        TRY(const decide::Session* session, visible(state, path.target, request.principal));
        Whole whole{.key = session->key(),
                    .entry = exported_entry(*session->entry(), sees_parent(request.principal, path.agent, *session)),
                    .session_id = session->session_id};
        const auto* names = state.transcripts.topics(session->session_id);
        const std::string own = decide::AgentState::file_of(*session, {});
        if (names != nullptr)
          for (const std::string& topic : *names)
            if (const std::string file = decide::AgentState::file_of(*session, topic);
                file != own && state.may_use(*session, file))
              whole.topics.push_back(topic);
        return whole;
      });
}

// The conversations of a session: its own, then those of its topics. Each is read when the one before was sent.
class Conversations {
 public:
  struct Part {
    std::optional<std::string> topic{};
    TranscriptSource source;
  };
  Conversations(Api& api, Whole whole, std::vector<Part> parts)
      : api_(api), whole_(std::move(whole)), parts_(std::move(parts)) {}

  asio::awaitable<Result<void>> begin() { co_return co_await open(0); }
  asio::awaitable<void> send(http::StreamWriter& writer) {
    for (std::size_t next = 1; co_await send_rest(*document_, writer) && next < parts_.size(); ++next) {
      const auto opened = co_await open(next);
      if (!opened) log::error("export_broken_off", {{"key", whole_.key}, {"error", opened.error().detail}});
      if (!opened) co_return;
    }
  }

 private:
  asio::awaitable<Result<void>> open(std::size_t at) {
    const Part& part = parts_[at];
    document_ = std::make_unique<DocumentExport>(api_, part.source, api_.blobs.active());
    co_return co_await document_->begin(formats::write_conversation({.id = whole_.session_id,
                                                                     .agent = part.source.agent,
                                                                     .entry = whole_.entry,
                                                                     .header = co_await header_of(api_, part.source),
                                                                     .key = whole_.key,
                                                                     .topic = part.topic,
                                                                     .more = parts_.size() - at - 1}));
  }

  Api& api_;
  Whole whole_;
  std::vector<Part> parts_;
  std::unique_ptr<DocumentExport> document_{};
};

HandlerResult export_conversations(Api& api, const http::Request& request, const SessionPath& path) {
  CO_TRY(Whole whole, co_await whole_session(api, request, path));
  std::vector<Conversations::Part> parts;
  const auto add = [&](std::optional<std::string> topic) -> asio::awaitable<Result<void>> {
    CO_TRY(auto source, co_await source_at(api, request,
                                           {.path = path, .topic = topic, .guard = whole.session_id, .by_runs = true}));
    parts.push_back({.topic = std::move(topic), .source = std::move(source)});
    co_return Result<void>{};
  };
  CO_TRY(co_await add({}));
  for (const std::string& topic : whole.topics) CO_TRY(co_await add(topic));
  if (api.blobs.active()) whole.entry = co_await on_disk(api, [&] { return whole_entry(api, std::move(whole.entry)); });
  const auto all = std::make_shared<Conversations>(api, std::move(whole), std::move(parts));
  CO_TRY(co_await all->begin());
  http::Response response;
  response.content_type = formats::jsonl_type;
  response.stream = [all](http::StreamWriter& writer) -> asio::awaitable<void> { co_await all->send(writer); };
  co_return response;
}

asio::awaitable<Result<std::optional<Piece>>> piece_of(Api& api, const http::Request& request, SessionPath path,
                                                       std::optional<std::string> topic, formats::SessionHead head) {
  CO_TRY(const auto source,
         co_await source_at(api, request, {.path = std::move(path), .topic = std::move(topic), .guard = head.id}));
  Piece piece;
  if (source.memory != nullptr) {
    const auto text = [](const transcripts::MemoryTranscript& transcript) -> Result<std::string> {
      return transcript.text();
    };
    CO_TRY(piece.text, co_await ledger::read_memory(api.ledger.parts().env, source.memory, text));
    head.header = header_in(piece.text);
    const std::size_t replaced = head.header.empty() ? 0 : head.header.size() + 1;
    piece.text.replace(0, replaced, formats::header_with(head) + "\n");
    co_return piece;
  }
  CO_TRY(const TranscriptFile file, co_await transcript_file(api, source));
  const transcripts::TranscriptTail& tail = file.tail;
  if (!tail.exists && head.topic) co_return std::nullopt;
  const std::string header = co_await header_of(api, source);
  CO_TRY(const TranscriptFile again, co_await transcript_file(api, source));
  if (again.inode != file.inode) co_return fail(Code::session_reset, "the transcript was replaced; try again");
  head.header = header;
  piece.text = formats::header_with(head) + "\n";
  piece.file = file.path;
  piece.inode = file.inode;
  piece.offset = header.empty() ? 0 : header.size() + 1;
  piece.end = std::max(tail.size, piece.offset);
  if (!tail.exists) piece.end = piece.offset;
  CO_TRY(piece.plain, co_await plain_file(api, file));
  if (piece.plain) {
    piece.offset = piece.plain->header_size();
    piece.end = piece.plain->size();
  }
  piece.ends_in_newline = tail.ends_in_newline || piece.end == piece.offset;
  co_return piece;
}

// A session with its entry and its topics: all that an import needs.
HandlerResult export_whole(Api& api, const http::Request& request, const SessionPath& path) {
  CO_TRY(Whole whole, co_await whole_session(api, request, path));
  const bool with_media = api.blobs.active();
  if (with_media) whole.entry = co_await on_disk(api, [&] { return whole_entry(api, std::move(whole.entry)); });
  auto pieces = std::make_shared<std::vector<Piece>>();
  http::Response response;
  response.content_type = formats::jsonl_type;
  response.stream_length = 0;
  const auto add = [&](std::optional<Piece> piece) {
    if (!piece) return;
    if (!pieces->empty() && !pieces->back().ends_in_newline) piece->text.insert(0, "\n");
    *response.stream_length += piece->text.size() + (piece->end - piece->offset);
    pieces->push_back(std::move(*piece));
  };
  formats::SessionHead head{.id = whole.session_id, .key = whole.key, .entry = whole.entry};
  CO_TRY(auto own, co_await piece_of(api, request, path, {}, head));
  add(std::move(own));
  for (const std::string& topic : whole.topics) {
    head.topic = topic;
    CO_TRY(auto piece, co_await piece_of(api, request, path, topic, head));
    add(std::move(piece));
  }
  if (with_media) response.stream_length.reset();
  response.stream = [&api, pieces, with_media](http::StreamWriter& writer) -> asio::awaitable<void> {
    for (const Piece& piece : *pieces) {
      if (!co_await writer.write({piece.text})) co_return;
      if (piece.file.empty()) continue;
      auto file = co_await open_piece(api, piece);
      if (!co_await send_file(api, piece, std::move(file), with_media, writer)) co_return;
    }
  };
  co_return response;
}

asio::awaitable<Result<http::Response>> export_transcript(Api& api, const TranscriptSource& source) {
  http::Response response;
  response.content_type = formats::jsonl_type;
  if (source.memory != nullptr) {
    const auto text = [](const transcripts::MemoryTranscript& transcript) -> Result<std::string> {
      return transcript.text();
    };
    CO_TRY(response.body, co_await ledger::read_memory(api.ledger.parts().env, source.memory, text));
    co_return response;
  }
  CO_TRY(const TranscriptFile file, co_await transcript_file(api, source));
  if (!file.tail.exists) co_return fail(Code::not_found, "this session has no transcript yet");
  CO_TRY(auto plain, co_await plain_file(api, file));
  if (plain && !api.blobs.active()) {
    const std::uint64_t size = plain->size();
    send_plain(api, response, std::move(plain), 0, size);
    co_return response;
  }
  if (api.blobs.active()) {
    const auto piece = std::make_shared<Piece>(
        Piece{.file = file.path, .end = plain ? plain->size() : file.tail.size, .inode = file.inode, .plain = plain});
    const auto opened = co_await open_piece(api, *piece);
    if (!opened) co_return fail(Code::session_reset, "the transcript was replaced; try again");
    response.stream = [&api, piece, opened](http::StreamWriter& writer) -> asio::awaitable<void> {
      co_await send_file(api, *piece, opened, true, writer);
    };
    co_return response;
  }
  response.file = http::Response::FileBody{.path = file.path.string(), .inode = file.inode, .length = file.tail.size};
  co_return response;
}

HandlerResult export_session(Api& api, http::Request& request) {
  CO_TRY(const auto name,
         query_choice(request, "format", {"json", "robota", "manager", "jsonl", "relavium-yaml", "conversation"}));
  CO_TRY(const auto with_entry, query_bool(request, "entry"));
  CO_TRY(const auto path, session_path(request, api));
  if (with_entry.value_or(false)) {
    if (name != "jsonl" && name != "conversation")
      co_return fail(Code::bad_request, "entry: only the formats jsonl and conversation have it");
    if (request.query_value("topic") != nullptr)
      co_return fail(Code::bad_request, "entry and topic exclude each other");
    co_return co_await (name == "jsonl" ? export_whole(api, request, path) : export_conversations(api, request, path));
  }
  TranscriptAsked asked{
      .path = path, .guard = query_text(request, "sessionId"), .fresh = wants_fresh(request), .by_runs = true};
  CO_TRY(asked.topic, topic_of(request));
  const bool is_own = !asked.topic;
  CO_TRY(const auto source, co_await source_at(api, request, std::move(asked)));
  if (const auto* format = formats::document_format(name)) {
    std::vector<StreamSource> streams;
    if (format->write_stream != nullptr && is_own) {
      CO_TRY(streams, co_await streams_of(api, request, path, source.session_id));
    }
    co_return co_await export_document(api, source, std::move(streams), *format);
  }
  co_return co_await export_transcript(api, source);
}

// --- index ---

struct Indexed {
  std::string id{};
  std::shared_ptr<const std::string> entry{};
};

// Collects the sessions that the token sees, limits::slice_sessions at a time, so that others get their turn.
asio::awaitable<Result<std::vector<Indexed>>> indexed_sessions(Api& api, const http::Request& request,
                                                               const std::string& agent) {
  std::vector<Indexed> all;
  std::optional<std::string> after;
  bool fresh = wants_fresh(request);
  for (bool ended = false; !ended; fresh = false) {
    std::vector<Indexed> found;
    std::optional<std::string> last;
    const auto collect = [&](const decide::AgentState& state, ledger::Seen&) -> Result<bool> {
      found.clear();
      last = after;
      const auto& sessions = state.by_name();
      auto at = after ? sessions.upper_bound(*after) : sessions.begin();
      for (std::size_t looked = 0; looked < limits::slice_sessions && at != sessions.end(); ++looked, ++at) {
        last = std::string(at->first);
        if (sees(request.principal, state, *at->second))
          found.push_back({.id = at->second->session_id, .entry = at->second->entry()});
      }
      return at == sessions.end();
    };
    auto done = co_await api.ledger.show(agent, fresh, collect);
    // To a token that sees only a part, an agent that is not there is one of which it sees nothing.
    if (!done && done.error().code == Code::agent_not_found && !request.principal.sees_whole_agent(agent)) done = true;
    if (!done) co_return std::unexpected(std::move(done.error()));
    std::ranges::move(found, std::back_inserter(all));
    after = std::move(last);
    ended = *done;
  }
  co_return all;
}

HandlerResult export_index(Api& api, http::Request& request) {
  CO_TRY(const auto agent, agent_param(request));
  CO_TRY(query_choice(request, "format", {"index"}));
  CO_TRY(auto found, co_await indexed_sessions(api, request, agent));
  const auto all = std::make_shared<std::vector<Indexed>>(std::move(found));
  http::Response response;
  response.stream = [&api, all](http::StreamWriter& writer) -> asio::awaitable<void> {
    std::int64_t updated = 0;
    std::size_t at = 0;
    std::string text(formats::index_begin);
    const auto render = [&] {
      for (; at < all->size() && text.size() < limits::page_bytes; ++at) {
        const Indexed& session = (*all)[at];
        if (at > 0) text += ',';
        text += formats::index_element({.id = session.id, .entry = *session.entry});
        updated = std::max(updated, formats::last_activity(*session.entry));
      }
      return true;
    };
    while (at < all->size()) {
      co_await on_disk(api, render);
      if (!co_await writer.write({text})) co_return;
      text.clear();
    }
    text += formats::index_end(updated);
    co_await writer.write({text});
  };
  co_return response;
}

}  // namespace

void add_export_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/agents/{agent}/sessions/{key}/export", auth::Permission::read, export_session,
     {"format", "entry", "topic", "sessionId"});
  on("GET", "/v1/agents/{agent}/export", auth::Permission::read, export_index, {"format"});
}

}  // namespace sessiond::api
