// Messages and transcripts of a session. For reading, {key} may also be the session id of an archived transcript.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/api/byte_range.hpp"
#include "daemon/api/context.hpp"
#include "daemon/api/media.hpp"
#include "daemon/api/transcript_source.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/number.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::api {
namespace {

// Reads `deliver`: true, false, or where to.
Result<std::optional<decide::DeliverTo>> read_deliver(std::string_view value) {
  if (const auto flag = json::as_bool(value)) return *flag ? std::optional(decide::DeliverTo{}) : std::nullopt;
  if (json::kind(value) != json::Kind::object) return fail_at("/deliver", "must be true, false or an object");
  TRY(auto fields, Fields::of(value, "/deliver"));
  decide::DeliverTo deliver;
  deliver.to = fields.string("to").value_or("");
  deliver.account_id = fields.string("accountId").value_or("");
  read_thread(fields, deliver.thread_id);
  deliver.media_urls = fields.strings("mediaUrls");
  TRY(fields.done());
  return deliver;
}

// Reads a request about an agent's session. A long one is read on a disk thread.
Result<decide::AppendMessages> read_append(http::Request& request, const Limits& limits) {
  TRY(auto body, body_of(request, limits));
  decide::AppendMessages command;
  std::string without_deliver;
  std::vector<json::Member> held_members;
  std::span<const json::Member> members = members_of(request, body, held_members);
  bool is_list = false;
  std::optional<std::string_view> deliver;
  for (const json::Member& member : members) {
    std::string held;
    const std::string_view name = name_of(member, held);
    is_list = is_list || name == "entries";
    if (name == "deliver") deliver = member.value;
  }
  if (deliver) {
    TRY(command.deliver, read_deliver(*deliver));
    if (command.deliver && !request.principal.may(auth::Permission::send))
      return fail(Code::forbidden, "this token may append messages, but not send them");
    without_deliver = json::apply(body, {.set = {}, .unset = {"deliver"}});
    body = without_deliver;
    held_members = json::all_members(body);
    members = held_members;
  }
  if (is_list) {
    TRY(auto fields, Fields::of(body, members));
    const auto entries = fields.array("entries");
    command.append.in_list = true;
    if (const auto expected = fields.integer("expectedSeq"))
      command.append.expected_seq = static_cast<std::uint64_t>(*expected);
    TRY(fields.done());
    for (const auto element : json::elements(entries.value_or("[]"))) {
      const std::string pointer = "/entries/" + std::to_string(command.append.entries.size());
      TRY(read_client_entry(command.append.entries.emplace_back(), element, pointer));
      if (command.append.entries.size() > limits::message_entries)
        return fail_at("/entries", fmt::format("more than {} entries", limits::message_entries));
    }
    if (command.append.entries.empty()) return fail_at("/entries", "is empty");
  } else {
    command.append.entries.reserve(1);
    TRY(read_client_entry(command.append.entries.emplace_back(), body, ""));
  }
  const bool compacts = std::ranges::find(command.append.entries, "compaction", &transcripts::NewEntry::type) !=
                        command.append.entries.end();
  if (compacts && !request.principal.may(auth::Permission::write))
    return fail(Code::forbidden,
                "an entry of type compaction changes what a model is shown of all that was said "
                "before: this token may not write it");
  const auto is_of_agent = [](const transcripts::NewEntry& entry) { return entry.role == "assistant"; };
  if (command.deliver && !std::ranges::any_of(command.append.entries, is_of_agent))
    return fail_at("/deliver", "goes with role assistant: it is what the agent says that is sent");
  if (is_long(request)) std::ranges::for_each(command.append.entries, transcripts::see);
  return command;
}

HandlerResult post(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto topic, topic_of(request));
  CO_TRY(auto command,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_append(request, limits); }));
  command.target = std::move(path.target);
  command.append.topic = std::move(topic);
  co_return co_await commit(api, request, std::move(path.agent), std::move(command),
                            co_await requester_of(api, request));
}

// On each side of ?around=.
constexpr std::size_t most_lines_around = 2'000;

