// Copies the path to a message of a transcript, line by line, into a transcript that is staged: the memory that it
// takes does not depend on how long the transcript is. A fork is made so, and made again when it was lost with its
// folder. Blocks.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "store/problem.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/origins.hpp"
#include "transcripts/staged.hpp"
#include "transcripts/sums.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {

// A transcript that is to be copied: how far it goes, and where the copy goes.
struct CopyAsked {
  std::string file{}, name{};  // of the origin: its file, which the copy names as its parent, and transcript_name()
  std::string session_id{}, cwd{};  // of the copy's session
  EntrySums sums{};                 // of what was copied before
};

struct PathCopy {
  std::set<std::string> blobs{};  // that the lines name
  std::vector<CopiedLines> records{};
  EntrySums sums{};
  std::string last_id{};
};

// Writes the header of a transcript that has copied lines. validation_failed: it would be longer than 1 MiB.
Result<std::string> copy_header(const std::string& session_id, const std::string& cwd, const std::string& parent,
                                std::span<const CopiedLines> copied);

// Copies the lines of `path`, which read_path() gave and which is not empty. Runs that are under way at its end are
// ended in the copy.
Result<PathCopy> copy_path(Transcript& from, std::span<const SeqSpan> path, const CopyAsked& asked,
                           StagedTranscript& into);

}  // namespace sessiond::transcripts
