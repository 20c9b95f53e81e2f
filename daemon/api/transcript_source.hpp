// Finds the transcript that a GET reads: of a session or one of its topics, or an archived one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/api/handler.hpp"
#include "transcripts/memory_transcript.hpp"

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
};

// ?topic=
Result<std::optional<std::string>> topic_of(const http::Request& request);
// Errors: those of session_path(); session_not_found, not_found for a topic; session_reset if ?sessionId= names another
// one.
asio::awaitable<Result<TranscriptSource>> source_of(Api& api, const http::Request& request);

// Runs call(transcript) on a disk thread, with a Transcript or a MemoryTranscript.
template <class Call>
asio::awaitable<std::invoke_result_t<Call&, transcripts::Transcript&>> read_source(Api& api,
                                                                                   const TranscriptSource& source,
                                                                                   Call call) {
  if (source.memory != nullptr)
    co_return co_await ledger::read_memory(api.ledger.parts().env, source.memory, std::move(call));
  co_return co_await api.ledger.read_transcript(source.agent, source.file, std::move(call));
}

}  // namespace sessiond::api
