// One open event stream: its socket, its position in the log, and the part of a frame that the socket did not take yet.
//
// A client has no queue. Frames are sent from where they lie (the tail in memory, or a page of the journal), and what a
// full socket refuses is looked up again later; only the frame that was begun is kept, since a frame must not be cut.
// A long one is shared by all clients that have begun it. So a slow client costs no more memory than a fast one.
//
// Belongs to the thread of its hub. ClientSet makes clients and changes their state.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/message.hpp"
#include "daemon/stream/cursor.hpp"
#include "daemon/stream/frame_run.hpp"
#include "daemon/stream/options.hpp"
#include "daemon/stream/position.hpp"
#include "daemon/stream/stored.hpp"

namespace sessiond::stream {

// The request that opened a stream.
struct Subscription {
  std::uint64_t id = 0;  // of the stream, unique in this process
  std::shared_ptr<const StreamView> view;
  StreamOptions options{};
  std::optional<Position> asked{};  // resume behind this position
  std::string request_id{};
};

class Audience;

class StreamClient : public std::enable_shared_from_this<StreamClient> {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t {
    reading,  // waits for a disk thread, which reads what it gets next
    ready,    // waits for its turn in the hub
    live,     // has all that its audience has; the next round serves it
    blocked,  // its socket is full
    closing,  // everything is sent; waits for the client to close
    closed,
  };

  // `total_sent` is advanced by every byte sent.
  StreamClient(const boost::asio::any_io_executor& executor, Subscription wanted, http::TakenSocket socket,
               std::atomic<std::uint64_t>& total_sent);
  ~StreamClient();

  enum class Sent : std::uint8_t {
    all,
    part,  // the socket is full; the rest of the frame that was begun is kept
    gone,  // the connection is broken
  };
  // Sends the frames of events and moves the cursor behind those that were sent or begun. No rest may be waiting.
  Sent send(const FrameRun& run, Clock::time_point now);
  // Sends a text that belongs to no event. Keeps the part that the socket does not take.
  Sent say(std::string_view text, Clock::time_point now);
  Sent send_rest(Clock::time_point now);
  bool has_rest() const { return !begun_.empty() || !rest_.empty(); }

  // Calls once, when the socket takes bytes again or is broken.
  void when_writable(std::function<void()> call);
  // Calls once, when the client closes, or sends more than 64 KiB: a client has nothing to say on a stream.
  void when_gone(std::function<void()> call);
  void end_sending();
  void close();

  Subscription subscription;
  const std::string peer;
  std::shared_ptr<Audience> audience{};
  std::size_t hub_index = 0;       // in ClientSet::all()
  std::size_t audience_index = 0;  // in Audience::live(), while live
  State state = State::reading;
  StreamCursor cursor{};
  // Pages of the journal, of a client that is behind the tail. The next page is read while one is sent.
  struct Pages {
    std::shared_ptr<const StoredPage> current{};
    std::shared_ptr<const StoredPage> ahead{};
    std::uint64_t ahead_from = 0;  // first seq of the page that is being read or is `ahead`; 0: none
  } pages{};
  const Clock::time_point opened = Clock::now();
  Clock::time_point last_write = opened;     // tried, taken or not
  Clock::time_point last_progress = opened;  // the socket took something
  std::uint64_t bytes_sent = 0;
  std::string_view close_reason{};  // a literal; empty while open

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;
  // Returns how many bytes the socket took; nothing when it is broken.
  std::optional<std::size_t> write(std::span<const iovec> buffers, Clock::time_point now);

  Socket socket_;
  std::atomic<std::uint64_t>& total_sent_;
  std::shared_ptr<void> slot_;  // in the limits on connections and streams
  std::string_view begun_{};    // the rest of a long frame, in the bytes of `begun_owner_`
  std::shared_ptr<const void> begun_owner_{};
  std::string rest_;           // comes behind it
  std::uint32_t ignored_ = 0;  // bytes that the client sent
};

}  // namespace sessiond::stream
