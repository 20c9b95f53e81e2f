// What one write to a reader has: the frames of the events that its view shows, where they lie in the tail or in a page
// from disk, and which event every byte belongs to.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/stream/filter.hpp"
#include "daemon/stream/tail.hpp"

namespace sessiond {

class Gathered {
 public:
  // Frames that follow each other in one text: `ends` are offsets in `text`, of which `frames` is a part.
  void add(std::string_view text, std::string_view frames, std::span<const FrameEnd> ends);
  void keep(SharedBatch batch);  // alive as long as this
  void clear();

  bool empty() const { return bytes_ == 0; }
  bool full() const;  // about 256 KiB
  std::size_t bytes() const { return bytes_; }
  std::uint64_t last_seq() const { return last_seq_; }  // 0: only events without one
  std::span<const iovec> buffers() const { return buffers_; }

  // After `taken` of the bytes, fewer than all, were sent: the last event with a seq of which anything was sent (0: of
  // none), and what was not of the frame that was begun.
  struct Cut {
    std::uint64_t seq = 0;
    std::string_view rest{};
  };
  Cut cut(std::size_t taken) const;

  std::uint64_t next = 0;  // seq from which to go on; everything before is in here or not for this view

 private:
  struct Run {
    std::string_view text;
    std::string_view frames;
    std::span<const FrameEnd> ends;
  };
  std::vector<Run> runs_;
  std::vector<iovec> buffers_;
  std::vector<SharedBatch> kept_;
  std::size_t bytes_ = 0;
  std::uint64_t last_seq_ = 0;
};

// From the tail: what `view` shows of the events [from, to], as much as one write should have, looking at no more than
// a few thousand. tail.oldest() <= from.
void gather(Gathered& out, const Tail& tail, const StreamView& view, std::uint64_t from, std::uint64_t to);
// Of events without a seq, all that `view` shows.
void gather(Gathered& out, const SharedBatch& batch, const StreamView& view);

}  // namespace sessiond
