#include "formats/opencode.hpp"

#include <fmt/format.h>

#include <set>
#include <unordered_set>
#include <utility>

#include "formats/foreign.hpp"
#include "formats/opencode_messages.hpp"
#include "formats/sqlite.hpp"
#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::formats {
namespace {

namespace fs = std::filesystem;
using json::Kind;
using Names = std::set<std::string, std::less<>>;

class OpencodeStore {
 public:
  explicit OpencodeStore(Sink& sink) : sink_(sink) {}

  Result<void> root(const fs::path& dir);
  Result<void> database(const fs::path& path);

 private:
  Result<void> messages_of(const Database& from, const std::string& session, OpencodeReader& reader);
  Result<void> storage(const fs::path& sessions, const fs::path& messages, const fs::path& parts);
  Result<void> sessions_in(const fs::path& sessions, const fs::path& messages, const fs::path& parts);
  void name_orphans(const fs::path& messages, const fs::path& parts);
  Result<void> name_orphan_rows(const Database& from, const fs::path& path);
  Result<void> stored_session(const fs::path& file, const fs::path& messages, const fs::path& parts);
  std::optional<std::string> object_in(const fs::path& file);

  Sink& sink_;
  SessionIds ids_{};
  Names in_database_{};
  std::unordered_set<std::size_t> session_files_{}, message_files_{};  // hashes of the ids that were met in the folder
  std::size_t again_ = 0;
};

std::size_t hash_of_id(std::string_view id) { return std::hash<std::string_view>{}(id); }

// The files of JSON in a folder, by name.
std::vector<fs::path> documents_of(const fs::path& dir, Sink& sink) {
  std::vector<fs::path> files = sorted_in(dir, sink);
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".json"; });
  return files;
}

// A file of JSON; names it when it is none.
std::optional<std::string> OpencodeStore::object_in(const fs::path& file) {
  auto text = store::read_file(file);
  if (!text) {
    sink_.skip({.why = text.error().detail});
    return std::nullopt;
  }
  if (const auto why = not_an_object(*text)) {
    sink_.skip({.why = file.native() + ": " + *why});
    return std::nullopt;
  }
  return json::compact(*text);
}

Result<void> OpencodeStore::messages_of(const Database& from, const std::string& session, OpencodeReader& reader) {
  TRY(auto messages, from.query("SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"));
  messages.bind(1, session);
  for (;;) {
    TRY(const bool more, messages.next());
    if (!more) return {};
    OpencodeMessage message{.id = std::string(messages.text(0)), .text = std::string(messages.text(1))};
    message.place = "message " + message.id;
    TRY(auto parts, from.query("SELECT id, data FROM part WHERE message_id = ? ORDER BY id"));
    parts.bind(1, message.id);
    for (;;) {
      TRY(const bool another, parts.next());
      if (!another) break;
      const std::string id(parts.text(0));
      message.parts.push_back({.id = id, .place = "part " + id, .text = std::string(parts.text(1))});
    }
    TRY(reader.take(message));
  }
}

Result<void> OpencodeStore::database(const fs::path& path) {
  TRY(const auto from, Database::open(path));
  TRY(const Names has, from.columns("session"));
  TRY(const Names messages, from.columns("message"));
  TRY(const Names parts, from.columns("part"));
  if (!has.contains("id") || messages.empty() || parts.empty())
    return fail(Code::degraded, path.native() + ": has no tables session, message and part as opencode makes them");
  std::string members;
  for (const std::string& column : has)
    members += fmt::format("{}'{}', \"{}\"", members.empty() ? "" : ", ", column, column);
  TRY(auto sessions,
      from.query(fmt::format("SELECT id, json_object({}) FROM session ORDER BY time_created, id", members)));
  for (;;) {
    TRY(const bool more, sessions.next());
    if (!more) break;
    const std::string id(sessions.text(0));
    const std::string info(sessions.text(1));
    const auto text = [&info](std::string_view name) { return json::string_at(info, name).value_or(""); };
    ForeignHead head{.id = ids_.take(id, "opencode", sink_, path.native()), .cwd = text("directory")};
    head.parent = text("parent_id");
    head.title = text("title");
    head.saw(json::int_at(info, "time_created"));
    head.saw(json::int_at(info, "time_updated"));
    if (const std::string model = text("model"); !model.empty() && !not_an_object(model)) {
      head.model = json::string_at(model, "id").value_or("");
      head.provider = json::string_at(model, "providerID").value_or("");
    }
    const std::string revert = text("revert");
    OpencodeReader reader(sink_, path.native());
    TRY(reader.begin(head, info,
                     revert.empty() || not_an_object(revert) ? "" : json::string_at(revert, "messageID").value_or("")));
    TRY(messages_of(from, id, reader));
    TRY(from.unchanged());
    TRY(reader.end());
    in_database_.insert(id);
  }
  TRY(const Names session_message, from.columns("session_message"));
  if (!session_message.empty()) {
    TRY(auto rows,
        from.query("SELECT count(*) FROM session_message WHERE session_id NOT IN (SELECT session_id FROM message)"));
    TRY(rows.next());
    if (rows.integer(0) > 0)
      sink_.skip(
          {.why = fmt::format("{}, table session_message: {} rows of sessions without rows in message are not taken",
                              path.native(), rows.integer(0))});
  }
  TRY(name_orphan_rows(from, path));
  return from.unchanged();
}

