// Where one stream is in the event log. It is the only owner of that position: whatever is sent, skipped or reported as
// missing moves the cursor, and it only ever moves forward.
//
// Two numbers make up the position. `next` is the seq of the next event to look at. `last_id_sent` is the last id that
// the client was given, and thus where it resumes after a reconnect; it lags behind `next` while events pass that the
// client's filter does not show.
//
// Clients that have everything advance together: their audience keeps one number for all of them, and a batch that none
// of them is shown costs a single store. The cursor of such a client follows that number until unfollow().
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace sessiond::stream {

class StreamCursor {
 public:
  // Every earlier event was sent, is not shown to this client, or was reported as missing.
  std::uint64_t next() const { return followed_ == nullptr ? next_ : std::max(next_, *followed_ + 1); }
  std::uint64_t reached() const { return next() - 1; }
  std::uint64_t last_id_sent() const { return last_id_sent_; }

  // Begins the stream with the event `next`. The id that the client is greeted with counts as the one before it.
  void start_at(std::uint64_t next) {
    assert(followed_ == nullptr && next_ == 1);
    next_ = next;
    last_id_sent_ = next - 1;
  }
  // The frame of event `seq`, or its beginning, was sent: the rest of it will follow.
  void sent(std::uint64_t seq) {
    assert(seq >= this->next());
    next_ = seq + 1;
    last_id_sent_ = seq;
  }
  // The events from next() up to, but not including, `next` will not be sent.
  void skip_to(std::uint64_t next) {
    assert(next >= this->next());
    next_ = next;
  }
  // The client was given the id of `seq` without an event: after filtered events, or with the report of a gap.
  void id_sent(std::uint64_t seq) {
    assert(seq >= last_id_sent_);
    last_id_sent_ = seq;
  }

  // `reached` is the last seq that the audience has been served; it outlives the following.
  void follow(const std::uint64_t& reached) {
    assert(next() == reached + 1);
    followed_ = &reached;
  }
  void unfollow() {
    next_ = next();
    followed_ = nullptr;
  }

 private:
  std::uint64_t next_ = 1;  // while following: of the round under way, if it has sent to this client already
  std::uint64_t last_id_sent_ = 0;
  const std::uint64_t* followed_ = nullptr;
};

}  // namespace sessiond::stream
