#include "daemon/http/server.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <random>
#include <type_traits>

#include "daemon/http/as_result.hpp"
#include "daemon/runtime/log.hpp"

namespace sessiond {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kept_for_operators = 64;  // unix connections beyond the limit
constexpr auto give_up_after = 1s;
// Descriptors that connections never get: the journal and the transcripts must not want for one because of a flood.
constexpr std::size_t kept_for_files = 256;
// So much of a reply that the client has no room for lies in the kernel; without it that is megabytes a connection.
constexpr int most_unsent = 128 << 10;

Connection::Peer describe(asio::ip::tcp::socket& socket) {
  error_code error;
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent, sizeof most_unsent);
  const auto endpoint = socket.remote_endpoint(error);
  const std::string address = endpoint.address().to_string();
  return {.name = endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                             : fmt::format("{}:{}", address, endpoint.port()),
          .address = endpoint.address()};
}

Connection::Peer describe(asio::local::stream_protocol::socket& socket) {
  const std::optional<uid_t> uid = peer_uid(socket);
  return {.name = uid ? fmt::format("unix:{}", *uid) : "unix:?",
          .unix_socket = true,
          .local_admin = uid && *uid == ::geteuid()};
}

// Best effort: told without waiting, then closed.
void turn_away(Service& service, Connection::Socket& socket, std::string why) {
  Request nobody;
  nobody.request_id = service.request_id({});
  Response response = to_response({.code = Code::degraded, .detail = std::move(why)}, nobody);
  end_with_newline(response);
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
  make_room();
}

Server::~Server() {
  *alive_ = false;
  service_->on_empty = nullptr;
  tls_.reset();
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

void Server::reconfigure(ServerOptions options) {
  service_->options = std::move(options);
  make_room();
}

// The soft limit of descriptors is often 1024; it is raised as far as limits.connections needs and the hard one allows.
void Server::make_room() {
  const rlim_t wanted = service_->options.connections + kept_for_operators + kept_for_files;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted) {
    const rlimit raised{.rlim_cur = std::min(wanted, limit.rlim_max), .rlim_max = limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  const rlim_t kept = std::min<rlim_t>(kept_for_operators + kept_for_files, limit.rlim_cur / 2);
  room_ = limit.rlim_cur - kept;
  if (room_ < service_->options.connections) {
    log::warn("few_descriptors", {{"connections", room_}, {"limit", limit.rlim_cur}});
  }
}

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
    if constexpr (std::is_same_v<Acceptor, asio::ip::tcp::acceptor>) {
      if (tls_) {
        shake_hands(std::move(socket), std::move(peer));
        continue;
      }
    }
    start(Connection::Socket(std::move(socket)), std::move(peer));
  }
}

void Server::use_tls(TlsContext context) {
  if (tls_) return tls_->use(std::move(context));
  tls_ = std::make_unique<TlsFront>(std::move(context));
}

// Whoever is over the limit is not worth a handshake.
void Server::shake_hands(asio::ip::tcp::socket socket, Connection::Peer peer) {
  if (over_limits(peer) || tls_->open() >= service_->options.connections) {
    add(service_->counters.connections_refused, 1);
    return;
  }
  error_code error;
  Fd client(socket.release(error));
  if (error) return;
  peer.secure = true;
  tls_->take(std::move(client), service_->options.header_timeout,
             [this, alive = alive_, peer = std::move(peer)](Fd server_end, std::string certificate) {
               asio::post(io_, [this, alive, peer, end = std::move(server_end), certificate]() mutable {
                 if (!*alive || service_->draining) return;
                 peer.certificate = std::move(certificate);
                 error_code failed;
                 Connection::Socket paired(io_);
                 paired.assign(asio::generic::stream_protocol(AF_UNIX, 0), end.get(), failed);
                 if (failed) return;
                 end.release();
                 start(std::move(paired), std::move(peer));
               });
             });
}

std::optional<std::string> Server::over_limits(Connection::Peer& peer) const {
  const ServerOptions& options = service_->options;
  const std::size_t open =
      service_->connections.size() + service_->counters.streams_open.load(std::memory_order_relaxed);
  if (open >= std::min(options.connections, room_) + (peer.unix_socket ? kept_for_operators : 0)) {
    return "as many connections are open as limits.connections allows";
  }
  if (peer.unix_socket || peer.slot || (is_loopback(peer.address) && !options.count_loopback)) return std::nullopt;
  auto slot = service_->by_address.take(peer.address, options.connections_per_address);
  if (!slot) return "as many connections from this address are open as limits.connectionsPerAddress allows";
  peer.slot = std::move(*slot);
  return std::nullopt;
}

void Server::start(Connection::Socket socket, Connection::Peer peer) {
  if (std::optional<std::string> why = over_limits(peer)) {
    add(service_->counters.connections_refused, 1);
    turn_away(*service_, socket, std::move(*why));
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
  const auto shortest = std::min({options.request_timeout, options.header_timeout, options.idle_timeout,
                                  options.stall_timeout, options.stop_grace});
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
