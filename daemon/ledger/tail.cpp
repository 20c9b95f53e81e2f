#include "daemon/ledger/tail.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace sessiond {

namespace asio = boost::asio;

TailFollower::TailFollower(Tail& tail, const asio::any_io_executor& executor) : timer_(executor) {
  tail.followers_.push_back(*this);
}

asio::awaitable<void> TailFollower::wait(Clock::time_point until) {
  timer_.expires_at(until);
  co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
}

void Tail::push(Event event) {
  head_ = event.envelope.seq;
  bytes_ += event.json->size();
  events_.push_back(std::move(event));
  while (bytes_ > max_bytes_ && events_.size() > 1) {
    bytes_ -= events_.front().json->size();
    events_.pop_front();
  }
}

void Tail::wake() {
  for (TailFollower& follower : followers_) follower.wake();
}

}  // namespace sessiond
