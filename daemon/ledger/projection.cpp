#include "daemon/ledger/projection.hpp"

#include <filesystem>

#include "store/event.hpp"
#include "store/files.hpp"
#include "store/raw_json.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/entry.hpp"

namespace sessiond {

bool Projection::archives(EventType type) {
  return type == EventType::session_reset || type == EventType::session_deleted || type == EventType::topic_deleted;
}

bool Projection::archives(std::string_view event) {
  for (const json::Member& member : json::members(event)) {
    if (member.name != "type") continue;
    const auto type = event_type(member.value.substr(1, member.value.size() - 2));
    return type && archives(*type);
  }
  return false;
}

std::vector<std::pair<std::string, std::string>> Projection::archived_files(const Event& event) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto raw : json::elements(json::find(event.data, "archivedAs").value_or("[]"))) {
    std::string name = json::as_string(raw).value_or("");
    const std::size_t end = name.rfind(".jsonl.");
    if (end == std::string::npos || name.find('/') != std::string::npos) continue;
    std::string file = name.substr(0, end + 6);
    out.emplace_back(std::move(file), std::move(name));
  }
  return out;
}

bool Projection::purges(const Event& event) { return json::find(event.data, "purged") == "true"; }

Result<void> Projection::add(std::uint64_t first_seq, std::span<const Bytes> events,
                             std::span<const std::string> places, const Redirect& redirect) {
  // In order: the lines of what came before a rename go first.
  std::size_t next = 0;
  for (std::size_t index = 0; index < events.size(); ++index) {
    if (!archives(*events[index])) continue;
    if (auto done = add_lines(first_seq, events, places, next, first_seq + index, redirect); !done) return done;
    if (auto done = archive_files(*events[index]); !done) return done;
  }
  return add_lines(first_seq, events, places, next, UINT64_MAX, redirect);
}

Result<void> Projection::add_lines(std::uint64_t first_seq, std::span<const Bytes> events,
                                   std::span<const std::string> places, std::size_t& next, std::uint64_t before,
                                   const Redirect& redirect) {
  for (; next < places.size(); ++next) {
    const std::string& place = places[next];
    std::string file;
    std::string agent;
    std::string line;
    std::uint64_t at = 0;
    std::uint64_t seq = 0;
    for (const json::Member& member : json::members(place)) {
      if (member.name == "file")
        file = json::as_string(member.value).value_or("");
      else if (member.name == "agent")
        agent = json::as_string(member.value).value_or("");
      else if (member.name == "at")
        at = static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
      else if (member.name == "seq")
        seq = static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
      else if (member.name == "line")
        line = json::as_string(member.value).value_or("");
    }
    if (seq >= before) return {};
    if (seq < first_seq) continue;  // of a batch that is read from its middle on: the file has it
    std::string id;                 // of the entry; a header has none
    if (line.empty()) {
      if (seq - first_seq >= events.size())
        return fail(Code::internal, "a place names an event outside its batch: " + place);
      const auto data = json::find(*events[seq - first_seq], "data").value_or("{}");
      const auto message = json::find(data, "message").value_or("{}");
      line = line_of(message);
      id = json::string_at(message, "id").value_or("");
    } else if (entry_type(line) != "session") {
      id = json::string_at(line, "id").value_or("");
    }
    std::optional<std::string> path = paths_.sessions_dir(agent) + file;
    if (redirect) path = redirect(seq, *path);
    if (path) appender_.add({.file = std::move(*path), .offset = at}, line, id);
  }
  return {};
}

Result<void> Projection::archive_files(std::string_view text) {
  auto event = parse_event(std::string(text));
  if (!event) return std::unexpected(std::move(event.error()));
  const std::string dir = paths_.sessions_dir(event->envelope.agent);
  for (const auto& [file, name] : archived_files(*event)) {
    if (auto closed = appender_.close(dir + file); !closed) return closed;
    std::error_code ignored;  // what is gone already is only gone; an index of a file that is gone is only space
    const auto archived = paths_.state_dir() / dir / name;
    // There already: it was renamed before a crash, and a file of that name that stands there now is a newer one.
    if (std::filesystem::exists(archived, ignored) && !purges(*event)) continue;
    auto done = archive(paths_.state_dir() / dir, file, name);
    if (!done) return std::unexpected(std::move(done.error()));
    if (purges(*event)) std::filesystem::remove(paths_.state_dir() / dir / name, ignored);
    std::filesystem::remove(paths_.sidecar(event->envelope.agent, file), ignored);
  }
  return {};
}

}  // namespace sessiond