Result<void> OpencodeStore::name_orphan_rows(const Database& from, const fs::path& path) {
  struct Orphans {
    const char *table, *condition, *without;
  };
  for (const Orphans& orphans : {Orphans{"message", "session_id NOT IN (SELECT id FROM session)", "sessions"},
                                 Orphans{"part", "message_id NOT IN (SELECT id FROM message)", "messages"}}) {
    TRY(auto rows, from.query(fmt::format("SELECT count(*) FROM {} WHERE {}", orphans.table, orphans.condition)));
    TRY(rows.next());
    if (rows.integer(0) > 0)
      sink_.skip({.why = fmt::format("{}, table {}: {} rows of {} that are not there are not taken", path.native(),
                                     orphans.table, rows.integer(0), orphans.without)});
  }
  return {};
}

Result<void> OpencodeStore::stored_session(const fs::path& file, const fs::path& messages, const fs::path& parts) {
  const std::string id = file.stem().native();
  session_files_.insert(hash_of_id(id));
  if (in_database_.contains(id)) {
    ++again_;
    return {};
  }
  const auto info = object_in(file);
  if (!info) return {};
  ForeignHead head{.id = ids_.take(id, "opencode", sink_, file.native()),
                   .cwd = json::string_at(*info, "directory").value_or("")};
  head.parent = json::string_at(*info, "parentID").value_or("");
  head.title = json::string_at(*info, "title").value_or("");
  const std::string_view times = member(*info, "time", Kind::object).value_or("{}");
  for (const std::string_view name : {"created", "updated"})
    if (const auto at = json::find(times, name)) head.saw(time_of(*at));
  const auto revert = member(*info, "revert", Kind::object);
  OpencodeReader reader(sink_, file.native());
  TRY(reader.begin(head, *info, revert ? json::string_at(*revert, "messageID").value_or("") : ""));
  for (const fs::path& path : documents_of(messages / id, sink_)) {
    auto text = store::read_file(path);
    if (!text) {
      sink_.skip({.id = head.id, .why = text.error().detail});
      continue;
    }
    OpencodeMessage message{.id = path.stem().native(),
                            .place = "message/" + id + "/" + path.filename().native(),
                            .text = std::move(*text)};
    for (const fs::path& below : documents_of(parts / message.id, sink_)) {
      auto part = store::read_file(below);
      const std::string place = "part/" + message.id + "/" + below.filename().native();
      if (part)
        message.parts.push_back({.id = below.stem().native(), .place = place, .text = std::move(*part)});
      else
        sink_.skip({.id = head.id, .why = part.error().detail});
    }
    TRY(reader.take(message));
  }
  return reader.end();
}

// Names messages whose session has no file, and parts whose message has none.
void OpencodeStore::name_orphans(const fs::path& messages, const fs::path& parts) {
  for (const fs::path& dir : sorted_in(messages, sink_)) {
    const std::string session = dir.filename().native();
    const auto files = documents_of(dir, sink_);
    for (const fs::path& file : files) message_files_.insert(hash_of_id(file.stem().native()));
    if (!files.empty() && !session_files_.contains(hash_of_id(session)) && !in_database_.contains(session))
      sink_.skip(
          {.id = session,
           .why = fmt::format("{}: {} messages are not taken: their session has no file", dir.native(), files.size())});
  }
  for (const fs::path& dir : sorted_in(parts, sink_)) {
    if (message_files_.contains(hash_of_id(dir.filename().native()))) continue;
    if (const auto files = documents_of(dir, sink_); !files.empty())
      sink_.skip(
          {.why = fmt::format("{}: {} parts are not taken: their message has no file", dir.native(), files.size())});
  }
}

Result<void> OpencodeStore::storage(const fs::path& sessions, const fs::path& messages, const fs::path& parts) {
  TRY(sessions_in(sessions, messages, parts));
  name_orphans(messages, parts);
  return {};
}

// One folder of sessions, or one for each project with sessions in it.
Result<void> OpencodeStore::sessions_in(const fs::path& sessions, const fs::path& messages, const fs::path& parts) {
  std::error_code error;
  for (const fs::path& path : sorted_in(sessions, sink_)) {
    if (fs::is_directory(path, error)) {
      TRY(sessions_in(path, messages, parts));
    } else if (path.extension() == ".json") {
      TRY(stored_session(path, messages, parts));
    }
  }
  return {};
}

Result<void> OpencodeStore::root(const fs::path& dir) {
  for (const fs::path& path : sorted_in(dir, sink_)) {
    const std::string name = path.filename().native();
    if (!name.starts_with("opencode") || path.extension() != ".db") continue;
    TRY(database(path));
  }
  std::error_code error;
  const fs::path storage_dir = fs::is_directory(dir / "storage", error) ? dir / "storage" : dir;
  TRY(storage(storage_dir / "session", storage_dir / "message", storage_dir / "part"));
  for (const fs::path& project : sorted_in(dir / "project", sink_)) {  // before version 0.6
    const fs::path old = project / "storage/session";
    TRY(storage(old / "info", old / "message", old / "part"));
  }
  if (again_ > 0)
    sink_.skip({.why = fmt::format("{}: {} sessions are in the database, too", storage_dir.native(), again_)});
  return {};
}

}  // namespace

Result<void> read_opencode(const fs::path& root, Sink& sink) {
  OpencodeStore store(sink);
  std::error_code error;
  if (fs::is_regular_file(root, error)) return store.database(root);
  if (!fs::is_directory(root, error)) return fail(Code::not_found, root.native() + ": is neither a folder nor a file");
  return store.root(root);
}

}  // namespace sessiond::formats
