// Archive records: which transcripts a reset or deletion archived or purged, and under which names.
//
// A record follows from its event (session.reset, context.cleared, session.deleted, topic.deleted). Records outlive the
// journal's retention in one file per agent, one JSON line a record:
//   journal/archives/<agent>.jsonl
//   {"seq","time","key","sessionId","channel","channels"?,"reason","topic"?,"archivedAs":[…],"entryAs"?,"purged"?}
// The lines are in journal order, except that commits which waited for a lock come later. A line is written after the
// files were renamed; for a purge, it is durable before the files are destroyed. So if a replay finds the line, a file
// with the old name is a newer file and is left alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/event.hpp"
#include "store/problem.hpp"

namespace sessiond::decide {

struct ArchiveRecord {
  std::uint64_t seq = 0;  // of the event; 0: only the archives' names are known, from a directory listing
  std::int64_t time = 0;  // ms since the epoch
  std::string key{}, session_id{}, channel{}, channels{}, reason{};
  std::optional<std::string> topic{};  // set: only this topic's transcript was archived
  std::vector<std::string> archived_as{};
  std::string entry_as{};  // the file that keeps the session's entry; empty: none
  std::size_t more = 0;    // archives that the event counts without their names; the file names all
  bool purged = false;

  // The channel whose tokens see the archives. "": no token that is limited to a channel does.
  std::string_view audience() const { return channels.empty() ? std::string_view(channel) : std::string_view(); }
};

// Reads the names of archives, and of the file with the entry, that an event has: it made them, or restored them.
ArchiveRecord archives_in(const journal::Event& event);
// Returns nothing for other events than resets, clears and deletions, and for events without a session id.
std::optional<ArchiveRecord> archive_record(const journal::Event& event);
std::string to_line(const ArchiveRecord& record);
// Returns {"sessionId","archivedAs","archivedMore"?,"endedAt","reason"}, as a session's history shows it.
std::string history_json(const ArchiveRecord& record);
// Returns the list `previousSessions` of an entry with one more at its head; the oldest make room.
std::string longer_history(std::string_view entry, const ArchiveRecord& newest);
// Returns "archivedAs":[…] with the first limits::archive_names names and, if there are others (`more` of which have no
// name here), ,"archivedMore":<count>.
std::string archived_members(std::span<const std::string> names, std::size_t more = 0);
std::string archived_members(const ArchiveRecord& record);
// Returns ".deleted.<time>", which the names of all archives of the record end in; "" if it has none.
std::string_view ending_of(const ArchiveRecord& record);

// Whether the transcript of this topic was the session's own (Session::own_topic).
bool was_own(const ArchiveRecord& record, std::string_view topic);
// Returns the topic of an archived transcript; nothing: it was the session's own.
std::optional<std::string> topic_of(const ArchiveRecord& record, std::string_view archive);

// Reads all records; none if there is no file. Skips lines that cannot be read. Blocks, as do the functions below.
Result<std::vector<ArchiveRecord>> read_archive_records(const std::filesystem::path& path);
// Appends whole lines. `durable`: they are on disk when it returns.
Result<void> append_archive_records(const std::filesystem::path& path, std::string_view lines, bool durable);
// Rewrites the file without the records that are not `wanted`, if that at least halves it. Returns the size of the
// file.
Result<std::uint64_t> compact_archive_records(const std::filesystem::path& path,
                                              const std::function<bool(const ArchiveRecord&)>& wanted);

}  // namespace sessiond::decide
