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
#include "store/try.hpp"

namespace sessiond::http {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kept_for_operators = 64;  // connections of the unix socket beyond limits.connections
constexpr auto give_up_after = 1s;
// Descriptors that connections never get: a flood of connections must not keep the journal from opening a file.
constexpr std::size_t kept_for_files = 256;
// Bytes of a reply that the kernel holds unsent; without this bound it would hold megabytes a connection.
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

// Tells a connection why it is refused, if the socket takes it at once, and closes it.
void turn_away(Service& service, Connection::Socket& socket, std::string why) {
  const std::string request_id = service.request_id({});
  Response response = to_response({.code = Code::degraded, .detail = std::move(why)}, {}, request_id);
  end_with_newline(response);
  std::string reply;
  write_head(reply, response, request_id, service.date.now(), {.close = true, .length = response.body.size()});
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

Result<unsigned short> Server::listen_tcp(const asio::ip::tcp::endpoint& endpoint) {
  TRY(auto acceptor, open_tcp(io_, endpoint));
  return serve(std::move(acceptor));
}

Result<unsigned short> Server::adopt_tcp(store::Fd listening) {
  asio::ip::tcp::acceptor acceptor(io_);
  TRY(adopt(acceptor, std::move(listening)));
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
  TRY(auto listener, open_unix(io_, path));
  unix_.push_back(std::move(listener));
  asio::co_spawn(io_, accept(unix_.back().acceptor), asio::detached);
  return {};
}

Result<void> Server::adopt_unix(store::Fd listening) {
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

// Raises the soft limit of descriptors, which is often 1024, to what limits.connections needs and the hard limit
// allows.
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
  // The server may be destroyed during a wait.
  const std::shared_ptr<bool> alive = alive_;
  asio::steady_timer pause(io_);
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(as_result);
    if (!*alive || service_->draining || error == asio::error::operation_aborted) co_return;
    if (error) {
      // Out of descriptors or memory: trying again at once would fail again.
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

// Closes a connection over the limits before the handshake, which would cost more than the refusal.
void Server::shake_hands(asio::ip::tcp::socket socket, Connection::Peer peer) {
  if (over_limits(peer) || tls_->open() >= service_->options.connections) {
    add(service_->counters.connections_refused, 1);
    return;
  }
  error_code error;
  store::Fd client(socket.release(error));
  if (error) return;
  peer.secure = true;
  tls_->take(std::move(client), service_->options.header_timeout,
             [this, alive = alive_, peer = std::move(peer)](store::Fd server_end, std::string certificate) {
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
  auto slot = service_->by_address.take(network_of(peer.address), options.connections_per_address);
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

// The tick runs only while there are connections, so that an idle daemon sleeps.
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
  tcp_.clear();  // closes the sockets, which ends the accepts
  unix_.clear();
  if (on_stop_) on_stop_();
  for (Connection* connection : service_->connections) connection->drain();
  all_gone_.cancel();  // wakes stopped()
}

asio::awaitable<void> Server::stopped() {
  while (!service_->draining || (!service_->connections.empty() && !given_up_)) {
    co_await all_gone_.async_wait(as_result);
  }
}

}  // namespace sessiond::http
