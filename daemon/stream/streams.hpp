// All event streams: what the ledger commits becomes one batch of frames, which every hub is given; new streams are
// spread over the hubs. With one network thread there is one hub, on the ledger's thread; with more, each further
// thread has one. Everything here belongs to the ledger's thread.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/ledger/ledger.hpp"
#include "daemon/stream/hub.hpp"
#include "daemon/stream/places.hpp"

namespace sessiond {

// An event that is published and not kept: typing, and pieces of an answer while it is made.
struct Ephemeral {
  EventType type = EventType::session_typing;
  Envelope envelope{};
  std::string run_id{};  // empty: none
  std::string text{};    // of a delta
};

class Streams {
 public:
  Streams(Ledger& ledger, StreamContext context, StreamSettings settings, std::size_t threads = 1);
  ~Streams();  // closes all
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // The answer to GET of an event route by request.principal. bad_request: a malformed position or parameter;
  // validation_failed: a filter that makes no sense; too_many_requests: its token has as many as it may. Never 503:
  // while draining the stream says bye and ends.
  boost::asio::awaitable<Result<Response>> open(const Request& request, StreamScope scope);

  // The same log as a JSON page: {data:[event…], next, gap?}. Waits for the first event for as long as the query says;
  // while `draining` it does not wait.
  boost::asio::awaitable<Result<Response>> poll(const Request& request, StreamScope scope, const bool& draining);

  // To whoever listens and keeps up. What comes for a session within a moment is one event: the texts of a run joined,
  // the last typing. Dropped when a message of that session overtakes it, and when there is too much.
  void publish(Ephemeral event);

  void check_tokens();  // after a change that streams must see at once
  void reconfigure(StreamSettings settings);
  void drain();
  // After drain(): returns when no stream is left; those that are not gone after `grace` are cut off.
  boost::asio::awaitable<void> stopped(std::chrono::milliseconds grace);

  boost::asio::awaitable<std::size_t> count();
  boost::asio::awaitable<std::vector<StreamInfo>> list();
  boost::asio::awaitable<bool> close(std::uint64_t id);  // false: there is none

  const StreamCounters& counters() const { return counters_; }
  const Tail& tail() const { return tail_; }

 private:
  struct Thread {
    boost::asio::io_context io{1};
    std::unique_ptr<Hub> hub{};
    std::jthread thread{};
  };
  void deliver(std::vector<Event> events);
  // What a request asks for, with the place it wants to go on at settled.
  boost::asio::awaitable<Result<Subscription>> subscribe(const Request& request, StreamScope scope);
  boost::asio::awaitable<void> settle(const Position& asked);
  void take(Subscription subscription, TakenSocket socket);
  template <class Call>
  void each(const Call& call);
  void publish_pending();

  Ledger& ledger_;
  const StreamContext context_;
  StreamSettings settings_;
  StreamCounters counters_;
  StreamPlaces places_;
  Tail tail_;                 // of this thread, for who is no hub
  std::unique_ptr<Hub> own_;  // with one thread
  std::vector<std::unique_ptr<Thread>> threads_;
  std::size_t turn_ = 0;
  std::uint64_t next_id_ = 1;
  boost::asio::steady_timer all_gone_;

  std::vector<Ephemeral> pending_;
  std::size_t pending_bytes_ = 0;
  bool publishing_ = false;
  std::chrono::steady_clock::time_point published_{};
  boost::asio::steady_timer publish_timer_;
  std::list<boost::asio::steady_timer*> pollers_;
};

}  // namespace sessiond
