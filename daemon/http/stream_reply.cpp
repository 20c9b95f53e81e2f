// Sends replies of any length, which end by closing the connection. Either the handler writes the body with a
// StreamWriter, while a read waits for the client to close. Or the reply takes the socket over (event streams).
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "daemon/http/connection.hpp"
#include "daemon/runtime/log.hpp"

namespace sessiond::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {
constexpr std::size_t ignored_input = 64 << 10;  // a client that sends more than this during a stream is closed
}

class StreamReply final : public StreamWriter, public std::enable_shared_from_this<StreamReply> {
 public:
  explicit StreamReply(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  asio::awaitable<bool> write(const std::vector<std::string_view>& buffers) override {
    std::vector<asio::const_buffer> pieces;
    pieces.reserve(buffers.size());
    for (const std::string_view buffer : buffers) {
      if (!buffer.empty()) pieces.emplace_back(buffer.data(), buffer.size());
    }
    if (open_ && !pieces.empty() && !co_await connection_->write(pieces)) open_ = false;
    co_return open_;
  }
  bool open() const { return open_; }

  void watch() {
    connection_->socket_.async_read_some(asio::buffer(input_),
                                         [self = shared_from_this()](error_code error, std::size_t n) {
                                           self->ignored_ += n;
                                           if (!error && self->ignored_ <= ignored_input) return self->watch();
                                           self->closed();
                                         });
  }
  // Ends the stream, and with it the read that keeps this object alive.
  void finish() {
    open_ = false;
    error_code ignored;
    connection_->socket_.cancel(ignored);
  }

 private:
  void closed() {
    if (!open_) return;
    open_ = false;
    connection_->abort();  // ends a write that waits
  }

  std::shared_ptr<Connection> connection_;
  std::array<char, 512> input_;
  std::size_t ignored_ = 0;
  bool open_ = true;
};

asio::awaitable<bool> Connection::begin_stream(const Response& response) {
  head(response, response.stream_length);
  asio::const_buffer buffers[] = {asio::buffer(head_)};
  if (!co_await write(buffers)) co_return false;
  if (!peer_.unix_socket) {
    // Detects a peer that has vanished without closing: the kernel gives up on bytes that it does not acknowledge. The
    // time is longer than the stall timeout, so that a client that only reads nothing is reported as stalled.
    const auto ms = static_cast<unsigned>(2 * service_->options.stall_timeout.count() + 2000);
    ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
  }
  co_return true;
}

asio::awaitable<void> Connection::hand_over(Response& response) {
  if (!co_await begin_stream(response)) co_return;
  error_code error;
  store::Fd fd(socket_.release(error));
  if (error) {
    log::error("stream_failed", {{"requestId", request_id_}, {"what", error.message()}});
    co_return;
  }
  service_->counters.streams_open.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<void> slot(service_.get(), [service = service_, by_address = peer_.slot](void*) {
    service->counters.streams_open.fetch_sub(1, std::memory_order_relaxed);
  });
  response.take_over({.fd = std::move(fd), .peer = peer_.name, .slot = std::move(slot)});
}

asio::awaitable<void> Connection::reply_stream(Response& response) {
  if (!co_await begin_stream(response)) co_return;
  auto stream = std::make_shared<StreamReply>(shared_from_this());
  stream->watch();
  std::string failure;
  try {
    co_await response.stream(*stream);
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
    failure = "not a std::exception";
  }
  if (!failure.empty()) log::error("stream_failed", {{"requestId", request_id_}, {"what", failure}});
  const bool open = stream->open();
  stream->finish();
  if (open) co_await linger();
}

}  // namespace sessiond::http
