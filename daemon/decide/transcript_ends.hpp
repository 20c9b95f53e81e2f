// Keeps in memory where the transcripts of one agent end, and which topics each session id has.
//
// A transcript whose end is not known has to be read before anything is appended to it: decisions then ask for a `Need`
// (decision.hpp). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "daemon/decide/string_map.hpp"
#include "policy/context/meter.hpp"
#include "transcripts/id_index.hpp"

namespace sessiond::decide {

// Where a transcript ends, including lines that are committed but not yet in the file.
struct TranscriptEnd {
  std::uint64_t size = 0;   // bytes
  std::uint64_t count = 0;  // entries; also the seq of the next one
  bool has_header = false;
  bool ends_in_newline = true;
  std::string last_id;
  std::uint64_t last_seq = 0;               // journal seq of the last append; reads wait until it is durable
  std::uint64_t read_size = 0;              // size of the file when this was read from it
  std::optional<std::int64_t> started{};    // time in the header, ms since the epoch
  std::shared_ptr<transcripts::IdSet> ids;  // ids of all entries; loaded when a client first brings ids of its own
  // How full the model's window is, to the last entry. Null: the transcript has to be measured, because there was a
  // branch or a checkpoint.
  std::shared_ptr<const context::Meter> meter;
};

class TranscriptEnds {
 public:
  // Null if the end is not known. Files are named without their folder.
  const TranscriptEnd* find(std::string_view file) const {
    const auto found = ends_.find(file);
    return found == ends_.end() ? nullptr : &found->second;
  }
  TranscriptEnd& find_or_add(std::string_view file) { return ends_[std::string(file)]; }
  void forget(std::string_view file) {
    if (const auto found = ends_.find(file); found != ends_.end()) ends_.erase(found);
    ++forgotten_[std::string(file)];  // a read of it may be under way
  }
  // Counts how often a file's end was forgotten. What was read from the file is its end only if this is as it was
  // before the read: otherwise a line may have been committed behind the end that was forgotten, and not be counted.
  std::uint64_t forgotten(std::string_view file) const {
    const auto found = forgotten_.find(file);
    return found == forgotten_.end() ? 0 : found->second;
  }
  const StringMap<TranscriptEnd>& all() const { return ends_; }

  // Returns the topics that a session id has transcripts for, streams included. Null if it never had one.
  const std::set<std::string>* topics(std::string_view session_id) const {
    const auto found = topics_.find(session_id);
    return found == topics_.end() ? nullptr : &found->second;
  }
  void add_topic(std::string_view session_id, std::string topic) {
    topics_[std::string(session_id)].insert(std::move(topic));
  }
  void remove_topic(std::string_view session_id, const std::string& topic) {
    if (const auto found = topics_.find(session_id); found != topics_.end()) found->second.erase(topic);
  }
  void forget_topics(std::string_view session_id) {
    if (const auto found = topics_.find(session_id); found != topics_.end()) topics_.erase(found);
  }

 private:
  StringMap<TranscriptEnd> ends_;
  StringMap<std::uint64_t> forgotten_;
  StringMap<std::set<std::string>> topics_;
};

}  // namespace sessiond::decide
