// A session as a session manager keeps it:
//   {"id","workerId","workspaceId","name","messages":[{"role","text","files","toolCalls":[{"id","name","arguments",
//    "result"?}],"usage":{"inputTokens","outputTokens"},"model","synthetic","summary",…}]}
// A message has at most 10 files. README.md says what becomes of what. Pure functions.
#pragma once

#include <memory>
#include <string_view>

#include "formats/document.hpp"

namespace sessiond::formats {

inline constexpr std::size_t most_files = 10;  // of one message

// Reads one document. Nothing is passed to the sink unless all of it is right. validation_failed, with a pointer.
Result<void> read_manager(std::string_view document, const ReadOptions& options, Sink& sink);
std::unique_ptr<Writer> write_manager(SessionFacts facts);

// One message of such a document, and the messages that a transcript has for it: its own, then the results of its
// calls. Each is raw JSON.
std::string managed_message(std::string_view message, const std::vector<std::string>& results);
std::vector<std::string> unmanaged_messages(std::string_view managed);

}  // namespace sessiond::formats
