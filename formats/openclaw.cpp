#include "formats/openclaw.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "formats/foreign.hpp"
#include "formats/sqlite.hpp"
#include "policy/entry_rules.hpp"
#include "store/files.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::formats {
namespace {

namespace fs = std::filesystem;
using json::Kind;

// A transcript of this program is ours already: its lines are given as they are.
class OpenclawTranscript {
 public:
  OpenclawTranscript(Sink& sink, std::string file, std::string id)
      : sink_(sink), file_(std::move(file)), id_(std::move(id)) {}

  void skip(std::string_view place, std::string_view pointer, std::string_view why) {
    sink_.skip(
        {.id = id_, .why = fmt::format("{}, {}{}{}: {}", file_, place, pointer.empty() ? "" : ", ", pointer, why)});
  }
  Result<void> begin(SessionHead head) { return sink_.session(std::move(head)); }
  // `strict`: the line must be an entry of version 3, with an id.
  Result<void> take(const std::string& place, std::string_view line, bool strict) {
    if (const auto why = not_an_object(line)) {
      skip(place, "", *why);
      return {};
    }
    const json::Index members(line);
    const std::string id = members.string_at("id").value_or("");
    if (strict && members.string_at("type").value_or("").empty()) {
      skip(place, "/type", "is not a string");
      return {};
    }
    if (strict && !store::valid_entry_id(id)) {
      skip(place, "/id", "is missing, or no id that an entry may have");
      return {};
    }
    if (members.string_at("type") == "message" && !member(members, "message", Kind::object)) {
      skip(place, "/message", "is not an object");
      return {};
    }
    if (!id.empty()) last_ = id;
    return sink_.entry(json::compact(line));
  }
  // `leaf`: id of the entry at which the conversation goes on, or "".
  Result<void> end(const std::string& leaf = {}) {
    const bool names_leaf = !leaf.empty() && leaf != last_;
    if (names_leaf && !store::valid_entry_id("leaf-" + leaf))
      skip("", "/leaf_event_id", "is no id that an entry may have");
    else if (names_leaf)
      TRY(sink_.entry(
          fmt::format(R"({{"type":"custom","customType":"import.leaf","id":"leaf-{0}","parentId":"{0}"}})", leaf)));
    return sink_.end();
  }

 private:
  Sink& sink_;
  std::string file_, id_, last_{};
};

// The header with the version that our transcripts have; the lines of version 4 are the same.
std::string our_header(std::string_view header) {
  json::Edit edit;
  if (json::int_at(header, "version").value_or(0) > 3) edit.put_int("version", 3);
  return json::apply(json::compact(header), edit);
}

bool is_openclaw_header(std::string_view line) {
  return !not_an_object(line) && json::string_at(line, "type") == "session";
}

// The fields of an entry without those that the daemon keeps of runs by itself; each is named.
std::string imported_fields(Sink& sink, const std::string& place, const std::string& id, std::string_view entry) {
  json::Edit edit;
  for (const json::Member& member : json::members(entry)) {
    std::string name = json::unescape(member.name);
    if (!policy::never_imported(name)) continue;
    sink.skip({.id = id,
               .why = fmt::format("{}/{}: is left out: the daemon keeps it by itself", place, name),
               .what = Skipped::What::note});
    edit.unset.push_back(std::move(name));
  }
  return json::apply(json::compact(entry), edit);
}

class OpenclawStore {
 public:
  explicit OpenclawStore(Sink& sink) : sink_(sink) {}

  Result<void> agent(const fs::path& dir) {
    const fs::path database_file = dir / "agent/openclaw-agent.sqlite";
    std::error_code error;
    if (!fs::exists(database_file, error)) return folder(dir / "sessions");
    TRY(database(database_file));
    if (fs::exists(dir / "sessions/sessions.json", error))
      sink_.skip(
          {.why = (dir / "sessions/sessions.json").native() + ": is older than the agent's database, which was read"});
    return {};
  }

  Result<void> database(const fs::path& path);
  Result<void> folder(const fs::path& dir);

 private:
  Result<void> events(const Database& from, const std::string& session, OpenclawTranscript& out);
  Result<void> window(const Database& from, const std::string& key, const std::string& session, std::string entry);
  Result<void> transcript(const fs::path& file, SessionHead head);
  Result<void> session_of_folder(const fs::path& dir, const json::Member& each);
  Result<void> others(const fs::path& dir);
  std::string new_id(const std::string& wanted, const std::string& place) {
    return ids_.take(wanted, place, sink_, place);
  }

