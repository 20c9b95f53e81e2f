// The archive records of one agent (archive_records.hpp), found by session id and by key, and the session ids of files
// that were in the agent's folder when it was loaded. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "daemon/decide/archive_records.hpp"
#include "daemon/decide/string_map.hpp"

namespace sessiond::decide {

class ArchiveIndex {
 public:
  // Each returns the oldest record first.
  std::vector<const ArchiveRecord*> of_id(std::string_view session_id) const;
  std::vector<const ArchiveRecord*> of_key(std::string_view key) const;
  // Returns whether archives of this session id are left, besides those of `except`.
  bool has_archives(std::string_view session_id, const ArchiveRecord* except = nullptr) const;
  using Order = std::tuple<std::int64_t, std::uint64_t, std::string>;  // time, seq, session id
  const std::map<Order, ArchiveRecord>& all() const { return all_; }

  // Adds a record. A record without a seq comes from a directory listing; the event's record replaces it when both name
  // the same archive, and two listed records of the same time and session id are joined.
  void add(ArchiveRecord record);

  // Removes the record of archives that were restored: their session lives again.
  void remove(std::string_view session_id, std::string_view ending);

  // Takes the files whose names have this ending out of the records of a session id: they are destroyed.
  void forget_files(std::string_view session_id, std::string_view ending);

  // Notes that a file with this session id was in the folder when the agent was loaded.
  void add_found(std::string session_id) { found_.insert(std::move(session_id)); }
  bool was_found(std::string_view session_id) const { return found_.contains(session_id); }

 private:
  std::map<Order, ArchiveRecord> all_;
  StringMultimap<const ArchiveRecord*> by_id_;
  StringMultimap<const ArchiveRecord*> by_key_;
  StringSet found_;
};

}  // namespace sessiond::decide
