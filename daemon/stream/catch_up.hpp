// Serves the clients that are not live: new ones, and those that fell behind because their socket was full. Each goes
// at its own pace, a turn at a time: from the tail in memory, or from pages of the journal where the tail does not
// reach. Every durable event that a client's view shows is sent once and in order; what retention or damage took is
// reported as stream.gap. A client never gets beyond what its audience has, so that it can join it. Belongs to the
// hub's thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/stream/client_set.hpp"
#include "daemon/stream/frame_run.hpp"

namespace sessiond::stream {

class CatchUp {
 public:
  CatchUp(HubState& hub, ClientSet& clients) : hub_(hub), clients_(clients) {}

  // Finds where a new stream begins and greets it: hello, and a gap if the log cannot continue at the position asked
  // for.
  void begin(StreamClient& client);
  // Sends once what comes next. The client is ready, nothing of a frame is left, and its audience is further.
  void step(StreamClient& client, StreamClient::Clock::time_point now);

 private:
  boost::asio::awaitable<void> begin_with_replay(std::shared_ptr<StreamClient> client);
  void greet(StreamClient& client, std::uint64_t first);
  std::string hello(const StreamClient& client, const std::string& at) const;
  std::string gap(const std::string& from, std::uint64_t to, std::string_view reason);

  void send_page(StreamClient& client, StreamClient::Clock::time_point now);
  void read_page(StreamClient& client, std::uint64_t from);
  void page_was_read(StreamClient& client, std::uint64_t from, Result<StoredPage> page);
  void take_page(StreamClient& client, std::shared_ptr<const StoredPage> page);
  std::shared_ptr<const StoredPage> shared(const std::shared_ptr<const StreamView>& view, std::uint64_t from,
                                           StoredPage page);
  void cannot_read(StreamClient& client, const Problem& problem);
  void report_gap(StreamClient& client, std::uint64_t next, std::uint64_t to, std::string_view reason);

  HubState& hub_;
  ClientSet& clients_;
  FrameRun frames_;  // of one send; kept for its memory
  // Pages that clients have, by what they show and their first seq: those that are at the same place share one.
  std::map<std::pair<std::shared_ptr<const StreamView>, std::uint64_t>, std::weak_ptr<const StoredPage>> pages_;
};

}  // namespace sessiond::stream
