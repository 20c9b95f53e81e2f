#include "daemon/api/mcp_tools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "daemon/api/assets.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/inner_request.hpp"
#include "store/hex.hpp"
#include "store/names.hpp"
#include "store/utf8.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t most_result_bytes = 256 << 10;
constexpr std::size_t shown_code_points = 4000;      // of a message's text
constexpr std::size_t preview_code_points = 200;     // of lastMessage
constexpr std::int64_t preview_entries = 20;         // in which lastMessage is looked for
constexpr int most_pages = 20;                       // that one call reads until it has enough messages
constexpr std::size_t most_cursor_bytes = 16 << 10;  // of a search: it has the filters
constexpr std::size_t most_note_bytes = 16 << 10;

asio::awaitable<ToolResult> answer_of(const ToolUse& use, InnerRequest inner) {
  http::Response response = co_await answer_inner(use.router, use.request, std::move(inner));
  if (response.status >= 400) co_return std::unexpected(std::move(response));
  co_return std::move(response.body);
}

ToolResult refusal_of(const ToolUse& use, const Problem& problem) {
  return std::unexpected(http::to_response(problem, use.request));
}

// The arguments of a call. Faults are told as those of a body are, with their pointers.
class Arguments {
 public:
  explicit Arguments(const ToolUse& use)
      : use_(use), read_(Fields::of(use.arguments)), fields_(read_ ? *read_ : none_) {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  std::optional<std::string> text(std::string_view name, std::size_t most = 512) {
    auto value = fields_.string(name, most);
    if (value && value->empty()) fields_.fault(name, "is empty");
    return value;
  }
  std::string needed_text(std::string_view name, std::size_t most) {
    auto value = text(name, most);
    if (!value && !fields_.has(name)) fields_.fault(name, "is missing");
    return value.value_or("");
  }
  std::optional<std::int64_t> number(std::string_view name, std::int64_t least = 0) {
    return fields_.integer(name, least);
  }
  std::int64_t limit(std::int64_t usual, std::int64_t most) {
    const auto value = fields_.integer("limit", 1);
    if (value && *value > most) fields_.fault("limit", fmt::format("must be at most {}", most));
    return value.value_or(usual);
  }
  // Hands an argument on as a parameter of the query.
  void pass(InnerRequest& inner, std::string_view name, std::size_t most = 512) {
    if (auto value = text(name, most)) inner.ask(name, *std::move(value));
  }
  void pass_number(InnerRequest& inner, std::string_view name, std::int64_t least = 0) {
    if (const auto value = number(name, least)) inner.ask(name, std::to_string(*value));
  }
  void fault(std::string_view name, std::string detail) { fields_.fault(name, std::move(detail)); }
  // Of these only one may be given.
  void one_of(std::initializer_list<std::string_view> names) {
    const auto is_given = [this](std::string_view name) { return fields_.has(name); };
    if (std::ranges::count_if(names, is_given) < 2) return;
    for (const std::string_view name : names)
      if (is_given(name)) fields_.fault(name, fmt::format("only one of {} may be given", fmt::join(names, ", ")));
  }

  // The session that is meant: `agent` and `key`, or what the token or the key says of them.
  struct Session {
    std::string agent{};
    std::string key{};
    std::string path() const { return "/v1/agents/" + path_segment(agent) + "/sessions/" + path_segment(key); }
  };
  Session session() {
    const auth::Principal& who = use_.request.principal;
    Session session{.agent = text("agent").value_or(""), .key = text("key").value_or("")};
    if (session.key.empty()) session.key = who.key;
    if (session.agent.empty() && who.agents.size() == 1) session.agent = who.agents.front();
    if (session.agent.empty()) session.agent = store::parse_key(session.key).agent;
    if (session.key.empty() && !fields_.has("key")) fields_.fault("key", "is missing: the token has not one session");
    if (session.agent.empty() && !fields_.has("agent"))
      fields_.fault("agent", "is missing: the token has not one agent, and the key names none");
    return session;
  }

  // Call it after all were read. Errors: validation_failed, unknown arguments included.
  Result<void> done() {
    if (!read_) return std::unexpected(read_.error());
    return fields_.done();
  }

 private:
  const ToolUse& use_;
  Fields none_ = Fields::of("").value();
  Result<Fields> read_;
  Fields& fields_;
};

// Asks for a page, and for a shorter one while it is longer than a result may be: its cursor then goes on earlier.
// `make` returns the result of a page, given its limit.
template <class Make>  // asio::awaitable<ToolResult>(std::int64_t limit)
asio::awaitable<ToolResult> fitting(std::int64_t limit, Make make) {
  ToolResult answer = co_await make(limit);
  while (answer && answer->size() > most_result_bytes && limit > 1) {
    limit /= 2;
    answer = co_await make(limit);
  }
  co_return answer;
}

// --- search ---

asio::awaitable<ToolResult> search_tool(const ToolUse& use) {
  Arguments arguments(use);
  InnerRequest inner{.path = "/v1/search"};
  inner.ask("q", arguments.needed_text("query", 1024));
  for (const std::string_view name : {"agent", "key", "channel", "role", "from", "archived"})
    arguments.pass(inner, name);
  for (const std::string_view name : {"since", "until"}) arguments.pass_number(inner, name);
  arguments.pass(inner, "cursor", most_cursor_bytes);
  const std::int64_t limit = arguments.limit(10, 50);
  if (const auto fine = arguments.done(); !fine) co_return refusal_of(use, fine.error());
  co_return co_await fitting(limit, [&](std::int64_t most) {
    InnerRequest page = inner;
    page.ask("limit", std::to_string(most));
    return answer_of(use, std::move(page));
  });
}

// --- list_sessions ---

// Cuts the text of a message: what is left begins at the code point `at` and has at most `most`.
std::string with_cut_text(std::string_view message, std::size_t at, std::size_t most) {
  const auto text = json::string_at(message, "text");
  if (!text) return std::string(message);
  const std::string_view rest = std::string_view(*text).substr(store::code_points_end(*text, at));
  const std::string_view shown = rest.substr(0, store::code_points_end(rest, most));
  if (shown.size() == text->size()) return std::string(message);
  json::Edit edit;
  edit.put_string("text", shown);
  if (at > 0) edit.put_int("at", static_cast<std::int64_t>(at));
  if (const auto more = store::count_code_points(rest.substr(shown.size())); more > 0)
    edit.put_int("more", static_cast<std::int64_t>(more));
  return json::apply(message, edit);
}

// The last message of a session that has a text; "null": there is none among its last entries, or it cannot be read.
asio::awaitable<std::string> last_message(const ToolUse& use, const Arguments::Session& session) {
  InnerRequest inner{.path = session.path() + "/messages"};
  inner.ask("view", "chat");
  inner.ask("order", "desc");
  inner.ask("limit", std::to_string(preview_entries));
  const ToolResult page = co_await answer_of(use, std::move(inner));
  if (!page) co_return "null";
  for (const std::string_view message : json::elements(json::find(*page, "data").value_or("[]"))) {
    if (!json::find(message, "text")) continue;
    const std::string cut = with_cut_text(message, 0, preview_code_points);
    json::ObjectWriter writer;
    for (const std::string_view name : {"seq", "id", "role", "timestamp", "text", "more"})
      if (const auto value = json::find(cut, name)) writer.raw(name, *value);
    co_return writer.text();
  }
  co_return "null";
}

// A session as list_sessions tells it, of its row in the list of the API.
asio::awaitable<std::string> listed_session(const ToolUse& use, std::string_view row) {
  const json::Index members(row);
  const Arguments::Session session{.agent = members.string_at("agent").value_or(""),
                                   .key = members.string_at("key").value_or("")};
  json::ObjectWriter writer;
  writer.string("agent", session.agent);
  writer.string("key", session.key);
  writer.string_or_null("name", members.string_at("name"));
  std::string channel = members.string_at("channel").value_or("");
  if (channel.empty()) channel = store::lower(store::parse_key(session.key).channel);
  writer.string_or_null("channel", channel.empty() ? std::nullopt : std::optional(std::move(channel)));
  writer.integer("updatedAt", members.int_at("updatedAt").value_or(0));
  writer.integer("messageCount", members.int_at("messageCount").value_or(0));
  writer.raw("lastMessage", co_await last_message(use, session));
  co_return writer.text();
}

asio::awaitable<ToolResult> listed_page(const ToolUse& use, InnerRequest inner, std::int64_t limit) {
  inner.ask("limit", std::to_string(limit));
  const ToolResult page = co_await answer_of(use, std::move(inner));
  if (!page) co_return page;
  std::string rows = "[";
  for (const std::string_view row : json::elements(json::find(*page, "data").value_or("[]"))) {
    if (use.request.client_gone && use.request.client_gone()) break;
    append_element(rows, co_await listed_session(use, row));
  }
  co_return json::apply(*page, {.set = {{.name = "data", .value = rows + "]"}}});
}

asio::awaitable<ToolResult> list_tool(const ToolUse& use) {
  Arguments arguments(use);
  const auto agent = arguments.text("agent");
  InnerRequest inner{.path = agent ? "/v1/agents/" + path_segment(*agent) + "/sessions" : "/v1/sessions"};
  inner.ask("fields", "agent,channel,messageCount,name,updatedAt");
  if (auto text = arguments.text("query")) inner.ask("q", *std::move(text));
  arguments.pass(inner, "cursor", most_cursor_bytes);
  const std::int64_t limit = arguments.limit(20, 100);
  if (const auto fine = arguments.done(); !fine) co_return refusal_of(use, fine.error());
  co_return co_await fitting(limit, [&](std::int64_t most) { return listed_page(use, inner, most); });
}

// --- get_messages ---

using Seq = std::optional<std::int64_t>;

// Messages, the oldest first, and where others go on.
struct MessageRange {
  std::deque<std::string> rows{};
  Seq next_before{};
  Seq next_after{};
  std::string session_id{};
  std::string as_of{};

