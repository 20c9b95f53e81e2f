// The frames of one write: those of the events that a view shows, in order. The run holds no copy of them but points to
// where they lie, in the tail or in a page of the journal, and knows which event every byte belongs to.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/stream/filter.hpp"
#include "daemon/stream/tail.hpp"

namespace sessiond::stream {

class FrameRun {
 public:
  // Appends frames that follow each other in `text`. `frames` is the part of `text` that they make up, `ends` says
  // where each of them ends as an offset into `text`. At least one. `owner` keeps all three alive.
  void add(std::string_view text, std::string_view frames, std::span<const FrameEnd> ends,
           std::shared_ptr<const void> owner);
  void clear();

  bool empty() const { return bytes_ == 0; }
  bool full() const;  // enough for one write: about 256 KiB
  std::size_t bytes() const { return bytes_; }
  std::uint64_t last_seq() const { return last_seq_; }  // 0: all events are ephemeral, which have none
  std::span<const iovec> buffers() const { return buffers_; }

  // Where a write ended that took `taken` of the bytes, fewer than all.
  struct Cut {
    std::uint64_t seq = 0;                // of the last durable event whose frame was sent, whole or in part; 0: none
    std::string_view rest{};              // the unsent rest of the frame that was begun
    std::shared_ptr<const void> owner{};  // of the rest
  };
  Cut cut(std::size_t taken) const;

  // Seq of the next event to look at. Every earlier one is in the run, or the view does not show it.
  std::uint64_t next = 0;

 private:
  struct Piece {
    std::string_view text;
    std::string_view frames;
    std::span<const FrameEnd> ends;
    std::shared_ptr<const void> owner;
  };
  std::vector<Piece> pieces_;
  std::vector<iovec> buffers_;
  std::size_t bytes_ = 0;
  std::uint64_t last_seq_ = 0;
};

// Appends what `view` shows of the events [from, to] of the tail, until the run is full or a few thousand events were
// looked at; `out.next` says where to continue. The tail reaches back to `from`.
void gather(FrameRun& out, const Tail& tail, const StreamView& view, std::uint64_t from, std::uint64_t to);
// Appends what `view` shows of a batch of ephemeral events.
void gather(FrameRun& out, const SharedBatch& batch, const StreamView& view);

}  // namespace sessiond::stream
