#include "formats/goose.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "formats/foreign.hpp"
#include "formats/sqlite.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::formats {
namespace {

namespace fs = std::filesystem;
using json::Kind;

// A message as both kinds of stores have it.
struct GooseMessage {
  std::string place{};    // for skip()
  std::string pointer{};  // of the content
  std::string id{}, otherwise{};
  std::string_view role{}, content{}, metadata{};  // raw; metadata may be ""
  std::string rest{};                              // further members for the entry
  std::optional<std::int64_t> time{};
};

class GooseReader {
 public:
  GooseReader(Sink& sink, std::string file) : out_(sink, std::move(file)) {}
  ForeignSession& out() { return out_; }
  Result<void> begin(const ForeignHead& head) {
    head_ = head;
    return out_.begin(head);
  }
  Result<void> take(const GooseMessage& message);

 private:
  Result<void> take_parts(const GooseMessage& message, const std::string& role, std::string_view more);
  Result<void> add_response(const GooseMessage& message, std::string_view part, ForeignEntry entry, std::size_t index);
  void add_part(Content& content, std::string_view part, std::string& kept);

  ForeignSession out_;
  ForeignHead head_{};
  std::map<std::string, std::string, std::less<>> tools_{};  // names, by the ids of open calls
  bool hidden_ = false;                                      // the message before is not shown to the model
};

void GooseReader::add_part(Content& content, std::string_view part, std::string& kept) {
  const std::string type = json::string_at(part, "type").value_or("");
  const auto text = [&part](std::string_view name) { return member(part, name, Kind::string); };
  if (type == "text" && text("text")) return content.text(*text("text"));
  if (type == "image" && text("data") && text("mimeType")) return content.image(*text("data"), *text("mimeType"));
  if (type == "thinking" && text("thinking"))
    return content.thinking(*text("thinking"), text("signature").value_or(""));
  if (type == "redactedThinking" && text("data")) return content.thinking("\"\"", *text("data"), true);
  if (type == "toolRequest" || type == "frontendToolRequest") {
    const auto call = member(part, "toolCall", Kind::object);
    const auto value = call ? member(*call, "value", Kind::object) : std::nullopt;
    const auto name = value ? member(*value, "name", Kind::string) : std::nullopt;
    if (name && text("id")) {
      tools_[*json::string_at(part, "id")] = json::as_string(*name).value_or("");
      return content.call(*text("id"), *name, json::compact(member(*value, "arguments", Kind::object).value_or("{}")));
    }
  }
  kept.append(kept.empty() ? "" : ",").append(json::compact(part));
}

Result<void> GooseReader::add_response(const GooseMessage& message, std::string_view part, ForeignEntry entry,
                                       std::size_t index) {
  const std::string call = json::string_at(part, "id").value_or("");
  const auto result = member(part, "toolResult", Kind::object);
  if (call.empty() || !result) {
    out_.skip(message.place, fmt::format("{}/{}/{}", message.pointer, index, call.empty() ? "id" : "toolResult"),
              call.empty() ? "is not a string" : "is not an object");
    return {};
  }
  Content content;
  std::string kept;
  bool failed = json::string_at(*result, "status") == "error";
  if (const auto error = member(*result, "error", Kind::string)) content.text(*error);
  auto value = json::find(*result, "value");
  if (value && json::kind(*value) == Kind::object) {
    failed = failed || json::find(*value, "isError") == "true";
    value = json::find(*value, "content");
  }
  for (const std::string_view each : json::elements(value.value_or("[]"))) add_part(content, each, kept);
  const auto tool = tools_.find(call);
  const std::string members =
      fmt::format(R"("role":"toolResult","toolCallId":{},"toolName":{},"content":{},"isError":{})", json::quote(call),
                  json::quote(tool == tools_.end() ? "" : tool->second), content.take(), failed);
  if (tool != tools_.end()) tools_.erase(tool);
  TRY(out_.message(members, std::move(entry), kept.empty() ? "" : fmt::format(R"("goose":{{"content":[{}]}})", kept)));
  return {};
}

Result<void> GooseReader::take_parts(const GooseMessage& message, const std::string& role, std::string_view more) {
  Content content;
  std::string kept;
  std::size_t index = 0, entries = 0;
  bool calls = false;
  const auto entry = [&] {
    ForeignEntry made{.id = message.id, .otherwise = message.otherwise, .time = message.time};
    if (entries++ > 0) {
      made.id = fmt::format("{}.{}", message.id, entries);
      made.otherwise = fmt::format("{}.{}", message.otherwise, entries);
    }
    return made;
  };
  for (const std::string_view part : json::elements(message.content)) {
    const std::string type = json::string_at(part, "type").value_or("");
    calls = calls || type == "toolRequest";
    if (type == "toolResponse") {
      TRY(add_response(message, part, entry(), index));
    } else {
      add_part(content, part, kept);
    }
    ++index;
  }
  std::string rest = message.rest;
  if (!message.metadata.empty())
    rest.append(rest.empty() ? "" : ",").append("\"metadata\":").append(json::compact(message.metadata));
  if (!kept.empty()) rest.append(rest.empty() ? "" : ",").append("\"content\":[").append(kept).append("]");
  if (content.empty() && entries > 0 && kept.empty()) return {};
  if (content.empty()) {  // nothing that a model is shown
    TRY(out_.custom("goose", "message",
                    fmt::format("{{\"role\":{}{}{}}}", json::quote(role), rest.empty() ? "" : ",", rest), entry()));
    return {};
  }
  std::string members = fmt::format(R"("role":{},"content":{})", json::quote(role), content.take());
  if (role == "assistant")
    members += fmt::format(R"(,"provider":{},"model":{},"stopReason":"{}")", json::quote(head_.provider),
                           json::quote(head_.model), calls ? "toolUse" : "stop");
  TRY(out_.message(members.append(more), entry(), rest.empty() ? "" : fmt::format("\"goose\":{{{}}}", rest)));
  return {};
}

Result<void> GooseReader::take(const GooseMessage& message) {
  const std::string role = message.role.empty() ? "" : json::as_string(message.role).value_or("");
  if (role != "user" && role != "assistant") {
    out_.skip(message.place, "/role", "is neither \"user\" nor \"assistant\"");
    return {};
  }
  if (message.content.empty() || json::kind(message.content) != Kind::array) {
    out_.skip(message.place, message.pointer, "is not an array");
    return {};
  }
  std::size_t index = 0;
  for (const std::string_view part : json::elements(message.content)) {
    if (!member(part, "type", Kind::string)) {
      out_.skip(message.place, fmt::format("{}/{}/type", message.pointer, index), "is not a string");
      return {};
    }
    ++index;
  }
  const auto hides = [&message](std::string_view from) {
    return !message.metadata.empty() && json::find(message.metadata, from) == "false";
  };
  const bool of_agent = hides("userVisible") && !hides("agentVisible");
  if (of_agent && std::exchange(hidden_, false)) {  // what stands for the messages before it
    std::string summary;
    for (const std::string_view part : json::elements(message.content))
      summary += json::string_at(part, "text").value_or("");
    ForeignEntry entry{.type = "compaction", .id = message.id, .otherwise = message.otherwise, .time = message.time};
    const std::string& none = store::valid_entry_id(message.id) ? message.id : message.otherwise;  // it keeps no entry
    entry.body = fmt::format(R"("summary":{},"firstKeptEntryId":{},"tokensBefore":0,"details":{{"content":{}}})",
                             json::quote(summary), json::quote(none), json::compact(message.content));
    TRY(out_.add(std::move(entry)));
    return {};
  }
  if (hides("agentVisible")) hidden_ = true;
  return take_parts(message, role, of_agent ? R"(,"synthetic":true)" : "");
}

std::string title_of(const std::string& name, const std::string& description) {
  return name.empty() ? description : name;
}

class GooseStore {
 public:
  explicit GooseStore(Sink& sink) : sink_(sink) {}