  static Seq seq_of(const std::string& row) { return json::int_at(row, "seq"); }
  void drop_oldest() {
    rows.pop_front();
    next_before = seq_of(rows.front());
  }
  void drop_newest() {
    rows.pop_back();
    next_after = seq_of(rows.back());
  }
  std::size_t bytes() const {
    std::size_t sum = session_id.size() + as_of.size() + 256;
    for (const std::string& row : rows) sum += row.size() + 1;
    return sum;
  }

  std::string json() const {
    const auto number = [](Seq seq) { return seq ? std::to_string(*seq) : std::string("null"); };
    std::string list = "[";
    for (const std::string& row : rows) append_element(list, row);
    json::ObjectWriter page;
    page.raw("nextBefore", number(next_before));
    page.raw("nextAfter", number(next_after));
    json::ObjectWriter writer;
    writer.raw("data", list + "]");
    writer.raw("page", page.text());
    writer.string("sessionId", session_id);
    if (!as_of.empty()) writer.string("asOf", as_of);
    return writer.text();
  }
};

// Reads messages of a session, as view=chat shows them.
class MessageReader {
 public:
  // `messages`: a request for them, with the session and its transcript.
  MessageReader(const ToolUse& use, InnerRequest messages) : use_(use), messages_(std::move(messages)) {}

