// Makes a view again, as it was when another entry was the last one: for replays of logged requests.
#include <fmt/format.h>

#include "daemon/api/asked_view.hpp"
#include "daemon/api/context.hpp"
#include "daemon/api/media.hpp"
#include "daemon/http/target.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "policy/context/view.hpp"
#include "policy/context/window.hpp"
#include "store/limits.hpp"
#include "transcripts/conversation.hpp"

namespace sessiond::api {

asio::awaitable<Result<ViewThen>> view_then(Api& api, const TranscriptSource& source, ViewQuery query,
                                            std::uint64_t through) {
  http::Request request;
  request.query = std::move(query);
  CO_TRY(auto asked, read_asked_view(request));
  const context::Settings settings = api.ledger.rules().context;
  context::ViewOptions options = asked.options;
  options.window = context::window_of(entry_of(source), settings, asked.window).tokens;
  const transcripts::ReadLimits limits{.bytes = limits::view_bytes,
                                       .messages = options.max_messages,
                                       .name = source.name,
                                       .through = through,
                                       .order = {.run = asked.run}};
  CO_TRY(auto then, co_await read_source(api, source, [&](auto& transcript) -> Result<ViewThen> {
           TRY(const auto conversation, transcripts::read_conversation(transcript, limits));
           if (conversation.cut) return std::unexpected(too_long());
           options.of_run = !asked.run.empty();
           const context::View view = context::view_of(conversation, options, settings);
           if (options.max_bytes && view.bytes > *options.max_bytes)
             return std::unexpected(too_many_bytes(view, asked));
           ViewThen then{.system = "[", .data = "["};
           for (const std::string& message : view.system) append_element(then.system, message);
           for (const context::Row& row : view.rows.all) {
             begin_element(then.data);
             context::append_json(then.data, row);
           }
           then.system += "]";
           then.data += "]";
           return then;
         }));
  if (asked.media == policy::MediaAs::handle) co_return then;
  for (std::string* json : {&then.system, &then.data}) {
    auto shown = co_await on_disk(api, [&] { return shown_media(api, std::move(*json), asked.media); });
    if (!shown.whole) co_return std::unexpected(too_long());
    *json = std::move(shown.json);
  }
  co_return then;
}

Result<std::string> complete_view_query(const Api& api, std::string query, std::string_view agent,
                                        std::string_view entry) {
  http::Request request;
  TRY(request.query, http::split_query(query));
  TRY(const auto asked, read_asked_view(request));
  if (asked.summarize) return fail(Code::bad_request, "view=summarize is no view of a request");
  if (!query_text(request, "window"))
    query += fmt::format("&window={}", context::window_of(entry, api.ledger.rules().context, {}).tokens);
  const std::string transcript =
      transcripts::transcript_name(json::string_at(entry, "sessionId").value_or(""), query_text(request, "topic"));
  if (!query_text(request, "prune"))
    query += context::is_exceeded(entry, transcript) ? "&prune=aggressive" : "&prune=auto";
  if (!query_text(request, "maxBytes")) query += fmt::format("&maxBytes={}", api.ledger.rules().context.view_bytes);
  if (const auto most = api.ledger.rules().of_agent(agent).max_messages; most && !query_text(request, "maxMessages"))
    query += fmt::format("&maxMessages={}", *most);
  return query;
}

}  // namespace sessiond::api
