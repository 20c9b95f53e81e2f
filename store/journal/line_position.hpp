// Which bytes of a transcript a commit accounts for, so that the files can be made from the journal alone. Typed in
// memory; a journal line keeps them as JSON, in its member "places". Clients never see them.
//
// One of five:
//
// - a line that we wrote: {"file","agent","at","seq","unstamped"?,"line"?,"seal"?}
//
// - foreign lines, published: {"file","agent","at","seq","length","inode"}; without "at": the whole file is known, as a
//   foreign program left it, or as a restore found its archive
//
// - archives of a reset, deletion or restore beyond those that its event names: {"agent","seq","archives":[<name>,…]}
//
// - a file that was staged and becomes this transcript (transcripts/staged.hpp): {"file","agent","seq","staged"}
//
// - the entry of a session that a reset or deletion ends: {"file":<name of the file that keeps it>,"agent","seq",
//   "entry"}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/seal/sealed.hpp"

namespace sessiond::journal {

// A line as its decision made it. With it at hand, the line needs not be made from its event again.
struct MadeLine {
  std::string text{};                  // ends in '\n'
  std::string id{};                    // of its entry; a header has none
  std::optional<std::uint64_t> seq{};  // of its entry, as clients are told; a header has none
  friend bool operator==(const MadeLine&, const MadeLine&) = default;
};

struct LinePosition {
  std::string file{};  // name in the agent's sessions folder
  std::string agent{};
  std::optional<std::uint64_t> at{};      // offset of the first byte in the file
  std::uint64_t seq = 0;                  // of the event that it belongs to, or of the first of several
  std::optional<std::uint64_t> length{};  // not of lines that we write: how many bytes
  std::uint64_t inode = 0;                // of the file with that length; 0: it was removed
  bool unstamped = false;                 // of a line that is made from its event (transcripts/entry.hpp)
  seal::Draw draw{};                      // with which the line is sealed; empty: it is not
  std::string line{};                     // only where the line cannot be made from its event
  std::optional<MadeLine> made{};         // in memory only: a journal line does not have it
  std::vector<std::string> archives{};    // file names
  std::string entry{};                    // JSON object
  std::string staged{};                   // file name

  bool is_of_archive() const { return !archives.empty() || !entry.empty(); }

  friend bool operator==(const LinePosition&, const LinePosition&) = default;
};

void append_json(std::string& out, const LinePosition& position);
// Ignores members that it does not know.
LinePosition parse_line_position(std::string_view json);

}  // namespace sessiond::journal
