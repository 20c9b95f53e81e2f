// Joins ephemeral events, typing and pieces of a reply, before they are sent to the live clients: a model writes a
// piece of a reply every few milliseconds, and a frame for each would cost more than the text. Thread: the ledger's.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "store/journal/event.hpp"

namespace sessiond::stream {

// An event that is sent to live clients and not kept: typing, and pieces of a reply while it is made.
struct Ephemeral {
  journal::EventType type = journal::EventType::session_typing;
  journal::Envelope envelope{};
  std::string run_id{};  // empty: none
  std::string text{};    // of text.delta
  std::string from{};    // of session.typing: the person, raw JSON; empty: not named
};

class Coalescer {
 public:
  using Send = std::function<void(std::vector<journal::Event>)>;
  Coalescer(boost::asio::io_context& io, Send send);

  // Sends the event no sooner than `interval` after the events that were sent last. Equal ones of a session that come
  // until then are sent as one: the texts of a run are joined, repeated typing is sent once. False: too many wait, and
  // the event is dropped.
  bool add(Ephemeral event, std::chrono::milliseconds interval);
  // A message of a session, or the end of its run, was committed: drops its typing that waits, which is over, and sends
  // its pieces of a reply at once, since they come before.
  void before(const std::vector<journal::Event>& committed);

 private:
  void send_waiting();

  Send send_;
  std::vector<Ephemeral> waiting_;
  std::size_t bytes_ = 0;   // of text, since the last send
  bool scheduled_ = false;  // the timer runs
  std::chrono::steady_clock::time_point sent_{};
  boost::asio::steady_timer timer_;
};

}  // namespace sessiond::stream
