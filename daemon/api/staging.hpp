// Commits that take transcripts which were staged for them (transcripts/staged.hpp).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "transcripts/staged.hpp"

namespace sessiond::api {

using StagedFiles = std::shared_ptr<std::vector<transcripts::StagedTranscript>>;

// Returns a decide that has the files stay once a decision takes them. Else they go with `staged`: the decision refused
// them, or did nothing.
inline ledger::Decide keeping(StagedFiles staged, ledger::Decide decide) {
  return [staged = std::move(staged), decide = std::move(decide)](
             const decide::AgentState& state, const decide::Context& context, const decide::FetchedLines& lines) {
    auto decision = decide(state, context, lines);
    if (decision && !decision->need && !decision->events.empty())
      for (transcripts::StagedTranscript& file : *staged) file.keep();
    return decision;
  };
}

}  // namespace sessiond::api
