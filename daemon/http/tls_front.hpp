// TLS in front of the server, on a thread of its own: each connection is shaken hands with and then relayed to one end
// of a socket pair, whose other end the server treats like any other connection. So the ledger's thread does no
// cryptography, and streams, stalls and limits are what they are without TLS. A client that takes nothing fills the
// pair, which the server sees.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "daemon/http/tls_context.hpp"
#include "store/files.hpp"

namespace sessiond {

class TlsRelay;

class TlsFront {
 public:
  // A connection is ready: the server's end, and the common name of the certificate that the client has shown. Called
  // on the front's thread.
  using Ready = std::function<void(Fd, std::string certificate)>;

  explicit TlsFront(TlsContext context);
  ~TlsFront();  // what is still on its way has a few seconds
  TlsFront(const TlsFront&) = delete;
  TlsFront& operator=(const TlsFront&) = delete;

  // For connections from now on; those that are open keep what they have.
  void use(TlsContext context);
  // A client that has not shaken hands by then is closed.
  void take(Fd client, std::chrono::milliseconds handshake_timeout, Ready ready);
  std::size_t open() const { return open_.load(std::memory_order_relaxed); }

 private:
  friend class TlsRelay;
  void tick();

  std::atomic<std::size_t> open_{0};
  // The thread's.
  TlsContext context_;
  std::set<TlsRelay*> relays_{};
  bool ending_ = false;
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_{io_};
  std::jthread thread_;
};

}  // namespace sessiond
