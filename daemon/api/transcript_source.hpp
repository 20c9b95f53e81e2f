// Finds the transcript that a GET reads: of a session or one of its topics, or an archived one.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/api/handler.hpp"
#include "daemon/api/run_signatures.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/memory_transcript.hpp"
#include "transcripts/plain_file.hpp"

namespace sessiond::api {

struct TranscriptSource {
  std::string agent;
  std::string session_id;
  std::string file;
  std::string as_of;
  std::shared_ptr<const std::string> entry{};     // of the session; null if it is archived
  std::shared_ptr<const context::Meter> meter{};  // null: not known without reading the transcript
  // Of an ephemeral session, as it is now. Null: the transcript is a file.
  std::shared_ptr<const transcripts::MemoryTranscript> memory{};
  std::string name{};           // transcripts::transcript_name()
  SignedContents signatures{};  // of the session's active run
  context::OrderAsked order{};  // the session's runs as they are, and the run whose view is asked for
  bool first_attempt = false;   // that run is active, and no attempt of it came before
};

// Names the transcript that source_at() reads.
struct TranscriptAsked {
  SessionPath path{};
  std::optional<std::string> topic{};
  std::optional<std::string> guard{};    // the session id that the client expects
  std::optional<std::string> archive{};  // the name of an archive of the session's key, in place of its transcript
  bool fresh = false;
  bool by_runs = false;                   // TranscriptSource::order is needed
  std::optional<std::string> run{};       // whose view is asked for
  std::optional<decide::RunHold> hold{};  // that the request names: its run's view, if it is of this transcript
};

// ?topic=
Result<std::optional<std::string>> topic_of(const http::Request& request);
// Errors: those of session_path(); session_not_found, not_found for a topic or an archive; session_reset if ?sessionId=
// names another one. With `by_runs` the order of runs is known, and ?run= and X-Run count: run_not_found, lease_lost.
asio::awaitable<Result<TranscriptSource>> source_of(Api& api, const http::Request& request, bool by_runs = false);
asio::awaitable<Result<TranscriptSource>> source_at(Api& api, const http::Request& request, TranscriptAsked asked);

// A transcript's file as it is on disk, with all that was acknowledged. Clears, resets and imports give the name to
// another file: who reads it later compares the inode.
struct TranscriptFile {
  std::filesystem::path path{};
  transcripts::TranscriptTail tail{};
  ino_t inode = 0;  // 0: there is no file
};
// session_reset: it is replaced again and again.
asio::awaitable<Result<TranscriptFile>> transcript_file(Api& api, const TranscriptSource& source);

// The file without its seals, where encryption is on; else null: then the file itself can be sent. session_reset as
// above.
asio::awaitable<Result<std::shared_ptr<transcripts::PlainFile>>> plain_file(Api& api, const TranscriptFile& file);
// Makes bytes [from, until) of it the body of a reply.
void send_plain(Api& api, http::Response& response, std::shared_ptr<transcripts::PlainFile> file, std::uint64_t from,
                std::uint64_t until);

// Runs call(transcript) on a disk thread, with a Transcript or a MemoryTranscript.
template <class Call>
asio::awaitable<std::invoke_result_t<Call&, transcripts::Transcript&>> read_source(Api& api,
                                                                                   const TranscriptSource& source,
                                                                                   Call call) {
  if (source.memory != nullptr)
    co_return co_await ledger::read_memory(api.ledger.parts().env, source.memory, std::move(call));
  co_return co_await api.ledger.read_transcript(source.agent, source.file, std::move(call));
}

// Finds the entry with this id, a message as people left it. Nothing: there is none. Blocks.
template <class Source>
Result<std::optional<transcripts::StoredLine>> find_as_left(Source& transcript, const TranscriptSource& source,
                                                            const std::string& id) {
  TRY(auto line, transcript.find(id));
  if (!line) return line;
  TRY(const auto changes, transcripts::read_changes(transcript, source.name, {*line}));
  if (auto changed = transcripts::changed_line(line->line, line->seq, changes)) line->line = *std::move(changed);
  return line;
}

}  // namespace sessiond::api
