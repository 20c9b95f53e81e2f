// One open stream: its socket, its place in the log, and what of a frame the socket did not take. Belongs to the thread
// of its hub.
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
#include "daemon/stream/gather.hpp"
#include "daemon/stream/options.hpp"
#include "daemon/stream/position.hpp"
#include "daemon/stream/stored.hpp"

namespace sessiond {

// What a stream was opened with.
struct Subscription {
  std::uint64_t id = 0;  // of the stream, in this process
  std::shared_ptr<const StreamView> view;
  StreamOptions options{};
  std::optional<Position> asked{};
  std::string request_id{};
};

class Audience;

class Reader : public std::enable_shared_from_this<Reader> {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t {
    ready,    // has something to do: the hub's turn
    live,     // has all that its audience has
    blocked,  // its socket takes nothing now
    reading,  // a disk thread looks for what it gets next
    closing,  // all is said; waits for the other side
    closed,
  };

  // `sent_by_all` counts what goes out.
  Reader(const boost::asio::any_io_executor& executor, Subscription subscription, TakenSocket socket,
         std::atomic<std::uint64_t>& sent_by_all);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();

  enum class Sent : std::uint8_t {
    all,
    part,  // the socket is full: the rest of the frame that was begun is kept, the others are to be gathered again
    gone,  // the other side is
  };
  // Frames of the log; moves `next` behind what was begun. Only with nothing left of a frame.
  Sent send(const Gathered& gathered, Clock::time_point now);
  // Anything else that is said: what does not go out now waits behind what does.
  Sent say(std::string_view text, Clock::time_point now);
  Sent send_rest(Clock::time_point now);
  bool has_rest() const { return !rest_.empty(); }

  // Calls once when bytes can be sent, or when the socket is broken.
  void when_writable(std::function<void()> call);
  // Calls when the other side closes, or talks too much: a reader has nothing to say.
  void when_gone(std::function<void()> call);
  void end_sending();
  void close();

  Subscription wish;
  const std::string peer;
  std::shared_ptr<Audience> audience{};
  std::size_t place = 0;       // among the hub's readers
  std::size_t live_place = 0;  // among its audience's, when live
  State state = State::ready;
  std::uint64_t next = 1;  // seq of the first event not yet considered; of a live one its audience knows
  std::uint64_t said = 0;  // seq of the last id that it was given
  std::unique_ptr<StoredPage> page{};
  std::size_t page_at = 0;                   // the first event of the page not sent
  std::unique_ptr<StoredPage> page_ahead{};  // read while `page` is sent: what follows it
  std::uint64_t ahead_from = 0;              // where that begins; 0: none was asked for
  bool begun = false;                        // hello is said
  Clock::time_point opened;
  Clock::time_point spoke;  // when it was last written to
  Clock::time_point moved;  // when its socket last took something
  std::uint64_t bytes = 0;  // sent
  std::string_view end{};   // why it is over; a literal

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;
  // How many of the bytes the socket took; nothing when it is broken.
  std::optional<std::size_t> put(std::span<const iovec> buffers, Clock::time_point now);

  Socket socket_;
  std::atomic<std::uint64_t>& sent_by_all_;
  std::shared_ptr<void> place_in_limits_;
  std::string rest_;
  std::uint32_t ignored_ = 0;  // bytes that the other side sent
};

}  // namespace sessiond
