// Transcripts one after another, line by line, as they are stored: our complete form, and what the commands send.
//
// A line of type `session` begins a transcript: its header. The lines up to the next one are its entries. A header may
// have a member that says where the transcript belongs; it is not stored:
//   {"type":"session","version":3,"id":"…",…,"sessiond":{"key":"agent:main:main","entry":{…},"topic":"42"}}
// `entry` are fields of sessions.json as PUT S takes them. A transcript with a `topic` follows its session's own.
//
// A header may share its line with other objects, as in files that were put together without a line break between them.
// Other lines stay as they are, also when several objects stand on one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/reader.hpp"

namespace sessiond::formats {

// Reads such lines one at a time, in the memory of one. A transcript with a bad header is skipped: sink.skip() names
// the line and the JSON pointer. Lines that are not JSON are entries like others.
class JsonlReader {
 public:
  explicit JsonlReader(Sink& sink) : sink_(sink) {}
  Result<void> line(std::string_view line);  // without its line break; the first one may have a byte order mark
  Result<void> end();                        // of the last transcript

 private:
  Result<void> take(std::string_view line);
  Result<void> begin(std::string_view header);

  Sink& sink_;
  std::uint64_t line_ = 0;
  bool open_ = false;
  bool skipping_ = false;
};

// Reads text that holds whole lines; the last one may lack its '\n'.
Result<void> read_jsonl(std::string_view text, Sink& sink);

// Takes a head apart: the header to store, and what its member says. validation_failed with a pointer.
Result<SessionHead> read_header(std::string_view line);
// Makes the line of a head, without '\n': the header with its member `sessiond`.
std::string header_with(const SessionHead& head);

}  // namespace sessiond::formats
