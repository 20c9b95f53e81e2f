#include "daemon/api/last_message.hpp"

#include <utility>

#include "daemon/api/transcript_source.hpp"
#include "store/utf8.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t lines_at_once = 8;
constexpr std::size_t most_lines = 64;  // that are looked at in one session
constexpr std::size_t most_code_points = 200;

// Returns whether a message is part of what people and the agent say to each other. An answer that was not sent is not,
// and neither is what only the agent is told.
bool is_for_people(std::string_view line) {
  const std::string_view message = json::find(line, "message").value_or(line);
  return json::string_at(message, "state") != "superseded" && json::string_at(message, "audience") != "agent" &&
         json::find(message, "synthetic") != "true";
}

// Returns a message of view=chat with the beginning of its text and with the name of the person who signed it. Nothing:
// it has no text. `line`: as it is stored.
std::optional<std::string> shortened(const std::string& message, std::string_view line) {
  const std::string text = json::string_at(message, "text").value_or("");
  if (text.empty() || json::string_at(message, "role") == "note") return {};
  const std::size_t end = store::code_points_end(text, most_code_points);
  json::Edit edit;
  edit.remove("attachments");  // they may be large
  if (end < text.size()) {
    edit.put_string("text", text.substr(0, end));
    edit.put("more", "true");
  }
  if (const auto author = json::find(json::find(line, "message").value_or(line), "author"))
    edit.put("author", std::string(*author));
  return json::apply(message, edit);
}

// Reads backwards until something was said. Blocks.
template <class Source>
Result<std::string> last_said(Source& transcript, const std::string& name) {
  transcripts::PageQuery query{.limit = lines_at_once, .descending = true};
  for (std::size_t looked = 0; looked < most_lines;) {
    TRY(const auto page, transcript.page(query));
    TRY(const auto changes, transcripts::read_changes(transcript, name, page.lines));
    for (const transcripts::StoredLine& line : page.lines) {
      if (!is_for_people(line.line)) continue;
      const auto* change = changes.of(line.seq, transcripts::entry_id(line.line, line.seq));
      const auto message = transcripts::view_entry(line.line, line.seq, transcripts::View::chat, change);
      if (const auto said = message ? shortened(*message, line.line) : std::nullopt) return *said;
    }
    if (!page.has_more || page.lines.empty()) break;
    looked += page.lines.size();
    query.before = page.next;
  }
  return "";
}

}  // namespace

Result<Included> included_in(const http::Request& request) {
  Included included;
  TRY(const auto names, query_names(request, "include"));
  for (const std::string& name : names) {
    if (name == "snapshots")
      included.snapshots = true;
    else if (name == "lastMessage")
      included.last_message = true;
    else
      return fail(Code::bad_request, "include may only have snapshots and lastMessage");
  }
  return included;
}

asio::awaitable<std::string> last_message(Api& api, const http::Request& request, SessionPath path,
                                          std::string session_id) {
  const auto source = co_await source_at(api, request, {.path = std::move(path), .guard = std::move(session_id)});
  if (!source) co_return "";
  const auto said = co_await read_source(
      api, *source, [name = source->name](auto& transcript) { return last_said(transcript, name); });
  co_return said ? *said : "";
}

}  // namespace sessiond::api