struct Reading {
  transcripts::PageQuery page;
  std::optional<std::string> around{};  // id of the entry in the middle of the page; the query then has its limit alone
  transcripts::View view = transcripts::View::full;
  policy::MediaAs media = policy::MediaAs::handle;
};

Result<Reading> read_reading(const http::Request& request) {
  Reading reading;
  TRY(const auto after, query_int(request, "after", -1, INT64_MAX));  // seqs begin at 0: -1 is before the first
  if (after && *after >= 0) reading.page.after = static_cast<std::uint64_t>(*after);
  TRY(const auto before, query_int(request, "before", 0, INT64_MAX));
  if (before) reading.page.before = static_cast<std::uint64_t>(*before);
  TRY(reading.page.limit, page_limit(request));
  const bool backwards = before && !after;
  TRY(const auto order, query_choice(request, "order", {backwards ? "desc" : "asc", backwards ? "asc" : "desc"}));
  reading.page.descending = order == "desc";
  TRY(reading.page.types, query_names(request, "types"));
  TRY(const auto view, query_choice(request, "view", {"full", "chat", "raw", "llm", "summarize"}));
  for (const std::string_view name :
       {"style", "prune", "window", "maxToolChars", "maxMessages", "maxBytes", "until", "run"})
    if (query_text(request, name)) return fail(Code::bad_request, fmt::format("?{}= goes with view=llm only", name));
  reading.view = view == "raw"    ? transcripts::View::raw
                 : view == "chat" ? transcripts::View::chat
                                  : transcripts::View::full;
  TRY(reading.media, media_of(request));
  reading.around = query_text(request, "around");
  const bool other_place = after || before || query_text(request, "order") || !reading.page.types.empty();
  if (reading.around && (other_place || reading.media != policy::MediaAs::handle))
    return fail(Code::bad_request, "around: goes without after, before, order, types and media");
  return reading;
}

// A page, and where those beside it begin.
struct ReadPage {
  std::vector<transcripts::StoredLine> lines{};
  std::optional<std::uint64_t> before{}, after{};  // nothing: there is none, or nobody asks for it
};

template <class Source>
Result<ReadPage> read_page(Source& transcript, const Reading& reading) {
  TRY(auto page, transcript.page(reading.page));
  ReadPage out{.lines = std::move(page.lines)};
  if (page.has_more) (reading.page.descending ? out.before : out.after) = page.next;
  return out;
}

// The page about one entry, which grows on both sides. Blocks.
template <class Source>
class PageAround {
 public:
  PageAround(Source& source, transcripts::View view, transcripts::StoredLine middle) : source_(source), view_(view) {
    page_.before = page_.after = middle.seq;
    bytes_ = middle.line.size();
    page_.lines.push_back(std::move(middle));
  }

  // Reads on, backwards or forwards, until `wanted` more entries are shown in the view, the page is long, or so many
  // lines were read that the view leaves out most. Returns how many are shown.
  Result<std::size_t> grow(bool backwards, std::size_t wanted) {
    auto& next = backwards ? page_.before : page_.after;
    std::vector<transcripts::StoredLine> shown;
    for (std::size_t lines = 0; next && shown.size() < wanted && lines < most_lines_around && !is_long();) {
      TRY(auto some, read(backwards, *next, wanted - shown.size()));
      bool more = some.has_more;
      next = some.next;
      for (transcripts::StoredLine& line : some.lines) {
        more = more || is_long();
        if (is_long()) break;
        ++lines;
        next = line.seq;
        if (view_ == transcripts::View::chat && !transcripts::view_entry(line.line, line.seq, view_)) continue;
        bytes_ += line.line.size();
        shown.push_back(std::move(line));
      }
      if (!more) next.reset();
    }
    if (shown.empty() && next) {  // only whether there is more
      TRY(const auto some, read(backwards, *next, 1));
      if (some.lines.empty()) next.reset();
    }
    const std::size_t count = shown.size();
    if (backwards) std::ranges::reverse(shown);
    page_.lines.insert(backwards ? page_.lines.begin() : page_.lines.end(), std::move_iterator(shown.begin()),
                       std::move_iterator(shown.end()));
    return count;
  }
  bool has_before() const { return page_.before.has_value(); }
  ReadPage take() { return std::move(page_); }

