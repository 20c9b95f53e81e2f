#include "daemon/stream/reader.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace sessiond {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::uint32_t most_ignored = 64 << 10;
// Bytes that the kernel keeps for a reader beyond what it has sent: without a bound, megabytes for each that takes
// nothing. Where it has stopped, it goes on from the tail or the journal.
constexpr int most_unsent = 128 << 10;

asio::generic::stream_protocol protocol_of(int fd) {
  int domain = AF_INET;
  socklen_t size = sizeof domain;
  ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return {domain, 0};
}

}  // namespace

Reader::Reader(const asio::any_io_executor& executor, Subscription subscription, TakenSocket socket,
               std::atomic<std::uint64_t>& sent_by_all)
    : wish(std::move(subscription)),
      peer(std::move(socket.peer)),
      opened(Clock::now()),
      spoke(opened),
      moved(opened),
      socket_(executor),
      sent_by_all_(sent_by_all),
      place_in_limits_(std::move(socket.place)) {
  error_code error;
  socket_.assign(protocol_of(socket.fd.get()), socket.fd.get(), error);
  if (!error) socket.fd.release();
  // Not on a unix socket, which has a small buffer anyway.
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent, sizeof most_unsent);
}

Reader::~Reader() { close(); }

std::optional<std::size_t> Reader::put(std::span<const iovec> buffers, Clock::time_point now) {
  spoke = now;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(buffers.data());  // NOLINT(*-const-cast): sendmsg only reads it
  message.msg_iovlen = buffers.size();
  for (;;) {
    const ssize_t taken =
        buffers.size() == 1
            ? ::send(socket_.native_handle(), buffers[0].iov_base, buffers[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
            : ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken >= 0) {
      moved = now;
      bytes += static_cast<std::uint64_t>(taken);
      sent_by_all_.fetch_add(static_cast<std::uint64_t>(taken), std::memory_order_relaxed);
      return static_cast<std::size_t>(taken);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return std::nullopt;
  }
}

Reader::Sent Reader::send(const Gathered& gathered, Clock::time_point now) {
  const auto taken = put(gathered.buffers(), now);
  if (!taken) return Sent::gone;
  if (*taken == gathered.bytes()) {
    next = gathered.next;
    if (gathered.last_seq() != 0) said = gathered.last_seq();
    return Sent::all;
  }
  const Gathered::Cut cut = gathered.cut(*taken);
  if (cut.seq != 0) {
    next = cut.seq + 1;
    said = cut.seq;
  }
  rest_ = cut.rest;
  return Sent::part;
}

Reader::Sent Reader::say(std::string_view text, Clock::time_point now) {
  rest_ += text;
  return send_rest(now);
}

Reader::Sent Reader::send_rest(Clock::time_point now) {
  if (rest_.empty()) return Sent::all;
  const iovec buffer{rest_.data(), rest_.size()};
  const auto taken = put({&buffer, 1}, now);
  if (!taken) return Sent::gone;
  if (*taken < rest_.size()) {
    rest_.erase(0, *taken);
    return Sent::part;
  }
  rest_ = {};  // its memory too: it may have been a big one
  return Sent::all;
}

void Reader::when_writable(std::function<void()> call) {
  socket_.async_wait(Socket::wait_write, [self = shared_from_this(), call = std::move(call)](error_code error) {
    if (error != asio::error::operation_aborted) call();
  });
}

void Reader::when_gone(std::function<void()> call) {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this(), call = std::move(call)](error_code error) mutable {
    if (error == asio::error::operation_aborted) return;
    std::array<char, 512> input;
    for (;;) {
      const ssize_t got = ::recv(self->socket_.native_handle(), input.data(), input.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return self->when_gone(std::move(call));
      if (got > 0) self->ignored_ += static_cast<std::uint32_t>(got);
      if (got <= 0 || self->ignored_ > most_ignored) return call();
    }
  });
}

void Reader::end_sending() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void Reader::close() {
  error_code ignored;
  socket_.close(ignored);
  place_in_limits_.reset();
}

}  // namespace sessiond
