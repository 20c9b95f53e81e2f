#include "daemon/stream/frame_run.hpp"

#include <algorithm>
#include <cassert>

namespace sessiond::stream {
namespace {

constexpr std::size_t most_gathered_bytes = 256 << 10;
constexpr std::size_t most_buffers = 512;       // under IOV_MAX
constexpr std::uint64_t most_looked_at = 4096;  // events, so that other work gets its turn

}  // namespace

void FrameRun::add(std::string_view text, std::string_view frames, std::span<const FrameEnd> ends,
                   std::shared_ptr<const void> owner) {
  assert(!ends.empty());
  pieces_.push_back({text, frames, ends, std::move(owner)});
  // sendmsg only reads them.
  buffers_.push_back({const_cast<char*>(frames.data()), frames.size()});  // NOLINT(*-const-cast)
  bytes_ += frames.size();
  if (ends.back().seq != 0) last_seq_ = ends.back().seq;
}

void FrameRun::clear() {
  pieces_.clear();
  buffers_.clear();
  bytes_ = 0;
  last_seq_ = 0;
  next = 0;
}

bool FrameRun::full() const { return bytes_ >= most_gathered_bytes || buffers_.size() >= most_buffers; }

FrameRun::Cut FrameRun::cut(std::size_t taken) const {
  std::uint64_t before = 0;  // the last event sent whole
  for (const Piece& piece : pieces_) {
    auto begin = static_cast<std::size_t>(piece.frames.data() - piece.text.data());
    for (const FrameEnd& frame : piece.ends) {
      const std::size_t size = frame.end - begin;
      if (taken == 0) return {.seq = before};
      if (taken < size)
        return {frame.seq != 0 ? frame.seq : before, piece.text.substr(begin + taken, size - taken), piece.owner};
      taken -= size;
      begin = frame.end;
      if (frame.seq != 0) before = frame.seq;
    }
  }
  return {.seq = before};
}

void gather(FrameRun& out, const Tail& tail, const StreamView& view, std::uint64_t from, std::uint64_t to) {
  assert(from >= tail.oldest());
  out.next = from;
  const std::uint64_t last = std::min(to, from + most_looked_at - 1);
  while (out.next <= last && !out.full()) {
    const SharedBatch& batch = tail.batch(out.next);
    const std::uint64_t end = std::min(batch->last(), last);
    while (out.next <= end && !out.full()) {
      std::uint64_t begin = out.next;
      while (begin <= end && !view.shows(batch->envelope(begin))) ++begin;
      out.next = begin;
      std::size_t bytes = 0;
      while (out.next <= end && out.bytes() + bytes < most_gathered_bytes && view.shows(batch->envelope(out.next))) {
        bytes += batch->frames(out.next, out.next).size();
        ++out.next;
      }
      if (out.next == begin) continue;
      out.add(batch->text(), batch->frames(begin, out.next - 1), batch->ends(begin, out.next - 1), batch);
    }
  }
}

void gather(FrameRun& out, const SharedBatch& batch, const StreamView& view) {
  for (std::size_t index = 0; index < batch->size() && !out.full(); ++index) {
    if (!view.shows(batch->envelope_at(index))) continue;
    out.add(batch->text(), batch->frame_at(index), batch->ends_at(index), batch);
  }
}

}  // namespace sessiond::stream
