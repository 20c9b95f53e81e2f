#include "daemon/http/server.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <type_traits>

#include "daemon/http/log.hpp"

namespace sessiond {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kept_for_operators = 64;  // unix connections beyond the limit
constexpr auto give_up_after = 1s;

Connection::Peer describe(asio::ip::tcp::socket& socket) {
  error_code error;
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  const auto endpoint = socket.remote_endpoint(error);
  const std::string address = endpoint.address().to_string();
  return {.name = endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                             : fmt::format("{}:{}", address, endpoint.port())};
}

Connection::Peer describe(asio::local::stream_protocol::socket& socket) {
  const std::optional<uid_t> uid = peer_uid(socket);
  return {.name = uid ? fmt::format("unix:{}", *uid) : "unix:?",
          .unix_socket = true,
          .local_admin = uid && *uid == ::geteuid()};
}

// Best effort: told without waiting, then closed.
void turn_away(Service& service, Connection::Socket& socket) {
  Request nobody;
  nobody.request_id = service.request_id({});
  const Response response = to_response(
      {.code = Code::degraded, .detail = "as many connections are open as limits.connections allows"}, nobody);
  std::string reply;
  write_head(reply, response, nobody.request_id, service.date.now(), {.close = true, .length = response.body.size()});
  reply += response.body;
  error_code error;
  socket.non_blocking(true, error);
  if (!error) socket.write_some(asio::buffer(reply), error);
  socket.shutdown(Connection::Socket::shutdown_send, error);
}

}  // namespace

Server::Server(asio::io_context& io, const Router& router, asio::thread_pool& disk, ServerOptions options)
    : io_(io),
      service_(new Service{.router = router, .disk = disk, .options = std::move(options)}),
      tick_timer_(io),
      all_gone_(io) {
  service_->id_prefix = fmt::format("{:08x}", std::random_device{}());
  service_->on_empty = [this] { all_gone_.cancel(); };
  all_gone_.expires_at(Connection::Clock::time_point::max());
}

Server::~Server() {
  *alive_ = false;
  service_->on_empty = nullptr;
  for (Connection* connection : service_->connections) connection->abort();
}

Result<unsigned short> Server::listen_tcp(std::string_view address) {
  const auto endpoint = tcp_endpoint(address);
  if (!endpoint) return std::unexpected(endpoint.error());
  Result<asio::ip::tcp::acceptor> acceptor = open_tcp(io_, *endpoint);
  if (!acceptor) return std::unexpected(std::move(acceptor.error()));
  return serve(std::move(*acceptor));
}

Result<unsigned short> Server::adopt_tcp(Fd listening) {
  asio::ip::tcp::acceptor acceptor(io_);
  if (auto done = adopt(acceptor, std::move(listening)); !done) return std::unexpected(std::move(done.error()));
  return serve(std::move(acceptor));
}

Result<unsigned short> Server::serve(asio::ip::tcp::acceptor acceptor) {
  error_code error;
  const auto local = acceptor.local_endpoint(error);
  if (error) return fail(Code::internal, fmt::format("listening: {}", error.message()));
  tcp_.push_back(std::move(acceptor));
  service_->addresses.insert(local.address().to_string());
  service_->any_address = service_->any_address || local.address().is_unspecified();
  asio::co_spawn(io_, accept(tcp_.back()), asio::detached);
  return local.port();
}

Result<void> Server::listen_unix(const std::string& path) {
  Result<UnixListener> listener = open_unix(io_, path);
  if (!listener) return std::unexpected(std::move(listener.error()));
  unix_.push_back(std::move(*listener));
  asio::co_spawn(io_, accept(unix_.back().acceptor), asio::detached);
  return {};
}

Result<void> Server::adopt_unix(Fd listening) {
  UnixListener listener{asio::local::stream_protocol::acceptor(io_), SocketFile({}, 0, 0)};
  if (auto done = adopt(listener.acceptor, std::move(listening)); !done) return done;
  unix_.push_back(std::move(listener));
  asio::co_spawn(io_, accept(unix_.back().acceptor), asio::detached);
  return {};
}

void Server::reconfigure(ServerOptions options) { service_->options = std::move(options); }

template <class Acceptor>
asio::awaitable<void> Server::accept(Acceptor& acceptor) {
  // What is read after a wait must not be a Server that is gone.
  const std::shared_ptr<bool> alive = alive_;
  asio::steady_timer pause(io_);
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(as_result);
    if (!*alive || service_->draining || error == asio::error::operation_aborted) co_return;
    if (error) {
      // Out of descriptors or memory: trying again at once would only burn the processor.
      if (error != asio::error::connection_aborted) {
        log::warn("accept_failed", {{"what", error.message()}});
        pause.expires_after(100ms);
        co_await pause.async_wait(as_result);
        if (!*alive || service_->draining) co_return;
      }
      continue;
    }
    Connection::Peer peer = describe(socket);
    start(Connection::Socket(std::move(socket)), std::move(peer));
  }
}

void Server::start(Connection::Socket socket, Connection::Peer peer) {
  const std::size_t limit = service_->options.connections + (peer.unix_socket ? kept_for_operators : 0);
  if (service_->connections.size() + service_->counters.streams_open.load(std::memory_order_relaxed) >= limit) {
    add(service_->counters.connections_refused, 1);
    turn_away(*service_, socket);
    return;
  }
  auto connection = std::make_shared<Connection>(service_, std::move(socket), std::move(peer));
  watch();
  asio::co_spawn(io_, connection->run(), [connection](const std::exception_ptr& failure) {
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      log::error("connection_failed", {{"what", error.what()}});
    }
  });
}

Connection::Clock::duration Server::tick_interval() const {
  const ServerOptions& options = service_->options;
  const auto shortest =
      std::min({options.request_timeout, options.idle_timeout, options.stall_timeout, options.stop_grace});
  return std::clamp<Connection::Clock::duration>(shortest / 4, 5ms, 500ms);
}

// The tick runs only while there are connections: an idle daemon sleeps.
void Server::watch() {
  if (std::exchange(ticking_, true)) return;
  tick_timer_.expires_after(tick_interval());
  tick_timer_.async_wait([this, alive = alive_](const error_code& error) {
    if (!*alive || error) return;
    ticking_ = false;
    tick();
  });
}

void Server::tick() {
  const auto now = Connection::Clock::now();
  if (service_->draining && now >= stopped_at_ + service_->options.stop_grace) {
    for (Connection* connection : service_->connections) connection->abort();
    if (now >= stopped_at_ + service_->options.stop_grace + give_up_after && !given_up_) {
      given_up_ = true;
      log::error("requests_never_ended", {{"connections", service_->connections.size()}});
      all_gone_.cancel();
    }
  } else {
    for (Connection* connection : service_->connections) connection->tick(now);
  }
  if (!service_->connections.empty() && !given_up_) watch();
}

void Server::stop() {
  if (std::exchange(service_->draining, true)) return;
  stopped_at_ = Connection::Clock::now();
  tcp_.clear();  // closes; the waiting accepts end
  unix_.clear();
  for (const std::function<void()>& call : on_stop_) call();
  for (Connection* connection : service_->connections) connection->drain();
  all_gone_.cancel();  // whoever waits in stopped() looks again
}

asio::awaitable<void> Server::stopped() {
  while (!service_->draining || (!service_->connections.empty() && !given_up_)) {
    co_await all_gone_.async_wait(as_result);
  }
}

}  // namespace sessiond