  // The newest ones; with `before` those that are older than that.
  asio::awaitable<ToolResult> backwards(Seq before, std::int64_t limit) {
    if (before && *before > 0) found_.next_after = *before - 1;
    co_return co_await gather("before", before, limit);
  }
  asio::awaitable<ToolResult> forwards(std::int64_t after, std::int64_t limit) {
    if (after >= 0) found_.next_before = after + 1;
    co_return co_await gather("after", after, limit);
  }

  asio::awaitable<ToolResult> around(std::string id, std::int64_t limit) {
    InnerRequest inner = chat(limit);
    inner.ask("around", id);
    ToolResult page = co_await answer_of(use_, std::move(inner));
    if (!page) co_return page;
    take(*page, false);
    const std::string_view ends = json::find(*page, "page").value_or("{}");
    found_.next_before = json::int_at(ends, "nextBefore");
    found_.next_after = json::int_at(ends, "nextAfter");
    while (is_too_long()) {
      const auto middle =
          std::ranges::find_if(found_.rows, [&](const std::string& row) { return json::string_at(row, "id") == id; });
      if (middle - found_.rows.begin() > found_.rows.end() - middle - 1)
        found_.drop_oldest();
      else
        found_.drop_newest();
    }
    co_return found_.json();
  }

  // One message, its text from the code point `at` on.
  asio::awaitable<ToolResult> one(std::string id, std::size_t at) {
    InnerRequest whole = messages_;
    whole.path += "/" + path_segment(id);
    const ToolResult entry = co_await answer_of(use_, std::move(whole));
    if (!entry) co_return entry;
    InnerRequest inner = chat(1);
    inner.ask("after", std::to_string(json::int_at(*entry, "seq").value_or(0) - 1));
    ToolResult page = co_await answer_of(use_, std::move(inner));
    if (!page) co_return page;
    at_ = at;
    take(*page, false);
    if (found_.rows.empty() || json::string_at(found_.rows.front(), "id") != id)
      co_return refusal_of(use_, {.code = Code::message_not_found,
                                  .detail = fmt::format("{} is not a message of a user, the assistant or a note", id)});
    co_return found_.json();
  }

