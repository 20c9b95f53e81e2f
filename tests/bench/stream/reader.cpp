#include "tests/bench/stream/reader.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "tests/bench/clocks.hpp"
#include "tests/bench/stream/dialect.hpp"

namespace sessiond::bench::stream {
namespace {

constexpr std::uint64_t first_wait_ns = 20'000'000;
constexpr std::uint64_t longest_wait_ns = 320'000'000;

}  // namespace

void Reader::open() {
  parser_ = {};
  socket_ = connect_to(reading_.address, stalls_ && !was_open_ ? reading_.plan.stalled_buffer : 0);
  state_ = State::connecting;
  reading_.poller.add(socket_.get(), EPOLLOUT, *this);
}

void Reader::ready(std::uint32_t) {
  if (state_ == State::connecting) {
    const std::string id = was_open_ ? epoch_ + "-" + std::to_string(order_.next() - 1) : std::string();
    const std::string request = subscribe_request(reading_.plan, id);
    if (send_some(socket_.get(), request) != static_cast<std::ptrdiff_t>(request.size()))
      return lose(std::string("connecting: ") + std::strerror(errno));
    state_ = State::awaiting;
    reading_.poller.change(socket_.get(), EPOLLIN, *this);
  } else if (state_ == State::awaiting || state_ == State::open) {
    receive();
  }
}

void Reader::receive() {
  auto& buffer = reading_.buffer;
  const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) return lose(std::string("recv: ") + std::strerror(errno));
  if (n == 0) return lose("the server closed a stream");
  const std::uint64_t now = now_ns();
  if (reading_.measuring && !stalls_) reading_.bytes += static_cast<std::uint64_t>(n);
  parser_.feed({buffer.data(), static_cast<std::size_t>(n)}, [&](std::string_view block) { take(block, now); });
  if (state_ == State::awaiting && parser_.status() != 0 && reading_.plan.server != Server::sessiond) opened();
}

void Reader::take(std::string_view block, std::uint64_t now) {
  const Block read = read_block(reading_.plan.server, block);
  switch (read.kind) {
    case Block::Kind::event:
      return take_event(read, block, now);
    case Block::Kind::hello:
      epoch_ = read.epoch;
      head_ = number_after(block, "\"head\":").value_or(0);
      if (!was_open_) order_.start(read.number + 1);
      return opened();
    case Block::Kind::gap:
      ++reading_.faults.gaps;
      return;
    case Block::Kind::position:
    case Block::Kind::nothing:
      return;
  }
}

void Reader::take_event(const Block& event, std::string_view block, std::uint64_t now) {
  const std::uint64_t position = reading_.log.position(event.number);
  order_.take(position, reading_.faults);
  ++received_;
  const bool counts = reading_.measuring && !stalls_;
  if (counts) ++reading_.delivered;
  if (reading_.plan.mode == Mode::replay) return;
  const EventLog::Event* const same = reading_.log.same(position, block);
  if (same == nullptr) {
    ++reading_.faults.changed;
  } else if (counts && same->sent_ns > 0) {
    reading_.latency.add(now - std::min(now, same->sent_ns));
  }
}

void Reader::opened() {
  state_ = State::open;
  wait_ns_ = 0;
  if (stalls_ && !was_open_) {
    stalled_ = true;
    reading_.poller.remove(socket_.get());
  }
  was_open_ = true;
}

void Reader::resume() {
  if (!stalled_) return;
  stalled_ = false;
  reading_.poller.add(socket_.get(), EPOLLIN, *this);
}

void Reader::lose(const std::string& why) {
  if (!reading_.plan.reconnect && !(stalls_ && was_open_)) throw std::runtime_error(why);
  socket_.close();
  state_ = State::lost;
  if (was_open_ && wait_ns_ == 0) ++reading_.reconnects;
  wait_ns_ = std::clamp(wait_ns_ * 2, first_wait_ns, longest_wait_ns);
  retry_at_ = now_ns() + wait_ns_;
}

void Reader::reconnect_when_due(std::uint64_t now) {
  if (state_ == State::lost && now >= retry_at_) open();
}

}  // namespace sessiond::bench::stream
