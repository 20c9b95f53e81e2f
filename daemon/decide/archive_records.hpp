// What is known of sessions' earlier transcripts: which session id, of which key, went into which archives, and which
// ids were purged. A record follows from its event (session.reset, session.deleted, topic.deleted). They are kept when
// the journal has forgotten the event, one line each, in journal order but for commits that waited for a lock:
//   journal/archives/<agent>.jsonl
//   {"seq","time","key","sessionId","channel","reason","topic"?,"archivedAs":[…],"purged"?}
// A line is written when the files have their new names, and for a purge it is durable before they are destroyed. So a
// replay that finds the line leaves alone what bears the old name: it is a newer file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/event.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct ArchiveRecord {
  std::uint64_t seq = 0;  // of the event; 0: nothing is known but the archives' names
  std::int64_t time = 0;
  std::string key{}, session_id{}, channel{}, reason{};
  std::optional<std::string> topic{};  // this topic's transcript alone was archived
  std::vector<std::string> archived_as{};
  std::size_t more = 0;  // further archives, which the event only counts; the file names them all
  bool purged = false;
};

// Nothing for other events, and where no session id is known.
std::optional<ArchiveRecord> archive_record(const Event& event);
std::string to_line(const ArchiveRecord& record);
// What GET S/history says of it: {"sessionId","archivedAs","archivedMore"?,"endedAt","reason"}
std::string history_json(const ArchiveRecord& record);
// "archivedAs":[…] and, where there are more than are told, ,"archivedMore":<count>
std::string archived_members(const ArchiveRecord& record);

// All of them; none when there is no file. A line that cannot be read is left out. Blocks, as what follows.
Result<std::vector<ArchiveRecord>> read_archive_records(const std::filesystem::path& path);
// Adds whole lines; `durable`: on disk when it returns.
Result<void> append_archive_records(const std::filesystem::path& path, std::string_view lines, bool durable);
// Writes the file anew without what is not `wanted`, when that makes it half as large or less; its size then.
Result<std::uint64_t> compact_archive_records(const std::filesystem::path& path,
                                              const std::function<bool(const ArchiveRecord&)>& wanted);

}  // namespace sessiond
