#include "daemon/api/transcript_source.hpp"

#include <fmt/format.h>

#include "daemon/api/archives.hpp"
#include "store/names.hpp"

namespace sessiond::api {

Result<std::optional<std::string>> topic_of(const http::Request& request) {
  auto topic = query_text(request, "topic");
  if (topic) TRY(store::check_topic(*topic));
  return topic;
}

asio::awaitable<Result<TranscriptSource>> source_of(Api& api, const http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto topic, topic_of(request));
  const auto guard = query_text(request, "sessionId");
  const auto of_session = [&](const decide::AgentState& state,
                              ledger::Seen& seen) -> Result<std::optional<TranscriptSource>> {
    TRY(const decide::Session* session, visible_or_archived(state, path.target, request.principal));
    if (session == nullptr) return std::nullopt;
    seen.only(*session, path.target.key);
    const std::string& id = session->session_id;
    if (guard && *guard != id) {
      return std::unexpected(Problem{.code = Code::session_reset,
                                     .detail = fmt::format("the session was reset; its id is {} now", id),
                                     .members = {{"sessionId", json::quote(id)}}});
    }
    std::string file = decide::AgentState::file_of(*session, topic);
    if (topic && !state.may_use(*session, file))
      return fail(Code::not_found, fmt::format("{} has no topic {}", session->key(), *topic));
    TranscriptSource out{.agent = path.agent,
                         .session_id = id,
                         .file = std::move(file),
                         .as_of = api.ledger.as_of(seen.seq()),
                         .entry = session->entry()};
    if (const auto* end = state.transcripts.find(out.file)) out.meter = end->meter;
    if (&state == api.ledger.parts().memory.of(path.agent)) {
      const auto* memory = api.ledger.parts().memory.transcript(path.agent, out.file);
      out.memory = memory == nullptr ? std::make_shared<const transcripts::MemoryTranscript>()
                                     : std::make_shared<const transcripts::MemoryTranscript>(*memory);
    }
    return out;
  };
  CO_TRY(auto source,
         co_await ledger::show_of(api.ledger, path.agent, path.target.key, wants_fresh(request), of_session));
  if (source) co_return std::move(*source);
  const std::string& id = path.target.key;
  if (guard && *guard != id)
    co_return fail(Code::session_reset, fmt::format("{} is archived; it is not session {}", id, *guard));
  CO_TRY(const auto archives, co_await archives_of(api, path.agent, id));
  const auto found = archives.find(topic.value_or(""));
  if (found == archives.end()) co_return no_such_session(path.agent, id);
  co_return TranscriptSource{
      .agent = path.agent, .session_id = id, .file = found->second, .as_of = api.ledger.as_of(0)};
}

}  // namespace sessiond::api
