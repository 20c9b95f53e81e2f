// Turns what foreign programs wrote into events: changes of sessions.json, and lines in transcripts.
#pragma once

#include <set>
#include <unordered_map>

#include "daemon/decide/decision.hpp"
#include "store/journal/event.hpp"
#include "store/sessions/sessions_file.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::decide {

// Emits created, updated and deleted sessions with source "external", and one store.external_change, which tells
// subscribers to read the sessions again. What both sides changed is merged field by field. A deletion counts unless
// one of our own commands changed the entry since the last checkpoint; an entry that is dirty only because a foreign
// change was merged is theirs to delete. `at_load`: the state is the store as we last wrote it, without the sessions
// that the foreign program deleted.
Decision decide_foreign_change(const AgentState& state, const sessions::ForeignChange& change, const Context& context,
                               bool at_load);

// Adds to a change that a load has found the sessions that have runs and are not there, as deleted: another program
// took them out of the store, and nothing else told of it.
void note_lost_sessions(const AgentState& state, std::optional<sessions::ForeignChange>& change);

// An active run of a session that another program gives another transcript, or deletes.
struct LeftRun {
  std::string key;
  std::string file;  // its transcript
};
// Lists the runs that a change leaves behind. Each is ended by decide_left_behind before the change is decided: its
// last words are then in the transcript that they belong to. decide_foreign_change ends what is left by events alone.
std::vector<LeftRun> runs_left_behind(const AgentState& state, const sessions::ForeignChange& change);
// Ends the runs of the session as a reset does. Decides nothing where the transcript is gone.
Result<Decision> decide_left_behind(const AgentState& state, const LeftRun& run, const Context& context);

// Splits a change into slices of at most 256 entries, in its order: a store may bring 100 000 entries, and a slice
// keeps the loop busy for less than 10 ms. `overwritten` is in no slice. The change must outlive this.
class ForeignSlices {
 public:
  explicit ForeignSlices(sessions::ForeignChange& change) : change_(change) {}
  sessions::ForeignChange next();  // moves the next slice out of the change
  bool done() const { return at_ == change_.created.size() + change_.updated.size() + change_.deleted.size(); }

 private:
  sessions::ForeignChange& change_;
  std::size_t at_ = 0;
};

// Finds out, during a load, which differences between the store and our last known generation are our own.
//
// After a power cut the note that names our last generation may be gone. The store is then compared with the generation
// before it, and our own changes in between look foreign. But an entry carries in `rev` the seq of our last event in
// it. So while the journal is replayed, this keeps each entry as it was at the `rev` and updatedAt that the store has.
// The foreign change is the difference from that.
class OwnVersions {
 public:
  explicit OwnVersions(const std::optional<sessions::ForeignChange>& change);
  // To be called after each apply(state, event).
  void applied(const AgentState& state, const journal::Event& event);
  // Replaces the bases of the change by the kept versions, and removes what is then no difference.
  void remove_own(std::optional<sessions::ForeignChange>& change) const;

 private:
  struct Wanted {
    std::uint64_t rev = 0;
    std::int64_t updated_at = 0;
  };
  std::unordered_map<std::string, Wanted> wanted_;                // by key: what the store's entry says
  std::unordered_map<std::string, sessions::RawEntry> versions_;  // by key
  std::set<std::string, std::less<>> deleted_;                    // keys that we deleted
};

// The lines that a foreign program appended to one transcript. Without lines: it replaced, cut or removed
// the file.
struct ForeignLines {
  std::string file;
  std::uint64_t inode = 0;  // 0: the file is gone
  std::uint64_t size = 0;   // of the file
  std::uint64_t begin = 0;  // where the unpublished bytes begin; the first line may begin later
  std::vector<transcripts::WholeLine> lines{};
};

// Emits message.appended for each line, and notes in a line position that the lines are published. messageCount and the
// session's times change as for our own lines. Counters of tokens and compactions do not: the foreign program keeps
// those in sessions.json itself. For a file that was rewritten, emits only store.external_change, because it cannot be
// told which of its lines are new.
Decision decide_foreign_lines(const AgentState& state, const AgentState::Owner& owner, const ForeignLines& theirs,
                              const Context& context);

// Emits transcript.renumbered: foreign lines got seqs that had been told for lines of ours. `from` is the lowest of
// them.
Decision decide_renumbered(const AgentState& state, const AgentState::Owner& owner, std::uint64_t from,
                           const Context& context);

}  // namespace sessiond::decide
