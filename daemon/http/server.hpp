// The HTTP server: listens, limits and counts its connections, watches their deadlines, and stops without interrupting
// requests that run. Everything but counters() belongs to the one thread of `io`. `io`, `router` and `disk` live until
// the io_context has run for the last time.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "daemon/http/connection.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/http/options.hpp"
#include "daemon/http/router.hpp"
#include "daemon/http/tls_front.hpp"

namespace sessiond::http {

class Server {
 public:
  Server(boost::asio::io_context& io, const Router& router, boost::asio::thread_pool& disk, ServerOptions options = {});
  ~Server();

  // Returns the port that was bound.
  Result<unsigned short> listen_tcp(const boost::asio::ip::tcp::endpoint& endpoint);
  // Makes every later TCP connection TLS. The first call comes before listen_tcp.
  void use_tls(TlsContext context);
  // The unix socket serves any Host, and a peer with the daemon's uid becomes request.local_admin.
  Result<void> listen_unix(const std::string& path);

  // For sockets that listen already and whose files systemd removes.
  Result<unsigned short> adopt_tcp(store::Fd listening);
  Result<void> adopt_unix(store::Fd listening);

  // Takes effect for later connections and requests.
  void reconfigure(ServerOptions options);

  // stop() calls it once, so that streams can be ended.
  void on_stop(std::function<void()> call) { on_stop_ = std::move(call); }
  // Accepts no more connections, closes idle ones, and lets running requests end, for at most stop_grace.
  void stop();
  // After stop(): returns when no connection is left, or one second after the grace if a handler never returns.
  boost::asio::awaitable<void> stopped();

  const Counters& counters() const { return service_->counters; }

 private:
  void shake_hands(boost::asio::ip::tcp::socket socket, Connection::Peer peer);
  Result<unsigned short> serve(boost::asio::ip::tcp::acceptor acceptor);
  template <class Acceptor>
  boost::asio::awaitable<void> accept(Acceptor& acceptor);
  void start(Connection::Socket socket, Connection::Peer peer);
  // Returns why a connection must be refused; or nothing, and then the peer has its slot.
  std::optional<std::string> over_limits(Connection::Peer& peer) const;
  void make_room();
  void watch();
  void tick();
  Connection::Clock::duration tick_interval() const;

  boost::asio::io_context& io_;
  std::shared_ptr<Service> service_;
  std::list<boost::asio::ip::tcp::acceptor> tcp_;
  std::list<UnixListener> unix_;
  std::function<void()> on_stop_;
  boost::asio::steady_timer tick_timer_;
  boost::asio::steady_timer all_gone_;
  Connection::Clock::time_point stopped_at_{};
  std::size_t room_ = 0;  // connections that the limit of descriptors allows
  bool ticking_ = false;
  bool given_up_ = false;
  std::unique_ptr<TlsFront> tls_{};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // false: destroyed, while callbacks are still queued
};

}  // namespace sessiond::http