 private:
  bool is_long() const { return bytes_ > limits::page_bytes; }
  Result<transcripts::TranscriptPage> read(bool backwards, std::uint64_t from, std::size_t count) {
    transcripts::PageQuery query{.limit = count, .descending = backwards};
    (backwards ? query.before : query.after) = from;
    return source_.page(query);
  }

  Source& source_;
  transcripts::View view_;
  ReadPage page_{};
  std::size_t bytes_ = 0;
};

// Reads the entries about one of them, which stands in the middle unless there are too few on one side.
template <class Source>
Result<ReadPage> read_around(Source& transcript, const Reading& reading) {
  TRY(auto line, transcript.find(*reading.around));
  if (!line)
    return fail(Code::message_not_found, fmt::format("there is no message {} in this transcript", *reading.around));
  PageAround<Source> page(transcript, reading.view, *std::move(line));
  std::size_t wanted = reading.page.limit - 1;
  TRY(const std::size_t before, page.grow(true, wanted / 2));
  wanted -= before;
  TRY(const std::size_t behind, page.grow(false, wanted));
  wanted -= behind;
  if (wanted > 0 && page.has_before()) TRY(page.grow(true, wanted));
  return page.take();
}

std::string page_member(const Reading& reading, const ReadPage& page) {
  const auto next = [](const std::optional<std::uint64_t>& seq) { return seq ? std::to_string(*seq) : "null"; };
  json::ObjectWriter writer;
  if (reading.around || reading.page.descending) writer.raw("nextBefore", next(page.before));
  if (reading.around || !reading.page.descending) writer.raw("nextAfter", next(page.after));
  writer.boolean("hasMore", page.before || page.after);
  return writer.text();
}

// Puts media in the place of handles. A page ends where it becomes too long by that. Blocks.
void show_media_of(const Api& api, ReadPage& page, const Reading& reading) {
  std::size_t bytes = 0;
  for (std::size_t at = 0; at < page.lines.size(); ++at) {
    transcripts::StoredLine& stored = page.lines[at];
    stored.line = shown_media(api, std::move(stored.line), reading.media).json;
    bytes += stored.line.size();
    if (bytes < limits::media_page_bytes || at + 1 == page.lines.size()) continue;
    page.lines.resize(at + 1);
    (reading.page.descending ? page.before : page.after) = page.lines.back().seq;
  }
}

// Reads what people did later to what a page tells, where its view shows that. Blocks.
template <class Source>
Result<transcripts::ShownChanges> changes_of(Source& transcript, const std::vector<transcripts::StoredLine>& lines,
                                             const TranscriptSource& source, transcripts::View view) {
  if (view == transcripts::View::raw) return transcripts::ShownChanges();
  return transcripts::read_changes(transcript, source.name, lines);
}

