// What other programs wrote, as events: into sessions.json (FORMATS §2 "Merge") and into transcripts (§4).
#pragma once

#include <set>
#include <unordered_map>

#include "daemon/decide/decision.hpp"
#include "store/journal/event.hpp"
#include "store/sessions/sessions_file.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond {

// Created, updated and deleted sessions with source "external", and one store.external_change that tells subscribers to
// look again. A deletion stands unless we hold an unwritten change of our own: an entry that is only to be written
// because of what others did (a merged change, its rev, lines of theirs) is theirs to delete. What both changed is
// merged field by field.
// `at_load`: the state is the store as we left it, but for what was deleted.
Decision decide_foreign_change(const AgentState& state, const ForeignChange& change, const Context& context,
                               bool at_load);

// A change in slices, in its order: a store may bring 100 000 entries, and 256 of them take the network thread under
// 10 ms. What was overwritten is in none.
class ForeignSlices {
 public:
  explicit ForeignSlices(ForeignChange& change) : change_(change) {}
  ForeignChange next();  // moved out of the change
  bool done() const { return at_ == change_.created.size() + change_.updated.size() + change_.deleted.size(); }

 private:
  ForeignChange& change_;
  std::size_t at_ = 0;
};

// Tells our own changes from another program's in what a load found. A power cut can take the note that says which
// generation of the store is our last: it is then compared with the one before, and what the journal has beyond that
// one looks like another's work. An entry carries the seq of our last event in it (`rev`), so while those events are
// replayed it is seen what the entry was then, with the messages that it had by its updatedAt, and their change is what
// differs from that.
class OwnVersions {
 public:
  explicit OwnVersions(const std::optional<ForeignChange>& change);
  void applied(const AgentState& state, const Event& event);  // right after apply(state, event)
  void remove_own(std::optional<ForeignChange>& change) const;

 private:
  struct Wanted {
    std::uint64_t rev = 0;
    std::int64_t updated_at = 0;
  };
  std::unordered_map<std::string, Wanted> wanted_;      // by key: what theirs says of itself
  std::unordered_map<std::string, RawEntry> versions_;  // by key
  std::set<std::string, std::less<>> deleted_;          // by us
};

// What another program did to one transcript: lines that it put there, or, without lines, that it is now another file.
struct ForeignLines {
  std::string file;
  std::uint64_t inode = 0;  // 0: the file is gone
  std::uint64_t size = 0;   // of the file
  std::uint64_t begin = 0;  // offset of what was unknown before the first line
  std::vector<WholeLine> lines{};
};

// A message.appended for each line, and a line position that says that they are published. messageCount and
// the session's times move as for lines of ours; token and compaction counters are their writer's to keep: it has
// sessions.json too. Of a file that was rewritten only store.external_change: nobody knows which of its lines are new.
Decision decide_foreign_lines(const AgentState& state, const AgentState::Owner& owner, const ForeignLines& theirs,
                              const Context& context);

// transcript.renumbered: lines of another program took places that were told of ours, the first of them `from`.
Decision decide_renumbered(const AgentState& state, const AgentState::Owner& owner, std::uint64_t from,
                           const Context& context);

}  // namespace sessiond
