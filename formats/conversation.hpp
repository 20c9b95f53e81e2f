// A whole conversation, as another program and its model can go on with it. The form is JSON lines, as jsonl.hpp has
// them.
//
// Of a transcript it has the path to the leaf, in the order of runs, each entry with the one before as its parent.
// Messages are as people left them, and such that providers take them: every call has one result, behind it, and
// nothing is blank (policy/context/README.md, What providers take). What is old is not left out: checkpoints stand
// where they were made, and name with `firstKeptEntryId` the entry from which on they keep. An entry that needs no
// change keeps its bytes. The last line says that the transcript is whole, what is not there, by kind, and how many
// transcripts of the session follow, of its topics. It is no entry:
//   {"type":"custom","customType":"sessiond.end","data":{"leftOut":{"message that was deleted":2},"more":0}}
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "formats/writer.hpp"

namespace sessiond::formats {

std::unique_ptr<Writer> write_conversation(SessionFacts facts);

// How many entries were left out, by kind: "message that was deleted" 2.
using LeftOut = std::map<std::string, std::size_t, std::less<>>;
struct End {
  LeftOut left_out{};
  std::size_t more = 0;
};
// Reads the last line of a transcript. Nothing: it is another one.
std::optional<End> read_end(std::string_view line);

}  // namespace sessiond::formats
