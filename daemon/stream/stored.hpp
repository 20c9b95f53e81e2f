// Events from the journal, for streams that the tail in memory does not reach. Everything here blocks: disk threads
// only. bad_cursor: retention has passed the place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/stream/filter.hpp"
#include "daemon/stream/tail.hpp"
#include "store/journal/journal.hpp"

namespace sessiond {

struct StoredPage {
  std::string text{};            // frames of the events that the view shows, in order
  std::vector<FrameEnd> ends{};  // of each
  std::uint64_t next = 0;        // read on from here
  bool lost = false;             // the journal is damaged: events from where it begins up to `next` are not to be had
};
// About a quarter of a MiB of the journal (a batch at least), from seq `from` and never beyond `last`.
Result<StoredPage> read_stored(const Journal& journal, const StreamView& view, std::uint64_t from, std::uint64_t last);

struct StoredSeqs {
  std::vector<std::uint64_t> seqs{};  // of the events that the view shows, in order
  std::size_t bytes = 0;              // of all events that were looked at
  bool lost = false;                  // there is damage; `seqs` are those behind it
};
// Of all the journal from seq `from` up to `last`.
Result<StoredSeqs> find_stored(const Journal& journal, const StreamView& view, std::uint64_t from, std::uint64_t last);

}  // namespace sessiond
