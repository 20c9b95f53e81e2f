// All event streams of the daemon. Events that became durable are made into one batch of frames, which every hub is
// given; new streams are spread over the hubs. With network.threads = 1 there is one hub, on the ledger's thread; with
// more, each further thread has a hub of its own. Everything here runs on the ledger's thread.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/http/quota.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/stream/coalescer.hpp"
#include "daemon/stream/hub.hpp"

namespace sessiond::stream {

// The mark of events about sessions that descend from this token's session; empty if the token has another role.
std::string lineage_of(const auth::Principal& who, const ledger::Ledger& ledger);

class Streams {
 public:
  Streams(ledger::Ledger& ledger, StreamContext context, StreamSettings settings, std::size_t threads = 1);
  ~Streams();  // closes all streams and joins the threads

  // Answers a GET of an event route; the response takes over the connection. bad_request: malformed position or
  // parameter. validation_failed: a filter that can match nothing. too_many_requests: the token has as many streams as
  // it may. While draining it does not fail: the stream says bye and ends.
  boost::asio::awaitable<Result<http::Response>> open(const http::Request& request, StreamScope scope);

  // Answers with a JSON page of the same log: {data:[event…], next, gap?}. Waits for the first event as long as the
  // query says, but not while `draining`.
  boost::asio::awaitable<Result<http::Response>> poll(const http::Request& request, StreamScope scope,
                                                      const bool& draining);

  // Sends an ephemeral event to the live clients, joined with others that come within coalesce_ms (coalescer.hpp). It
  // is dropped when a message is committed to its session before it is sent, and when too many wait.
  void publish(Ephemeral event);

  void check_tokens();  // now, after a change that streams must follow at once
  void reconfigure(StreamSettings settings);
  void drain();
  // After drain(): returns when no stream is left, or after `grace`; then the remaining ones are cut off.
  boost::asio::awaitable<void> stopped(std::chrono::milliseconds grace);

  // Says whether an open stream is such that `wanted` is true of its view. `wanted` is called on the hubs' threads.
  boost::asio::awaitable<bool> any(std::function<bool(const StreamView&)> wanted);
  boost::asio::awaitable<std::vector<StreamInfo>> list();
  boost::asio::awaitable<std::uint64_t> most_lag();      // events that the slowest stream is behind
  boost::asio::awaitable<bool> close(std::uint64_t id);  // false: there is no such stream

  const StreamCounters& counters() const { return counters_; }
  const Tail& tail() const { return tail_; }

 private:
  struct Thread {
    boost::asio::io_context io{1};
    std::unique_ptr<Hub> hub{};
    std::jthread thread{};
  };
  void deliver(std::vector<journal::Event> events);
  void pass_on(std::vector<journal::Event> events);  // to the clients that are live, without a seq
  boost::asio::awaitable<Result<Subscription>> subscribe(const http::Request& request, StreamScope scope);
  // Takes a slot of limits.streamsPerToken, for a stream or a poll that waits. too_many_requests when there is none. A
  // stream opened with a ticket counts for the ticket's token. The unix socket has no token and no limit.
  Result<http::Quota<std::string>::Slot> take_slot(const auth::Principal& who);
  void take(Subscription subscription, http::TakenSocket socket);
  template <class Call>
  void each_hub(const Call& call);
  template <class Call>
  boost::asio::awaitable<void> visit_hubs(Call call);
  void wake_pollers();

  ledger::Ledger& ledger_;
  const StreamContext context_;
  StreamSettings settings_;
  StreamCounters counters_;
  http::Quota<std::string> quota_;  // of streams and waiting polls, by token id
  Tail tail_;                       // for poll(); each hub has its own
  std::unique_ptr<Hub> own_;        // on the ledger's thread, when there is no other thread
  std::vector<std::unique_ptr<Thread>> threads_;
  std::size_t turn_ = 0;
  std::uint64_t next_id_ = 1;
  boost::asio::steady_timer stop_timer_;

  Coalescer ephemeral_;
  std::list<boost::asio::steady_timer*> pollers_;
};

}  // namespace sessiond::stream
