// Reads the body of an import on a disk thread: the sessions that it holds, each with its transcripts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/commands.hpp"
#include "formats/reader.hpp"

namespace sessiond::api {

struct ImportedTranscript {
  std::optional<std::string> topic{};  // nothing: the session's own
  std::string header{};
  std::vector<decide::ImportedLine> lines{};
};
struct ImportedSession {
  std::string id{}, key{};
  json::Edit entry{};  // with counters and times that its entries tell
  // How its own transcript begins, if its entry does not say so: the first message of a person. Empty: it has none.
  std::string first_message{}, first_message_id{};
  std::optional<std::int64_t> last_prompt{};  // as in EntrySums, of its own transcript
  bool counts_usage = true;                   // the entry had no token counters of its own
  bool only_topics = false;                   // the session's own transcript is not among them
  std::vector<ImportedTranscript> transcripts{};
};
struct ImportBody {
  std::vector<ImportedSession> sessions{};
  std::vector<formats::Skipped> skips{};
  bool several = false;  // documents, or transcripts: one that is malformed does not fail the others
};

// Reads the documents or transcripts of a body. A single malformed document is an error: validation_failed with a
// pointer.
Result<ImportBody> read_import(std::string_view body, std::string_view format, std::int64_t now);

}  // namespace sessiond::api