  Sink& sink_;
  SessionIds ids_{};
  std::set<std::string, std::less<>> there_{};  // the names in the folder that is read
  std::set<std::string, std::less<>> files_{};  // those of transcripts that were read
};

Result<void> OpenclawStore::events(const Database& from, const std::string& session, OpenclawTranscript& out) {
  TRY(const auto has, from.columns("transcript_events"));
  const bool packed = has.contains("event_zstd");
  TRY(auto rows,
      from.query(fmt::format("SELECT seq, event_json, {} FROM transcript_events WHERE session_id = ? ORDER BY seq",
                             packed ? "event_zstd IS NOT NULL" : "0")));
  rows.bind(1, session);
  for (;;) {
    TRY(const bool more, rows.next());
    if (!more) return {};
    const std::string place = fmt::format("transcript_events {}/{}", session, rows.integer(0));
    if (rows.integer(2) != 0) {
      out.skip(place, "/event_zstd", "is compressed");
    } else if (!is_openclaw_header(rows.text(1))) {
      TRY(out.take(place, rows.text(1), true));
    }
  }
}

Result<void> OpenclawStore::window(const Database& from, const std::string& key, const std::string& session,
                                   std::string entry) {
  const std::string id = new_id(session, from.file());
  SessionHead head{
      .id = id,
      .key = key,
      .entry = imported_fields(sink_, fmt::format("{}, session_nodes {}, /entry_json", from.file(), key), id, entry)};
  TRY(auto first, from.query("SELECT event_json FROM transcript_events WHERE session_id = ? ORDER BY seq LIMIT 1"));
  first.bind(1, session);
  TRY(const bool any, first.next());
  if (any && is_openclaw_header(first.text(0))) head.header = our_header(first.text(0));
  OpenclawTranscript out(sink_, from.file(), id);
  TRY(out.begin(std::move(head)));
  TRY(events(from, session, out));
  std::string leaf;
  TRY(const auto index, from.columns("session_transcript_index_state"));
  if (index.contains("leaf_event_id")) {
    TRY(auto state,
        from.query(
            "SELECT leaf_event_id FROM session_transcript_index_state WHERE session_id = ? AND needs_rebuild = 0"));
    state.bind(1, session);
    TRY(const bool known, state.next());
    if (known) leaf = state.text(0);
  }
  TRY(from.unchanged());
  return out.end(leaf);
}

Result<void> OpenclawStore::database(const fs::path& path) {
  TRY(const auto from, Database::open(path));
  TRY(const auto nodes, from.columns("session_nodes"));
  TRY(const auto windows, from.columns("session_windows"));
  TRY(const auto all_events, from.columns("transcript_events"));
  if (!nodes.contains("entry_json") || !windows.contains("session_key") || !all_events.contains("event_json"))
    return fail(
        Code::degraded,
        path.native() + ": has no tables session_nodes, session_windows and transcript_events as OpenClaw makes them");
  // The current session of each key, and behind it the earlier ones.
  TRY(auto rows,
      from.query("SELECT n.session_key, w.session_id, w.session_id = n.current_session_id, n.entry_json, w.updated_at, "
                 "w.created_at "
                 "FROM session_nodes n JOIN session_windows w ON w.session_key = n.session_key "
                 "ORDER BY n.session_key, w.session_id <> n.current_session_id, w.created_at, w.session_id"));
  for (;;) {
    TRY(const bool more, rows.next());
    if (!more) break;
    const std::string key(rows.text(0)), session(rows.text(1));
    std::string entry(rows.text(3));
    const bool current = rows.integer(2) != 0;
    if (current && not_an_object(entry)) {
      sink_.skip({.id = session,
                  .why = fmt::format(
                      "{}, session_nodes {}, /entry_json: is not a JSON object; the session is taken without it",
                      path.native(), key)});
      entry.clear();
    }
    if (!current || entry.empty())
      entry = fmt::format(R"({{"sessionStartedAt":{},"updatedAt":{}}})", rows.integer(5), rows.integer(4));
    TRY(window(from, current ? key : "", session, std::move(entry)));
  }
  TRY(auto lost, from.query("SELECT n.session_key FROM session_nodes n WHERE NOT EXISTS (SELECT 1 FROM session_windows "
                            "w WHERE w.session_id = n.current_session_id)"));
  for (;;) {
    TRY(const bool more, lost.next());
    if (!more) break;
    sink_.skip({.why = fmt::format("{}, session_nodes {}, /current_session_id: names no row of session_windows",
                                   path.native(), lost.text(0))});
  }
  for (const std::string_view table : {"session_transcript_archives", "session_transcript_cold_archives"}) {
    TRY(const auto has, from.columns(table));
    if (has.empty()) continue;
    TRY(auto count, from.query(fmt::format("SELECT count(*) FROM {}", table)));
    TRY(count.next());
    if (count.integer(0) > 0)
      sink_.skip({.why = fmt::format("{}, {}: {} archived transcripts are not taken", path.native(), table,
                                     count.integer(0))});
  }
  return from.unchanged();
}

Result<void> OpenclawStore::transcript(const fs::path& file, SessionHead head) {
  files_.insert(file.filename().native());
  const std::string id = head.id;
  std::error_code error;
  if (!fs::exists(file, error)) {
    TRY(sink_.session(std::move(head)));
    return sink_.end();
  }
  const auto readable = each_line(file, [&head](std::string_view line, std::uint64_t number) {
    if (number == 1 && is_openclaw_header(line)) head.header = our_header(line);
    return Result<void>();
  });
  if (!readable) {
    sink_.skip({.id = id, .why = readable.error().detail});
    return {};
  }
  OpenclawTranscript out(sink_, file.native(), id);
  TRY(out.begin(std::move(head)));
  TRY(each_line(file, [&out](std::string_view line, std::uint64_t number) -> Result<void> {
    if (line.empty() || (number == 1 && is_openclaw_header(line))) return {};
    return out.take(line_place(number), line, false);
  }));
  return out.end();
}

Result<void> OpenclawStore::session_of_folder(const fs::path& dir, const json::Member& each) {
  const std::string key = json::unescape(each.name);
  const std::string place = (dir / "sessions.json").native();
  const auto wanted = json::kind(each.value) == Kind::object ? json::string_at(each.value, "sessionId") : std::nullopt;
  if (!wanted || !store::check_session_id(*wanted)) {
    sink_.skip({.why = fmt::format("{}, /{}/sessionId: is missing, or no id that a session may have", place, key)});
    return {};
  }
  const std::string id = new_id(*wanted, place);
  // A session whose key ends in a topic has that topic's file.
  fs::path file = dir / store::transcript_file(*wanted, store::parse_key(key).topic);
  if (!there_.contains(file.filename().native())) file = dir / store::transcript_file(*wanted, "");
  if (const auto named = json::string_at(each.value, "sessionFile")) file = dir / fs::path(*named).filename();
  TRY(transcript(
      file,
      {.id = id, .key = key, .entry = imported_fields(sink_, fmt::format("{}, /{}", place, key), id, each.value)}));
  const std::string prefix = *wanted + "-topic-";
  for (auto name = there_.lower_bound(prefix); name != there_.end() && name->starts_with(prefix); ++name) {
    const auto topic = store::topic_of_file(*wanted, *name);
    if (topic && !files_.contains(*name)) TRY(transcript(dir / *name, {.id = id, .key = key, .topic = topic}));
  }
  return {};
}

// Transcripts that no entry names.
Result<void> OpenclawStore::others(const fs::path& dir) {
  for (const std::string& name : there_) {
    const fs::path path = dir / name;
    if (files_.contains(name) || !name.contains(".jsonl") || name.ends_with(".lock")) continue;
    const std::string stem = path.stem().native();
    if (path.extension() == ".jsonl" && !name.contains(".trajectory.") && store::check_session_id(stem)) {
      TRY(transcript(path, {.id = new_id(stem, dir.native())}));
    } else {
      sink_.skip({.why = path.native() + ": is an archive, or no transcript"});
    }
  }
  return {};
}

Result<void> OpenclawStore::folder(const fs::path& dir) {
  files_.clear();
  there_.clear();
  for (const fs::path& path : sorted_in(dir, sink_)) there_.insert(path.filename().native());
  TRY(const auto text, store::read_file(dir / "sessions.json"));
  if (const auto why = not_an_object(text)) return fail(Code::degraded, (dir / "sessions.json").native() + ": " + *why);
  for (const json::Member& each : json::members(text)) TRY(session_of_folder(dir, each));
  return others(dir);
}

}  // namespace

Result<void> read_openclaw(const fs::path& root, Sink& sink) {
  OpenclawStore store(sink);
  std::error_code error;
  if (fs::is_regular_file(root, error)) return store.database(root);
  if (!fs::is_directory(root, error)) return fail(Code::not_found, root.native() + ": is neither a folder nor a file");
  if (fs::exists(root / "sessions.json", error)) return store.folder(root);
  if (fs::exists(root / "agent/openclaw-agent.sqlite", error) || fs::exists(root / "sessions/sessions.json", error))
    return store.agent(root);
  const fs::path agents = fs::is_directory(root / "agents", error) ? root / "agents" : root;
  bool any = false;
  for (const fs::path& dir : sorted_in(agents, sink)) {
    if (!fs::exists(dir / "agent/openclaw-agent.sqlite", error) && !fs::exists(dir / "sessions/sessions.json", error))
      continue;
    any = true;
    if (const auto read = store.agent(dir); !read) {
      if (read.error().code != Code::degraded) return read;
      sink.skip({.why = read.error().detail});  // another agent's store may be whole
    }
  }
  return any ? Result<void>() : fail(Code::not_found, root.native() + ": holds no store of OpenClaw");
}

}  // namespace sessiond::formats