HandlerResult page_of(Api& api, const Reading& reading, const TranscriptSource& source) {
  const bool as_cached = reading.view == transcripts::View::full && reading.media == policy::MediaAs::handle;
  const auto page_json = [&](auto& transcript) -> Result<std::string> {
    auto read = reading.around ? read_around(transcript, reading) : read_page(transcript, reading);
    if (!read) return std::unexpected(std::move(read.error()));
    ReadPage& page = *read;
    TRY(const auto changes, changes_of(transcript, page.lines, source, reading.view));
    if (!changes.empty() && reading.view == transcripts::View::full)
      for (transcripts::StoredLine& line : page.lines)
        if (auto changed = transcripts::changed_line(line.line, line.seq, changes)) line.line = *std::move(changed);
    if (reading.media != policy::MediaAs::handle) show_media_of(api, page, reading);
    std::string out = "{\"data\":[";
    std::size_t bytes = 0;
    for (const transcripts::StoredLine& line : page.lines) bytes += line.line.size() + 32;
    out.reserve(bytes + 256);
    for (const transcripts::StoredLine& line : page.lines) {
      if (as_cached) {
        append_element(out, transcript.show(line));
        continue;
      }
      const transcripts::ShownChange* change =
          changes.empty() ? nullptr : changes.of(line.seq, transcripts::entry_id(line.line, line.seq));
      if (auto message = transcripts::view_entry(line.line, line.seq, reading.view, change))
        append_element(out, *message);
    }
    return std::move(out) + "],\"page\":" + page_member(reading, page);
  };
  CO_TRY(auto body, co_await read_source(api, source, page_json));
  if (source.memory != nullptr) body += R"(,"durable":false)";
  body += fmt::format(R"(,"sessionId":{},"asOf":"{}"}})", json::quote(source.session_id), source.as_of);
  http::Response response = json_response(std::move(body));
  response.verbatim = true;  // it is raw, or its entries were mended when they were read
  co_return response;
}

HandlerResult get_page(Api& api, http::Request& request) {
  const auto view = query_text(request, "view");
  const bool for_model = view == "llm" || view == "summarize";
  if (for_model && query_text(request, "around"))
    co_return fail(Code::bad_request, "around: goes with view=full, chat and raw only");
  if (for_model) co_return co_await get_model_view(api, request);
  CO_TRY(const auto reading, read_reading(request));
  CO_TRY(const auto source, co_await source_of(api, request));
  co_return co_await page_of(api, reading, source);
}

// The name of the stream in the path. not_found: there is no such stream.
Result<std::string> stream_name(const http::Request& request) {
  const std::string& name = request.params.at(2);
  if (std::ranges::find(store::stream_names(), name) == store::stream_names().end())
    return fail(Code::not_found, "there is no stream " + name);
  return name;
}

Result<transcripts::NewEntry> stream_entry(const Limits& limits, std::string_view value, const std::string& stream,
                                           const std::string& pointer) {
  if (json::kind(value) != json::Kind::object) return fail_at(pointer, "must be an object");
  std::string data = json::compact(value);
  if (const std::uint64_t most = limits.stream_entry_bytes; data.size() > most)
    return fail_at(pointer, fmt::format("has {} bytes; limits.streamEntryBytes is {}", data.size(), most));
  return transcripts::custom_entry(stream, data);
}

Result<decide::AppendMessages> read_stream_entries(http::Request& request, const Limits& limits,
                                                   const std::string& stream) {
  TRY(const auto body, body_of(request, limits));
  decide::AppendMessages command{
      .append = {.topic = store::stream_topic(stream), .by_daemon = true, .to_stream = true}};
  auto& entries = command.append.entries;
  if (const auto list = json::find(body, "entries")) {
    TRY(auto fields, Fields::of(body));
    const auto elements = fields.array("entries");
    TRY(fields.done());
    command.append.in_list = true;
    for (const auto element : json::elements(elements.value_or("[]"))) {
      if (entries.size() == limits::message_entries)
        return fail_at("/entries", fmt::format("more than {} entries", limits::message_entries));
      TRY(auto entry, stream_entry(limits, element, stream, "/entries/" + std::to_string(entries.size())));
      entries.push_back(std::move(entry));
    }
    if (entries.empty()) return fail_at("/entries", "is empty");
  } else {
    TRY(auto entry, stream_entry(limits, body, stream, ""));
    entries.push_back(std::move(entry));
  }
  if (is_long(request)) std::ranges::for_each(entries, transcripts::see);
  return command;
}

