#include "daemon/stream/stream_client.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>

namespace sessiond::stream {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::uint32_t most_ignored = 64 << 10;
constexpr std::size_t long_rest = 64 << 10;  // is not copied

asio::generic::stream_protocol protocol_of(int fd) {
  int domain = AF_INET;
  socklen_t size = sizeof domain;
  ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return {domain, 0};
}

}  // namespace

StreamClient::StreamClient(const asio::any_io_executor& executor, Subscription wanted, http::TakenSocket socket,
                           std::atomic<std::uint64_t>& total_sent)
    : subscription(std::move(wanted)),
      peer(std::move(socket.peer)),
      socket_(executor),
      total_sent_(total_sent),
      slot_(std::move(socket.slot)) {
  error_code error;
  socket_.assign(protocol_of(socket.fd.get()), socket.fd.get(), error);
  if (!error) socket.fd.release();
}

StreamClient::~StreamClient() { close(); }

std::optional<std::size_t> StreamClient::write(std::span<const iovec> buffers, Clock::time_point now) {
  last_write = now;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(buffers.data());  // NOLINT(*-const-cast): sendmsg only reads it
  message.msg_iovlen = buffers.size();
  for (;;) {
    const ssize_t taken =
        buffers.size() == 1
            ? ::send(socket_.native_handle(), buffers[0].iov_base, buffers[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
            : ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken >= 0) {
      last_progress = now;
      bytes_sent += static_cast<std::uint64_t>(taken);
      total_sent_.fetch_add(static_cast<std::uint64_t>(taken), std::memory_order_relaxed);
      return static_cast<std::size_t>(taken);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return std::nullopt;
  }
}

StreamClient::Sent StreamClient::send(const FrameRun& run, Clock::time_point now) {
  assert(!has_rest());
  const auto taken = write(run.buffers(), now);
  if (!taken) return Sent::gone;
  if (*taken == run.bytes()) {
    if (run.last_seq() != 0) cursor.sent(run.last_seq());
    cursor.skip_to(run.next);
    return Sent::all;
  }
  FrameRun::Cut cut = run.cut(*taken);
  if (cut.seq != 0) cursor.sent(cut.seq);
  if (cut.rest.size() < long_rest) {
    rest_ = cut.rest;
  } else {
    begun_ = cut.rest;
    begun_owner_ = std::move(cut.owner);
  }
  return Sent::part;
}

StreamClient::Sent StreamClient::say(std::string_view text, Clock::time_point now) {
  rest_ += text;
  return send_rest(now);
}

StreamClient::Sent StreamClient::send_rest(Clock::time_point now) {
  if (!has_rest()) return Sent::all;
  const std::array<iovec, 2> buffers{{{const_cast<char*>(begun_.data()), begun_.size()},  // NOLINT(*-const-cast)
                                      {rest_.data(), rest_.size()}}};
  const auto taken = write(buffers, now);
  if (!taken) return Sent::gone;
  const std::size_t of_begun = std::min(*taken, begun_.size());
  begun_.remove_prefix(of_begun);
  if (begun_.empty()) begun_owner_.reset();
  rest_.erase(0, *taken - of_begun);
  if (has_rest()) return Sent::part;
  rest_ = {};  // frees its memory
  return Sent::all;
}

void StreamClient::when_writable(std::function<void()> call) {
  socket_.async_wait(Socket::wait_write, [self = shared_from_this(), call = std::move(call)](error_code error) {
    if (error != asio::error::operation_aborted) call();
  });
}

void StreamClient::when_gone(std::function<void()> call) {
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

void StreamClient::end_sending() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void StreamClient::close() {
  error_code ignored;
  socket_.close(ignored);
  slot_.reset();
}

}  // namespace sessiond::stream