  Result<void> folder(const fs::path& dir) {
    std::error_code error;
    if (fs::exists(dir / "sessions.db", error)) {
      if (const auto read = database(dir / "sessions.db"); !read) return read;
    }
    std::size_t again = 0;
    for (const fs::path& path : sorted_in(dir, sink_)) {
      if (path.extension() != ".jsonl") continue;
      if (in_database_.contains(path.stem().native())) {
        ++again;
      } else {
        TRY(file(path));
      }
    }
    if (again > 0)
      sink_.skip(
          {.why = fmt::format("{}: {} .jsonl files hold sessions that sessions.db has, too", dir.native(), again)});
    return {};
  }

  Result<void> file(const fs::path& path);
  Result<void> database(const fs::path& path);

 private:
  Result<void> rows(const Database& from, GooseReader& reader, const std::string& session,
                    const std::set<std::string, std::less<>>& columns);

  Sink& sink_;
  SessionIds ids_{};
  std::set<std::string, std::less<>> in_database_{};
};

Result<void> GooseStore::file(const fs::path& path) {
  ForeignHead head;
  std::size_t messages = 0;
  const auto scanned = each_line(path, [&](std::string_view line, std::uint64_t number) {
    if (line.empty() || not_an_object(line)) return Result<void>();
    if (const auto created = json::find(line, "created")) head.saw(time_of(*created));
    if (json::find(line, "role")) ++messages;
    if (number != 1 || json::find(line, "role")) return Result<void>();
    ++messages;
    head.cwd = json::string_at(line, "working_dir").value_or("");
    head.title = json::string_at(line, "description").value_or("");
    return Result<void>();
  });
  if (!scanned || messages == 0) {
    sink_.skip({.why = scanned ? path.native() + ": holds no line of a session" : scanned.error().detail});
    return {};
  }
  const std::string stem = path.stem().native();
  head.id = ids_.take(stem, "jsonl", sink_, path.native());
  if (!head.started)
    head.started = time_of_text(stem.size() == 15 ? fmt::format("{}-{}-{}T{}:{}:{}Z", stem.substr(0, 4),
                                                                stem.substr(4, 2), stem.substr(6, 2), stem.substr(9, 2),
                                                                stem.substr(11, 2), stem.substr(13, 2))
                                                  : "");
  GooseReader reader(sink_, path.native());
  TRY(reader.begin(head));
  TRY(each_line(path, [&reader](std::string_view line, std::uint64_t number) -> Result<void> {
    if (line.empty()) return {};
    if (const auto why = not_an_object(line)) {
      reader.out().skip(line_place(number), "", *why);
      return {};
    }
    const json::Index members(line);
    if (number == 1 && !members.find("role")) {  // about the session
      TRY(reader.out().custom("goose", "session", json::compact(line), {.otherwise = "line-1"}));
      return {};
    }
    GooseMessage message{.place = line_place(number), .pointer = "/content"};
    message.id = members.string_at("id").value_or("");
    message.otherwise = fmt::format("line-{}", number);
    message.role = members.find("role").value_or("");
    message.content = members.find("content").value_or("");
    message.metadata = member(members, "metadata", Kind::object).value_or("");
    if (const auto created = members.find("created")) message.time = time_of(*created);
    if (!message.time)
      reader.out().skip(message.place, "/created", "is no time; the line is taken, with the time of the one before");
    return reader.take(message);
  }));
  return reader.out().end();
}

Result<void> GooseStore::rows(const Database& from, GooseReader& reader, const std::string& session,
                              const std::set<std::string, std::less<>>& columns) {
  const std::string sql = fmt::format(
      "SELECT id, role, content_json, created_timestamp, {}, {} FROM messages WHERE session_id = ? ORDER BY id",
      columns.contains("metadata_json") ? "metadata_json" : "NULL",
      columns.contains("message_id") ? "message_id" : "NULL");
  TRY(auto query, from.query(sql));
  query.bind(1, session);
  for (;;) {
    TRY(const bool more, query.next());
    if (!more) return {};
    GooseMessage message{.pointer = "/content_json"};
    message.otherwise = fmt::format("row-{}", query.integer(0));
    message.place = fmt::format("messages {}", query.integer(0));
    message.id = query.text(5);
    const std::string role = json::quote(query.text(1));
    message.role = role;
    const std::string content = fmt::format(R"({{"content":{}}})", query.text(2).empty() ? "null" : query.text(2));
    const std::string metadata(query.text(4));
    if (const auto why = not_an_object(content)) {
      reader.out().skip(message.place, "/content_json", *why);
      continue;
    }
    message.content = json::find(content, "content").value_or("");
    if (!metadata.empty() && not_an_object(metadata))
      reader.out().skip(message.place, "/metadata_json", "is not a JSON object; the message is taken without it");
    else
      message.metadata = metadata;
    message.time = time_of(std::to_string(query.integer(3)));
    if (!message.time)
      reader.out().skip(message.place, "/created_timestamp",
                        "is no time; the message is taken, with the time of the one before");
    TRY(reader.take(message));
  }
}

Result<void> GooseStore::database(const fs::path& path) {
  TRY(const auto from, Database::open(path));
  TRY(const auto has, from.columns("sessions"));
  TRY(const auto message_columns, from.columns("messages"));
  if (!has.contains("id") || !message_columns.contains("content_json"))
    return fail(Code::degraded, path.native() + ": has no tables sessions and messages as Goose makes them");
  const auto column = [&has](std::string_view name) {
    return has.contains(name) ? std::string(name) : std::string("NULL");
  };
  TRY(auto query,
      from.query(fmt::format(
          "SELECT id, working_dir, {}, {}, created_at, updated_at, {}, {}, {} FROM sessions ORDER BY created_at, id",
          column("name"), column("description"), column("provider_name"), column("model_config_json"),
          column("session_type"))));
  for (;;) {
    TRY(const bool more, query.next());
    if (!more) return from.unchanged();
    const std::string id(query.text(0));
    ForeignHead head{.id = ids_.take(id, "sessions.db", sink_, path.native()), .cwd = std::string(query.text(1))};
    head.title = title_of(std::string(query.text(2)), std::string(query.text(3)));
    head.saw(time_of_text(query.text(4)));
    head.saw(time_of_text(query.text(5)));
    head.provider = query.text(6);
    const std::string model(query.text(7));
    if (!model.empty() && !not_an_object(model)) head.model = json::string_at(model, "model_name").value_or("");
    GooseReader reader(sink_, path.native());
    TRY(reader.begin(head));
    TRY(rows(from, reader, id, message_columns));
    TRY(from.unchanged());
    TRY(reader.out().end());
    in_database_.insert(id);
  }
}

}  // namespace

Result<void> read_goose(const fs::path& root, Sink& sink) {
  GooseStore store(sink);
  std::error_code error;
  if (fs::is_regular_file(root, error)) return root.extension() == ".jsonl" ? store.file(root) : store.database(root);
  if (!fs::is_directory(root, error)) return fail(Code::not_found, root.native() + ": is neither a folder nor a file");
  const fs::path sessions = root / "sessions";
  return store.folder(fs::is_directory(sessions, error) ? sessions : root);
}

}  // namespace sessiond::formats
