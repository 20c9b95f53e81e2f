#include "daemon/http/tls_front.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "daemon/http/as_result.hpp"
#include "daemon/runtime/log.hpp"

namespace sessiond::http {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Descriptor = asio::posix::stream_descriptor;

namespace {

constexpr std::size_t piece = 16 << 10;              // a TLS record
constexpr std::chrono::milliseconds tick_time{250};  // the resolution of deadlines
constexpr std::chrono::seconds goodbye_time{5};      // to send the rest when one side has closed
// The server closes a client that reads nothing long before this; the client's side of the relay may stay open so long.
constexpr std::chrono::minutes stuck_time{10};

}  // namespace

class TlsRelay : public std::enable_shared_from_this<TlsRelay> {
 public:
  TlsRelay(TlsFront& front, store::Fd client, Clock::time_point handshake_by, TlsFront::Ready ready)
      : front_(front),
        context_(front.context_),
        ssl_(SSL_new(context_.get()), SSL_free),
        client_(front.io_, client.release()),
        server_(front.io_),
        deadline_(handshake_by),
        ready_(std::move(ready)) {
    front_.relays_.insert(this);
    error_code error;
    client_.native_non_blocking(true, error);
    SSL_set_fd(ssl_.get(), client_.native_handle());
    SSL_set_accept_state(ssl_.get());
  }
  ~TlsRelay() {
    front_.relays_.erase(this);
    --front_.open_;
  }

  asio::awaitable<void> run(std::shared_ptr<TlsRelay> self) {
    if (!co_await shake_hands() || !open_pair()) {
      close();
      co_return;
    }
    deadline_ = Clock::time_point::max();
    asio::co_spawn(front_.io_, to_client(self), asio::detached);
    co_await to_server(self);
  }

  void tick(Clock::time_point now) {
    if (now >= deadline_) close();
  }
  void end_by(Clock::time_point time) { deadline_ = std::min(deadline_, time); }
  void close() {
    error_code ignored;
    client_.close(ignored);
    server_.close(ignored);
  }

 private:
  // Waits for what an SSL call needs. True: make the same call again. False: the connection is broken.
  asio::awaitable<bool> wait_for(int result) {
    const int why = SSL_get_error(ssl_.get(), result);
    if (!client_.is_open() || (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)) {
      ERR_clear_error();
      co_return false;
    }
    const auto [error] = co_await client_.async_wait(
        why == SSL_ERROR_WANT_READ ? Descriptor::wait_read : Descriptor::wait_write, as_result);
    co_return !error;
  }

  asio::awaitable<bool> shake_hands() {
    for (;;) {
      ERR_clear_error();
      const int result = SSL_do_handshake(ssl_.get());
      if (result == 1) co_return true;
      if (!co_await wait_for(result)) co_return false;
    }
  }

  bool open_pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      log::warn("tls_refused",
                {{"error", "no descriptor for a socket pair"}, {"next", "raise the limit of open files"}});
      return false;
    }
    server_.assign(ends[0]);
    ready_(store::Fd(ends[1]), common_name_of_peer(ssl_.get()));
    ready_ = nullptr;
    return true;
  }

  asio::awaitable<void> to_server(std::shared_ptr<TlsRelay>) {
    std::array<char, piece> buffer;
    while (client_.is_open()) {
      ERR_clear_error();
      const int got = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
      if (got <= 0) {
        if (SSL_get_error(ssl_.get(), got) == SSL_ERROR_ZERO_RETURN) break;  // the client has sent close_notify
        if (!co_await wait_for(got)) break;
        continue;
      }
      std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
      while (!rest.empty()) {
        const ssize_t taken = ::send(server_.native_handle(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken > 0) {
          rest.remove_prefix(static_cast<std::size_t>(taken));
          continue;
        }
        if (taken < 0 && errno == EINTR) continue;
        if (taken == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
          co_return;  // the server has closed: to_client ends it
        const auto [error] = co_await server_.async_wait(Descriptor::wait_write, as_result);
        if (error) co_return;
      }
    }
    if (server_.is_open()) ::shutdown(server_.native_handle(), SHUT_WR);
  }

  asio::awaitable<void> to_client(std::shared_ptr<TlsRelay>) {
    std::array<char, piece> buffer;
    while (server_.is_open()) {
      const ssize_t got = ::recv(server_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        const auto [error] = co_await server_.async_wait(Descriptor::wait_read, as_result);
        if (error) break;
        continue;
      }
      if (got <= 0) break;
      if (!co_await send({buffer.data(), static_cast<std::size_t>(got)})) break;
    }
    deadline_ = Clock::now() + goodbye_time;
    if (client_.is_open()) co_await say_goodbye();
    close();
  }

  asio::awaitable<bool> send(std::string_view rest) {
    deadline_ = Clock::now() + stuck_time;
    while (!rest.empty()) {
      ERR_clear_error();
      const int put = SSL_write(ssl_.get(), rest.data(), static_cast<int>(rest.size()));
      if (put > 0) {
        rest.remove_prefix(static_cast<std::size_t>(put));
      } else if (!co_await wait_for(put)) {
        co_return false;
      }
    }
    deadline_ = Clock::time_point::max();
    co_return true;
  }

  asio::awaitable<void> say_goodbye() {
    for (int result = 0; result == 0 || client_.is_open();) {
      ERR_clear_error();
      result = SSL_shutdown(ssl_.get());
      if (result >= 0) co_return;
      if (!co_await wait_for(result)) co_return;
    }
  }

  TlsFront& front_;
  TlsContext context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  Descriptor client_;
  Descriptor server_;
  Clock::time_point deadline_;
  TlsFront::Ready ready_;
};

TlsFront::TlsFront(TlsContext context) : context_(std::move(context)) {
  tick();
  thread_ = std::jthread([this] { io_.run(); });
}

TlsFront::~TlsFront() {  // NOLINT(bugprone-exception-escape): out of memory, the daemon ends anyway
  asio::post(io_, [this] {
    ending_ = true;
    for (TlsRelay* relay : relays_) relay->end_by(Clock::now() + goodbye_time);
  });
  thread_.join();
}

void TlsFront::use(TlsContext context) {
  asio::post(io_, [this, context = std::move(context)]() mutable { context_ = std::move(context); });
}

void TlsFront::take(store::Fd client, std::chrono::milliseconds handshake_timeout, Ready ready) {
  ++open_;
  asio::post(io_, [this, client = std::move(client), by = Clock::now() + handshake_timeout,
                   ready = std::move(ready)]() mutable {
    const auto relay = std::make_shared<TlsRelay>(*this, std::move(client), by, std::move(ready));
    asio::co_spawn(io_, relay->run(relay), asio::detached);
  });
}

void TlsFront::tick() {
  timer_.expires_after(tick_time);
  timer_.async_wait([this](const error_code& error) {
    if (error) return;
    const auto now = Clock::now();
    for (TlsRelay* relay : relays_) relay->tick(now);
    if (!ending_ || !relays_.empty()) tick();  // else io_ runs out of work, and the thread ends
  });
}

}  // namespace sessiond::http