 private:
  InnerRequest chat(std::int64_t limit) const {
    InnerRequest inner = messages_;
    inner.ask("view", "chat");
    inner.ask("limit", std::to_string(limit));
    return inner;
  }

  // Takes in a page. Its rows are the newest first, or the oldest first behind those that are there.
  void take(const std::string& page, bool newest_first) {
    for (const std::string_view row : json::elements(json::find(page, "data").value_or("[]"))) {
      std::string cut = with_cut_text(row, at_, shown_code_points);
      if (newest_first)
        found_.rows.push_front(std::move(cut));
      else
        found_.rows.push_back(std::move(cut));
    }
    found_.session_id = json::string_at(page, "sessionId").value_or("");
    if (found_.as_of.empty()) found_.as_of = json::string_at(page, "asOf").value_or("");
  }

  bool is_too_long() const { return found_.rows.size() > 1 && found_.bytes() > most_result_bytes; }

  // Reads pages until there are `limit` messages: a page counts entries, of which view=chat leaves out many. `side`:
  // before or after. `from`: where it begins.
  asio::awaitable<ToolResult> gather(std::string_view side, Seq from, std::int64_t limit) {
    const bool backwards = side == "before";
    Seq& next = backwards ? found_.next_before : found_.next_after;
    const auto most = static_cast<std::size_t>(limit);
    for (int pages = 0; pages < most_pages && found_.rows.size() < most; ++pages) {
      InnerRequest inner = chat(limit);
      inner.ask("order", backwards ? "desc" : "asc");
      if (from) inner.ask(side, std::to_string(*from));
      const ToolResult page = co_await answer_of(use_, std::move(inner));
      if (!page) co_return page;
      if (pages > 0 && json::string_at(*page, "sessionId") != found_.session_id) break;  // reset in between
      take(*page, backwards);
      next = json::int_at(json::find(*page, "page").value_or("{}"), backwards ? "nextBefore" : "nextAfter");
      if (!next) break;
      from = next;
    }
    while (found_.rows.size() > most || is_too_long()) {
      if (backwards)
        found_.drop_oldest();
      else
        found_.drop_newest();
    }
    co_return found_.json();
  }

