#include "daemon/api/asked_view.hpp"

#include <fmt/format.h>

#include "daemon/api/asking.hpp"
#include "daemon/api/media.hpp"
#include "store/limits.hpp"

namespace sessiond::api {

Result<std::optional<std::int64_t>> asked_window(const http::Request& request) {
  return query_int(request, "window", 1, longest_window);
}

std::string_view entry_of(const TranscriptSource& source) {
  return source.entry ? *source.entry : std::string_view("{}");
}

Result<AskedView> read_asked_view(const http::Request& request) {
  for (const std::string_view name : {"after", "before", "limit", "order", "types"})
    if (query_text(request, name))
      return fail(Code::bad_request, fmt::format("?{}= does not go with view=llm: it has no pages", name));
  AskedView asked{.summarize = query_text(request, "view") == "summarize",
                  .until = query_text(request, "until").value_or(""),
                  .run = query_text(request, "run").value_or("")};
  if (asked.until.empty() != !asked.summarize)
    return fail(Code::bad_request,
                asked.summarize ? "view=summarize needs ?until=" : "?until= goes with view=summarize");
  TRY(asked.window, asked_window(request));
  TRY(asked.media, media_of(request));
  TRY(const auto style, query_choice(request, "style", {"pair", "assistant"}));
  if (style == "assistant") asked.options.style = context::Style::assistant;
  TRY(const auto prune, query_choice(request, "prune", {"auto", "off", "soft", "hard", "aggressive"}));
  using context::Prune;
  asked.options.prune = prune == "off"          ? Prune::off
                        : prune == "soft"       ? Prune::soft
                        : prune == "hard"       ? Prune::hard
                        : prune == "aggressive" ? Prune::aggressive
                                                : Prune::automatic;
  TRY(asked.options.max_tool_chars, query_int(request, "maxToolChars", 1, longest_window));
  TRY(asked.options.max_messages, query_int(request, "maxMessages", 1, 1'000'000));
  TRY(asked.options.max_bytes, query_int(request, "maxBytes", 1, std::int64_t{1} << 40));
  return asked;
}

Problem too_many_bytes(const context::View& view, const AskedView& asked) {
  const context::ViewOptions& options = asked.options;
  const std::string_view remedy =
      asked.summarize ? "delete the message that is too large, or give a greater maxBytes (context.viewBytes)"
      : options.prune == context::Prune::off
          ? "ask without prune=off, and old media and results are left out"
          : "leave out older turns (maxMessages), ask with prune=aggressive, or give a greater maxBytes "
            "(context.viewBytes); a message of the last turn that is too large can only be deleted";
  return {.code = Code::view_too_large,
          .detail = fmt::format("the messages have {} bytes with their media, and may have {}: {}", view.bytes,
                                *options.max_bytes, remedy),
          .members = {{"bytes", std::to_string(view.bytes)}, {"maxBytes", std::to_string(*options.max_bytes)}}};
}

Problem too_long() {
  return {
      .code = Code::view_too_large,
      .detail = fmt::format("the conversation since its last compaction has more than {} bytes; compact it, or give "
                            "maxMessages",
                            limits::view_bytes)};
}

}  // namespace sessiond::api
