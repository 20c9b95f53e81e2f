// The output of readers of sessions, whatever program wrote them: sessions with their entries, in order, one at a time,
// so that a store of any size is read in little memory.
//
// A reader is a function `read(source, Sink&)` in the file of its format, such as formats/claude_code.hpp. It calls
// session(), then entry() for each entry of that transcript, then end(); and so on. What it cannot take it names with
// skip(), and reads on: nothing is left out in silence.
#pragma once

#include <optional>
#include <string>

#include "store/problem.hpp"

namespace sessiond::formats {

// The head of a transcript: a session's own, or that of one of its topics, which follows its session's own.
struct SessionHead {
  std::string id{};                    // the session id; a valid one (store/names.hpp)
  std::string key{};                   // empty: agent:<agent>:session:<id>
  std::optional<std::string> topic{};  // nothing: the session's own transcript
  std::string header{};                // the first line of the transcript, a JSON object; empty: one is made
  // A JSON object: fields of sessions.json, as PUT S takes them (times in ms since the epoch). Unused for a topic.
  std::string entry = "{}";
};

// A session, an entry or a file that was not taken.
struct Skipped {
  // session: also a file. line: of a session that is taken. note: all is taken, but not as it stands.
  enum class What : std::uint8_t { session, line, note };
  std::string id{};   // of the session; empty: the whole file
  std::string why{};  // plain English; names the file, the line and the JSON pointer where there are any
  What what = What::session;
};

class Sink {
 public:
  virtual ~Sink() = default;
  // Errors of these three end the reading: the reader returns them.
  virtual Result<void> session(SessionHead head) = 0;
  // `line`: an entry as a transcript has it (transcripts/README.md), a JSON object without a line break.
  virtual Result<void> entry(std::string line) = 0;
  virtual Result<void> end() = 0;
  virtual void skip(Skipped skipped) = 0;
};

}  // namespace sessiond::formats
