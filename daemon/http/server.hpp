// The HTTP server: listens, keeps count of its connections, watches their deadlines, and stops without cutting off what
// runs. Everything but counters() belongs to the io_context's one thread. `io`, `router` and `disk` outlive the
// io_context's last run.
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
#include <string_view>
#include <vector>

#include "daemon/http/connection.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/http/options.hpp"
#include "daemon/http/router.hpp"
#include "daemon/http/tls_front.hpp"

namespace sessiond {

class Server {
 public:
  Server(boost::asio::io_context& io, const Router& router, boost::asio::thread_pool& disk, ServerOptions options = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // "127.0.0.1:7433", "[::1]:0"; the port bound.
  Result<unsigned short> listen_tcp(std::string_view address);
  // Before listen_tcp: what comes over TCP is TLS. Later: from the next connection on.
  void use_tls(TlsContext context);
  // Any Host is served there, and a peer of our own uid is request.local_admin.
  Result<void> listen_unix(const std::string& path);

  // Sockets that listen already, whose files are another's to remove: systemd's.
  Result<unsigned short> adopt_tcp(Fd listening);
  Result<void> adopt_unix(Fd listening);

  // Holds for what comes from now on.
  void reconfigure(ServerOptions options);

  // Called once by stop(): whoever runs streams ends them.
  void on_stop(std::function<void()> call) { on_stop_.push_back(std::move(call)); }
  // No more connections; idle ones close, running requests end (those that do not within stop_grace are cut off).
  void stop();
  bool stopping() const { return service_->draining; }
  // After stop(): returns when no connection is left. A handler that never returns is given up one second after the
  // grace.
  boost::asio::awaitable<void> stopped();

  const Counters& counters() const { return service_->counters; }

 private:
  void shake_hands(boost::asio::ip::tcp::socket socket, Connection::Peer peer);
  Result<unsigned short> serve(boost::asio::ip::tcp::acceptor acceptor);
  template <class Acceptor>
  boost::asio::awaitable<void> accept(Acceptor& acceptor);
  void start(Connection::Socket socket, Connection::Peer peer);
  // Why this one is turned away, or nothing; then it has its place.
  std::optional<std::string> over_limits(Connection::Peer& peer) const;
  void make_room();
  void watch();
  void tick();
  Connection::Clock::duration tick_interval() const;

  boost::asio::io_context& io_;
  std::shared_ptr<Service> service_;
  std::list<boost::asio::ip::tcp::acceptor> tcp_;
  std::list<UnixListener> unix_;
  std::vector<std::function<void()>> on_stop_;
  boost::asio::steady_timer tick_timer_;
  boost::asio::steady_timer all_gone_;
  Connection::Clock::time_point stopped_at_{};
  std::size_t room_ = 0;  // for connections, among the descriptors that we may have
  bool ticking_ = false;
  bool given_up_ = false;
  std::unique_ptr<TlsFront> tls_{};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what may still be queued when we are gone
};

}  // namespace sessiond