  const ToolUse& use_;
  InnerRequest messages_;
  MessageRange found_{};
  std::size_t at_ = 0;
};

asio::awaitable<ToolResult> read_tool(const ToolUse& use) {
  Arguments arguments(use);
  const auto session = arguments.session();
  InnerRequest inner{.path = session.path() + "/messages"};
  for (const std::string_view name : {"topic", "sessionId", "archive"}) arguments.pass(inner, name);
  auto around = arguments.text("around");
  auto id = arguments.text("id");
  const auto before = arguments.number("before");
  const auto after = arguments.number("after", -1);
  const auto at = arguments.number("at");
  const std::int64_t limit = arguments.limit(20, 100);
  arguments.one_of({"around", "before", "after", "id"});
  if (at && !id) arguments.fault("at", "goes with id only");
  if (const auto fine = arguments.done(); !fine) co_return refusal_of(use, fine.error());
  MessageReader reader(use, std::move(inner));
  if (id) co_return co_await reader.one(*std::move(id), static_cast<std::size_t>(at.value_or(0)));
  if (around) co_return co_await reader.around(*std::move(around), limit);
  if (after) co_return co_await reader.forwards(*after, limit);
  co_return co_await reader.backwards(before, limit);
}

// --- append_note ---

std::string note_entry(std::string_view text, std::string_view by) {
  json::ObjectWriter data;
  data.string("text", text);
  data.string("by", by);
  json::ObjectWriter entry;
  entry.string("type", "custom");
  entry.string("customType", "note");
  entry.raw("data", data.text());
  return entry.text();
}

asio::awaitable<ToolResult> note_tool(const ToolUse& use) {
  Arguments arguments(use);
  const auto session = arguments.session();
  const std::string text = arguments.needed_text("text", most_note_bytes);
  const auto name = arguments.text("noteId", 128);
  if (const auto fine = arguments.done(); !fine) co_return refusal_of(use, fine.error());
  InnerRequest inner{.method = "POST", .path = session.path() + "/messages"};
  inner.body = note_entry(text, use.request.principal.id);
  // Token and session are in the scope of a key anyway.
  inner.idempotency_key = (name ? "note-id-" : "note-") + store::to_hex(answers::digest(name.value_or(text)));
  const http::Response kept = co_await answer_inner(use.router, use.request, std::move(inner));
  if (kept.status >= 400) co_return std::unexpected(kept);
  const json::Index members(kept.body);
  const auto has_replay = [](const auto& header) { return header.first == "Idempotency-Replayed"; };
  json::ObjectWriter writer;
  writer.string("agent", session.agent);
  writer.string("key", session.key);
  writer.string("sessionId", members.string_at("sessionId").value_or(""));
  writer.integer("seq", members.int_at("firstSeq").value_or(0));
  for (const std::string_view id : json::elements(members.find("ids").value_or("[]"))) writer.raw("id", id);
  writer.boolean("duplicate", std::ranges::any_of(kept.headers, has_replay));
  if (const auto warnings = members.find("warnings")) writer.raw("warnings", *warnings);
  co_return writer.text();
}

// In the order in which tools/list tells them, which is that of web/mcp.json.
constexpr std::array<Tool, 4> mcp_tools{{{"search", auth::Permission::read, search_tool},
                                         {"list_sessions", auth::Permission::read, list_tool},
                                         {"get_messages", auth::Permission::read, read_tool},
                                         {"append_note", auth::Permission::append, note_tool}}};

// A tool as tools/list tells it. Some clients hold a refusal against the schema of results, too.
std::string listed_tool(std::string_view described, std::string_view problem) {
  json::ObjectWriter output;
  output.string("type", "object");
  output.raw("anyOf", fmt::format("[{},{}]", json::compact(json::find(described, "result").value_or("{}")), problem));
  json::ObjectWriter tool;
  for (const std::string_view name : {"name", "title", "description", "inputSchema"})
    tool.raw(name, json::compact(json::find(described, name).value_or("null")));
  tool.raw("outputSchema", output.text());
  tool.raw("annotations", json::compact(json::find(described, "annotations").value_or("{}")));
  return tool.text();
}

}  // namespace

const Tool* find_tool(std::string_view name) {
  const auto* const found = std::ranges::find(mcp_tools, name, &Tool::name);
  return found == mcp_tools.end() ? nullptr : found;
}

std::string listed_tools(const auth::Principal& principal) {
  static const std::vector<std::string> texts = [] {
    const std::string problem = json::compact(json::find(assets::mcp, "problem").value_or("{}"));
    std::vector<std::string> made;
    for (const std::string_view described : json::elements(json::find(assets::mcp, "tools").value_or("[]")))
      made.push_back(listed_tool(described, problem));
    return made;
  }();
  std::string list = "[";
  for (std::size_t i = 0; i < std::min(texts.size(), mcp_tools.size()); ++i)
    if (principal.may(mcp_tools.at(i).permission)) append_element(list, texts[i]);
  return list + "]";
}

std::string_view tool_instructions() {
  static const std::string text = json::string_at(assets::mcp, "instructions").value_or("");
  return text;
}

}  // namespace sessiond::api
