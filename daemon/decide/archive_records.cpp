#include "daemon/decide/archive_records.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::decide {
namespace {

std::vector<std::string> names_in(std::string_view array) {
  std::vector<std::string> out;
  for (const auto name : json::elements(array)) out.push_back(json::as_string(name).value_or(""));
  return out;
}

ArchiveRecord record_of(std::string_view line) {
  const auto text = [line](std::string_view name) { return json::string_at(line, name).value_or(""); };
  return {.seq = static_cast<std::uint64_t>(json::int_at(line, "seq").value_or(0)),
          .time = json::int_at(line, "time").value_or(0),
          .key = text("key"),
          .session_id = text("sessionId"),
          .channel = text("channel"),
          .channels = text("channels"),
          .reason = text("reason"),
          .topic = json::string_at(line, "topic"),
          .archived_as = names_in(json::find(line, "archivedAs").value_or("[]")),
          .entry_as = text("entryAs"),
          .purged = json::find(line, "purged") == "true"};
}

}  // namespace

ArchiveRecord archives_in(const journal::Event& event) {
  const journal::Envelope& about = event.envelope;
  const std::int64_t more = json::int_at(event.data, "archivedMore").value_or(0);
  return {.seq = about.seq,
          .time = about.time,
          .key = about.key,
          .session_id = about.session_id,
          .channel = about.channel,
          .channels = about.channels,
          .archived_as = names_in(json::find(event.data, "archivedAs").value_or("[]")),
          .entry_as = json::string_at(event.data, "entryAs").value_or(""),
          .more = static_cast<std::size_t>(std::max<std::int64_t>(more, 0))};
}

std::optional<ArchiveRecord> archive_record(const journal::Event& event) {
  const journal::Envelope& about = event.envelope;
  using enum journal::EventType;
  if (about.type != session_reset && about.type != session_deleted && about.type != topic_deleted &&
      about.type != context_cleared)
    return {};
  ArchiveRecord record = archives_in(event);
  switch (about.type) {
    case session_reset:
      record.session_id = json::string_at(event.data, "previousSessionId").value_or("");
      record.reason = json::string_at(event.data, "reason").value_or("reset");
      break;
    case context_cleared:
      record.reason = "cleared";
      break;
    case session_deleted:
      record.reason = json::find(event.data, "reason") ? "pruned" : "deleted";
      record.purged = json::find(event.data, "purged") == "true";
      break;
    default:
      record.reason = "deleted";
      record.topic = about.topic;
  }
  if (record.session_id.empty()) return {};
  if (record.purged) {
    record.archived_as.clear();
    record.entry_as.clear();
  }
  return record;
}

std::string to_line(const ArchiveRecord& record) {
  json::ObjectWriter writer;
  writer.integer("seq", static_cast<std::int64_t>(record.seq));
  writer.integer("time", record.time);
  writer.string("key", record.key);
  writer.string("sessionId", record.session_id);
  writer.string("channel", record.channel);
  if (!record.channels.empty()) writer.string("channels", record.channels);
  writer.string("reason", record.reason);
  if (record.topic) writer.string("topic", *record.topic);
  writer.raw("archivedAs", json::array_of(record.archived_as));
  if (!record.entry_as.empty()) writer.string("entryAs", record.entry_as);
  if (record.purged) writer.boolean("purged", true);
  return writer.text() + "\n";
}

std::string history_json(const ArchiveRecord& record) {
  return fmt::format(R"({{"sessionId":{},{},"endedAt":{},"reason":{}}})", json::quote(record.session_id),
                     archived_members(record), record.time, json::quote(record.reason));
}

std::string longer_history(std::string_view entry, const ArchiveRecord& newest) {
  std::string list = "[" + history_json(newest);
  std::size_t count = 1;
  for (const auto old : json::elements(json::find(entry, "previousSessions").value_or("[]"))) {
    if (count++ == limits::previous_sessions || list.size() + old.size() > limits::previous_bytes) break;
    list.append(",").append(old);
  }
  return list + "]";
}

std::string archived_members(std::span<const std::string> names, std::size_t more) {
  const std::span told = names.first(std::min(names.size(), limits::archive_names));
  more += names.size() - told.size();
  std::string out = "\"archivedAs\":" + json::array_of(told);
  if (more > 0) out += fmt::format(",\"archivedMore\":{}", more);
  return out;
}

bool was_own(const ArchiveRecord& record, std::string_view topic) {
  // The entry is kept under the name of the session's own transcript.
  if (!record.entry_as.empty())
    return store::topic_of_file(record.session_id, record.entry_as.substr(0, record.entry_as.rfind(".jsonl.") + 6)) ==
           topic;
  const store::KeyParts parts = store::parse_key(record.key);
  if (!parts.topic.empty()) return topic == parts.topic;
  return !parts.thread.empty() && store::lower_key(topic) == store::lower_key(parts.thread);
}

std::optional<std::string> topic_of(const ArchiveRecord& record, std::string_view archive) {
  auto topic = store::topic_of_file(record.session_id, archive.substr(0, archive.rfind(".jsonl.") + 6));
  if (topic && was_own(record, *topic)) topic.reset();
  return topic;
}

std::string_view ending_of(const ArchiveRecord& record) {
  return transcripts::archive_ending(record.archived_as.empty() ? record.entry_as : record.archived_as.front());
}

std::string archived_members(const ArchiveRecord& record) { return archived_members(record.archived_as, record.more); }

Result<std::vector<ArchiveRecord>> read_archive_records(const std::filesystem::path& path) {
  std::vector<ArchiveRecord> out;
  const auto text = store::read_file(path);
  if (!text && text.error().code == Code::not_found) return out;
  if (!text) return std::unexpected(text.error());
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!json::check(line) || json::kind(line) != json::Kind::object) continue;
    ArchiveRecord record = record_of(line);
    if (!record.session_id.empty()) out.push_back(std::move(record));
  }
  return out;
}

Result<void> append_archive_records(const std::filesystem::path& path, std::string_view lines, bool durable) {
  TRY(store::make_dirs(path.parent_path()));
  TRY(auto fd, store::open_file(path, O_RDWR | O_APPEND | O_CREAT));
  TRY(const auto status, store::status_of(fd.get(), path.native()));
  std::string text;
  if (status.st_size > 0) {  // a line that a kill has torn ends here
    TRY(const auto last, store::read_at(fd.get(), static_cast<std::uint64_t>(status.st_size) - 1, 1, path.native()));
    if (last != "\n") text = "\n";
  }
  text += lines;
  TRY(store::write_all(fd.get(), text, path.native()));
  if (!durable) return {};
  TRY(store::sync_file(fd.get(), path));
  TRY(store::sync_dir(path.parent_path()));
  return store::sync_dir(path.parent_path().parent_path());
}

Result<std::uint64_t> compact_archive_records(const std::filesystem::path& path,
                                              const std::function<bool(const ArchiveRecord&)>& wanted) {
  TRY(const auto text, store::read_file(path));
  TRY(const auto records, read_archive_records(path));
  std::string kept;
  for (const ArchiveRecord& record : records) {
    if (wanted(record)) kept += to_line(record);
  }
  if (kept.size() > text.size() / 2) return text.size();
  TRY(store::replace_file(path, kept));
  return kept.size();
}

}  // namespace sessiond::decide
