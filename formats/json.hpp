// A session as a command-line agent stores it, one file each:
//   {"metadata":{"id","name","description"?,"createdAt","lastActivityAt","messageCount","firstMessage","provider",
//    "model"},"messages":[{"role","content","timestamp",…}],"contextSummary"?}
// README.md says what becomes of what. Pure functions.
#pragma once

#include <memory>
#include <string_view>

#include "formats/document.hpp"

namespace sessiond::formats {

// Reads one document. Nothing is passed to the sink unless all of it is right. validation_failed, with a pointer.
Result<void> read_json(std::string_view document, const ReadOptions& options, Sink& sink);
std::unique_ptr<Writer> write_json(SessionFacts facts);

// The metadata that the documents and their index have of a session. `message_count`: of user, assistant and tool.
std::string metadata_of(const SessionFacts& facts, const Survey& survey);

}  // namespace sessiond::formats
