// Reads events from the journal for streams that are behind the tail in memory. Blocks: for disk threads only. Fails
// with bad_cursor when retention has deleted the event `from`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/stream/filter.hpp"
#include "daemon/stream/tail.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::stream {

struct StoredPage {
  std::string text{};            // frames of the events that the view shows, in order
  std::vector<FrameEnd> ends{};  // of these frames
  std::uint64_t next = 0;        // seq to continue from
  bool lost = false;             // the journal is damaged: the events from `from` up to, not including, `next` are lost
};
// Reads about a quarter of a MiB of the journal, at least one batch, from event `from` and never beyond `last`.
Result<StoredPage> read_stored(const journal::Journal& journal, const StreamView& view, std::uint64_t from,
                               std::uint64_t last);

struct StoredSeqs {
  std::vector<std::uint64_t> seqs{};  // of the events that the view shows, in order
  std::size_t bytes = 0;              // of all events that were read
  bool lost = false;                  // the journal is damaged; `seqs` are those behind the damage
};
// Reads the events [from, last].
Result<StoredSeqs> find_stored(const journal::Journal& journal, const StreamView& view, std::uint64_t from,
                               std::uint64_t last);

}  // namespace sessiond::stream
