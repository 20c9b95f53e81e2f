// Serves the live clients. When a batch of events becomes durable, a round begins: each audience in turn gets its
// frames, collected once and sent to all its live clients from where they lie. A client whose socket is full leaves its
// audience and catches up by itself (catch_up.hpp), so it delays nobody. A round is cut into slices, so that the
// thread's other work gets its turn.
//
// One batch wakes the thread once. While more than a hundred batches a second arrive, they are gathered for up to
// coalesce_ms before the next round.
//
// Ephemeral events (typing, text deltas) have no seq and are not kept: they go to the clients that are live in the next
// round, between the durable events where they came, and are dropped when there is no room for them.
//
// Belongs to the hub's thread.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/stream/client_set.hpp"
#include "daemon/stream/frame_run.hpp"

namespace sessiond::stream {

class Rounds {
 public:
  Rounds(HubState& hub, ClientSet& clients) : hub_(hub), clients_(clients), coalesce_timer_(hub.executor) {}

  void batch_arrived();  // at the end of the tail
  void add_ephemeral(SharedBatch batch);
  void request();  // a round, even if there is nothing new
  // Serves one slice of the round under way, or of the one that is due.
  void serve(StreamClient::Clock::time_point now);
  bool pending() const { return due_ || !audiences_.empty(); }

 private:
  struct EphemeralBatch {
    SharedBatch batch;
    std::uint64_t after;  // the head of the log when it came
  };

  void begin();
  void collect(const Audience& audience);
  void finish_audience(Audience& audience);
  void next_audience();

  HubState& hub_;
  ClientSet& clients_;
  bool due_ = false;

  // The round under way: audiences [audience_at_, …) are still to be served up to seq to_.
  std::vector<std::shared_ptr<Audience>> audiences_;
  std::size_t audience_at_ = 0;
  std::uint64_t to_ = 0;
  // Of the current audience, which is served in as many runs of frames as it takes.
  std::optional<std::uint64_t> audience_from_;  // what it had reached at the beginning; not set before the first run
  FrameRun frames_;                             // the current run
  std::size_t client_at_ = 0;                   // live clients before this index have been sent the run
  std::vector<EphemeralBatch> ephemeral_;       // of this round
  std::vector<EphemeralBatch> next_ephemeral_;
  std::size_t ephemeral_bytes_ = 0;  // of the next round

  boost::asio::steady_timer coalesce_timer_;
  bool coalescing_ = false;
  std::array<StreamClient::Clock::time_point, 10> arrivals_{};  // of the last batches, a ring
  std::size_t arrival_ = 0;
  StreamClient::Clock::time_point last_round_{};
};

}  // namespace sessiond::stream
