// What other programs wrote, as events: into sessions.json (FORMATS §2 "Merge") and into transcripts (§4).
#pragma once

#include "daemon/ledger/decision.hpp"
#include "store/sessions_file.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond {

// Created, updated and deleted sessions with source "external", and one store.external_change that tells subscribers to
// look again. A deletion stands unless we hold an unwritten change of the entry; what both changed is merged field by
// field.
// `at_load`: the state is the store as we left it, but for what was deleted.
Decision decide_external(const AgentState& state, const ForeignChange& change, const Context& context, bool at_load);

// What another program did to one transcript: lines that it put there, or, without lines, that it is now another file.
struct ForeignLines {
  std::string file;
  std::uint64_t inode = 0;  // 0: the file is gone
  std::uint64_t size = 0;   // of the file
  std::uint64_t begin = 0;  // offset of what was unknown before the first line
  std::vector<WholeLine> lines{};
};

// A message.appended for each line, and a place (projection.hpp) that says that they are published. messageCount and
// the session's times move as for lines of ours; token and compaction counters are their writer's to keep: it has
// sessions.json too. Of a file that was rewritten only store.external_change: nobody knows which of its lines are new.
Decision decide_foreign_lines(const AgentState& state, const AgentState::Owner& owner, const ForeignLines& theirs,
                              const Context& context);

}  // namespace sessiond
