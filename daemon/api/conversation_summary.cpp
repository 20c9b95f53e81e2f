#include "daemon/api/conversation_summary.hpp"

#include <utility>

#include "daemon/api/transcript_source.hpp"
#include "store/utf8.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t lines_at_once = 8;
constexpr std::size_t most_lines = 64;  // that are looked at in one session
constexpr std::size_t most_code_points = 200;
constexpr std::size_t counted_at_once = 200;
constexpr std::size_t most_counted = 5'000;             // entries,
constexpr std::size_t most_counted_bytes = 8ULL << 20;  // and their bytes, beyond which no page is read

enum class Speaker : std::uint8_t { people, agent, team };

// Returns who says a message of view=chat to the others. Nothing: it is a note, has neither words nor attachments, is
// for the agent alone, or was not sent. `line`: as it is stored.
std::optional<Speaker> speaker_of(const json::Index& message, std::string_view line) {
  const std::string role = message.string_at("role").value_or("");
  const bool has_words = !message.string_at("text").value_or("").empty();
  if (role == "note" || (!has_words && !message.find("attachments"))) return {};
  const json::Index stored(json::find(line, "message").value_or(line));
  if (stored.string_at("state") == "superseded" || stored.find("synthetic") == "true") return {};
  if (stored.string_at("audience") == "agent") return {};
  if (role != "assistant") return Speaker::people;
  const std::string_view author = stored.find("author").value_or("null");
  const bool is_person =
      json::kind(author) == json::Kind::object && !json::string_at(author, "name").value_or("").empty();
  return is_person ? Speaker::team : Speaker::agent;
}

// Returns a message with the beginning of its text, and with the name of the person who speaks in place of the agent.
// Nothing: nobody says it, or it has no words.
std::optional<std::string> shortened(const std::string& message, std::string_view line) {
  const json::Index members(message);
  const auto speaker = speaker_of(members, line);
  const std::string text = members.string_at("text").value_or("");
  if (!speaker || text.empty()) return {};
  const std::size_t end = store::code_points_end(text, most_code_points);
  json::Edit edit;
  edit.remove("attachments");  // they may be large
  if (end < text.size()) {
    edit.put_string("text", text.substr(0, end));
    edit.put("more", "true");
  }
  if (*speaker == Speaker::team)
    edit.put("author", std::string(*json::find(json::find(line, "message").value_or(line), "author")));
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

struct MessageCounts {
  std::int64_t people = 0, agent = 0, team = 0;
  bool is_cut = false;

  std::string json() const {
    json::ObjectWriter out;
    out.integer("people", people);
    out.integer("agent", agent);
    out.integer("team", team);
    if (is_cut) out.boolean("more", true);
    return out.text();
  }
};

struct Counting {
  MessageCounts counts{};
  std::optional<std::uint64_t> before{};  // the next page ends there
  std::size_t entries = 0, bytes = 0;
  bool has_more = true;
};

// Counts the messages of the page before. Blocks.
template <class Source>
Result<Counting> count_page(Source& transcript, const std::string& name, Counting so_far) {
  const transcripts::PageQuery query{.before = so_far.before, .limit = counted_at_once, .descending = true};
  TRY(const auto page, transcript.page(query));
  TRY(const auto changes, transcripts::read_changes(transcript, name, page.lines));
  for (const transcripts::StoredLine& line : page.lines) {
    so_far.bytes += line.line.size();
    const auto* change = changes.of(line.seq, transcripts::entry_id(line.line, line.seq));
    const auto message = transcripts::view_entry(line.line, line.seq, transcripts::View::chat, change);
    const auto speaker = message ? speaker_of(json::Index(*message), line.line) : std::nullopt;
    if (speaker == Speaker::people) ++so_far.counts.people;
    if (speaker == Speaker::agent) ++so_far.counts.agent;
    if (speaker == Speaker::team) ++so_far.counts.team;
  }
  so_far.entries += page.lines.size();
  so_far.before = page.next;
  so_far.has_more = page.has_more && !page.lines.empty();
  return so_far;
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
    else if (name == "messageCounts")
      included.message_counts = true;
    else
      return fail(Code::bad_request, "include may only have snapshots, lastMessage and messageCounts");
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

asio::awaitable<std::string> message_counts(Api& api, const http::Request& request, SessionPath path,
                                            std::string session_id) {
  const auto source = co_await source_at(api, request, {.path = std::move(path), .guard = std::move(session_id)});
  if (!source) co_return "";
  const auto gone = has_gone(api, request);
  Counting so_far;
  while (so_far.has_more && so_far.entries < most_counted && so_far.bytes < most_counted_bytes) {
    if (gone()) co_return "";
    // Others get the thread between two pages.
    auto counted = co_await read_source(api, *source, [&so_far, name = source->name](auto& transcript) {
      return count_page(transcript, name, so_far);
    });
    if (!counted) co_return "";
    so_far = *std::move(counted);
  }
  so_far.counts.is_cut = so_far.has_more;
  co_return so_far.counts.json();
}

}  // namespace sessiond::api
