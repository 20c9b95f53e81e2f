// Reads the part of a transcript that a model is shown (policy/context/view.hpp): on the path to the leaf, the system
// messages, the last checkpoint, the entries that it keeps, and all that follow. It costs what that part costs, however
// long the transcript is.
//
// The entries that a checkpoint keeps begin with its firstKeptEntryId, or that of version 1, firstKeptEntryIndex. If
// that entry is not on the path, it keeps none. Foreign programs write several entries with one id: the last one on the
// path, before the checkpoint, is meant. Blocks, like Transcript.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/context/run_order.hpp"
#include "policy/context/view.hpp"
#include "store/problem.hpp"
#include "transcripts/entry_shape.hpp"
#include "transcripts/memory_transcript.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {

// Reads at most about `bytes` of entries; Conversation::cut says that there were more. If there are more and only the
// last `messages` are wanted, these are read, and some more.
struct ReadLimits {
  std::uint64_t bytes = 64 << 20;
  std::optional<std::int64_t> messages{};
  std::string name{};                      // of the transcript: transcript_name(); empty: changes are left out
  std::optional<std::uint64_t> through{};  // as it was when this was the last entry; nothing: as it is now
  context::OrderAsked order{};
};
Result<context::Conversation> read_conversation(Transcript& transcript, const ReadLimits& limits);
Result<context::Conversation> read_conversation(const MemoryTranscript& transcript, const ReadLimits& limits);

// Reads what people did later to the messages of a transcript, whose name is transcript_name().
Result<ShownChanges> read_changes(Transcript& source, const std::string& name);
Result<ShownChanges> read_changes(const MemoryTranscript& source, const std::string& name);
// Reads only what changed_line() needs for these lines: the changes of their messages, and of the messages that they
// edit. Those may be in other transcripts.
Result<ShownChanges> read_changes(Transcript& source, const std::string& name, const std::vector<StoredLine>& lines);
Result<ShownChanges> read_changes(const MemoryTranscript& source, const std::string& name,
                                  const std::vector<StoredLine>& lines);

// Returns the line of a message as people left it (changed_line). An empty line: no entry has this id.
Result<StoredLine> read_shown_line(Transcript& source, const std::string& name, const std::string& entry_id);
Result<StoredLine> read_shown_line(const MemoryTranscript& source, const std::string& name,
                                   const std::string& entry_id);

// The path from the first entry to a message, in the order of runs. Where a later entry hands a person's word to a run,
// the path goes on to that entry: there the word stands. Words that waited for a run there, and came behind the last
// checkpoint, are left out; but none is if the message waited, too.
struct PathAsked {
  std::string to{};                    // id; the last entry that has it. Empty: all, to the leaf
  std::vector<std::string> waiting{};  // OrderAsked
};
// Returns it in the file's order. message_not_found.
Result<std::vector<SeqSpan>> read_path(Transcript& transcript, const PathAsked& asked = {});
Result<std::vector<SeqSpan>> read_path(const MemoryTranscript& transcript, const PathAsked& asked = {});

// Returns what a stored line tells of a run. Null: nothing.
std::shared_ptr<const context::RunNote> run_note_of(std::uint64_t seq, std::string_view line);

// Measures the path to the leaf, in the order of runs. Reads only what was appended since it was measured last, unless
// there was a branch or a checkpoint, a word stands elsewhere than where it was measured, or messages were edited or
// deleted: then it reads what is shown. If what was changed cannot be read, messages count as they are stored.
// `waiting`: OrderAsked. `name`: ReadLimits.
Result<context::Meter> measure(Transcript& transcript, std::int64_t doom_count,
                               const std::vector<std::string>& waiting = {}, const std::string& name = {});
Result<context::Meter> measure(const MemoryTranscript& transcript, std::int64_t doom_count,
                               const std::vector<std::string>& waiting = {}, const std::string& name = {});

// Returns those of the ids by which messages of the transcript, on any branch, call tools. Reads it until all are
// found.
using CallIds = std::set<std::string, std::less<>>;
Result<CallIds> find_calls(Transcript& transcript, const CallIds& ids);
Result<CallIds> find_calls(const MemoryTranscript& transcript, const CallIds& ids);

// An entry that a compaction would keep first, in the order of runs, as the path to the leaf has it.
struct KeptEntry {
  bool on_path = false;
  bool beyond_last = false;     // something goes that the last checkpoint keeps, or that is behind it
  std::string checkpoint{};     // id of the last checkpoint; empty: there is none
  std::uint64_t branches = 0;   // of the transcript
  std::string first_in_file{};  // id of the one of all kept entries that stands first in the file
  context::Kept kept{};         // what a checkpoint says beside that id
};
// `name`: ReadLimits.
Result<KeptEntry> look_up_kept(Transcript& transcript, const std::string& entry_id, const std::string& name = {},
                               const context::OrderAsked& asked = {});
Result<KeptEntry> look_up_kept(const MemoryTranscript& transcript, const std::string& entry_id,
                               const std::string& name = {}, const context::OrderAsked& asked = {});

// Returns an entry's type and body as policy/context/entry.hpp reads them. `held` keeps a body that is made.
std::pair<std::string, std::string_view> spoken_of(const EntryFields& fields, std::string_view line, std::string& held);

}  // namespace sessiond::transcripts