HandlerResult post_to_stream(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(const auto stream, stream_name(request));
  CO_TRY(auto command, co_await off_the_loop(api, request, [&](const Limits& limits) {
           return read_stream_entries(request, limits, stream);
         }));
  command.target = path.target;
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

HandlerResult get_stream(Api& api, http::Request& request) {
  CO_TRY(const auto stream, stream_name(request));
  CO_TRY(const auto reading, read_reading(request));
  TranscriptAsked asked{
      .topic = store::stream_topic(stream), .guard = query_text(request, "sessionId"), .fresh = wants_fresh(request)};
  CO_TRY(asked.path, session_path(request, api));
  CO_TRY(const auto source, co_await source_at(api, request, std::move(asked)));
  co_return co_await page_of(api, reading, source);
}

HandlerResult get_one(Api& api, http::Request& request) {
  const std::string id = request.params.at(2);
  CO_TRY(auto source, co_await source_of(api, request));
  const bool raw = query_text(request, "view") == "raw";
  const auto view = raw ? transcripts::View::raw : transcripts::View::full;
  const auto find = [&](auto& transcript) { return raw ? transcript.find(id) : find_as_left(transcript, source, id); };
  CO_TRY(auto line, co_await read_source(api, source, find));
  if (!line) co_return fail(Code::message_not_found, fmt::format("there is no message {} in this transcript", id));
  CO_TRY(const auto media, media_of(request));
  if (media != policy::MediaAs::handle)
    line->line = co_await on_disk(api, [&] { return shown_media(api, std::move(line->line), media).json; });
  std::string body = transcripts::view_entry(line->line, line->seq, view).value_or("{}");
  http::Response response = as_of_response(std::move(body), source.as_of);
  response.verbatim = true;  // as a page
  co_return response;
}

HandlerResult get_transcript(Api& api, http::Request& request) {
  CO_TRY(auto source, co_await source_of(api, request));
  http::Response response;
  response.content_type = "application/x-ndjson";
  if (source.memory != nullptr) {  // Range is ignored
    if (source.memory->bytes() == 0) co_return fail(Code::not_found, "this session has no transcript yet");
    const auto text = [](const transcripts::MemoryTranscript& transcript) -> Result<std::string> {
      return transcript.text();
    };
    CO_TRY(response.body, co_await ledger::read_memory(api.ledger.parts().env, source.memory, text));
    co_return response;
  }
  CO_TRY(const TranscriptFile file, co_await transcript_file(api, source));
  if (!file.tail.exists) co_return fail(Code::not_found, "this session has no transcript yet");
  CO_TRY(const auto plain, co_await plain_file(api, file));
  const std::uint64_t size = plain ? plain->size() : file.tail.size;
  auto range = byte_range(request, size, "the transcript");
  response.headers.emplace_back("Accept-Ranges", "bytes");
  if (!range) {
    http::Response problem = http::to_response(range.error(), request);
    problem.headers.emplace_back("Content-Range", fmt::format("bytes */{}", size));
    co_return problem;
  }
  const ByteRange bytes = range->value_or(ByteRange{0, size});
  if (*range) {
    response.status = 206;
    response.headers.emplace_back("Content-Range", bytes.header(size));
  }
  if (plain) {
    send_plain(api, response, plain, bytes.first, bytes.first + bytes.length);
    co_return response;
  }
  response.file = http::Response::FileBody{
      .path = file.path.string(), .inode = file.inode, .offset = bytes.first, .length = bytes.length};
  co_return response;
}

}  // namespace

void add_message_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/agents/{agent}/sessions/{key}";
  on("POST", one + "/messages", auth::Permission::append, words(lasting<post>), {"topic"});
  on("GET", one + "/messages", auth::Permission::read, get_page,
     {"topic", "sessionId", "archive", "after", "before", "around", "limit", "order", "types", "view", "style", "prune",
      "window", "maxToolChars", "maxMessages", "maxBytes", "until", "run", "media"});
  on("GET", one + "/messages/{id}", auth::Permission::read, get_one,
     {"topic", "sessionId", "archive", "view", "media"});
  on("POST", one + "/streams/{stream}", auth::Permission::append, words(post_to_stream));
  on("GET", one + "/streams/{stream}", auth::Permission::read, get_stream,
     {"sessionId", "after", "before", "limit", "order"});
  on("GET", one + "/transcript", auth::Permission::read, get_transcript, {"topic", "sessionId", "archive"});
}

}  // namespace sessiond::api
