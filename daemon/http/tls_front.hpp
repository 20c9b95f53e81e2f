// Terminates TLS in front of the server, on a thread of its own. After the handshake a connection is relayed to one end
// of a socket pair, and the server treats the other end like any other connection. So the ledger's thread does no
// cryptography, and streams, stall timeouts and limits work the same with and without TLS: a client that reads nothing
// fills the socket pair, which the server notices. The price is one copy of every byte.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "daemon/http/tls_context.hpp"
#include "store/files.hpp"

namespace sessiond::http {

class TlsRelay;

class TlsFront {
 public:
  // Called on the front's thread after the handshake, with the server's end of the pair and the common name of the
  // client's certificate.
  using Ready = std::function<void(store::Fd, std::string certificate)>;

  explicit TlsFront(TlsContext context);
  ~TlsFront();  // gives open connections a few seconds to end, and joins the thread

  // Takes effect for new connections; open ones keep their context.
  void use(TlsContext context);
  // Relays a client. It is closed if the handshake takes longer than `handshake_timeout`.
  void take(store::Fd client, std::chrono::milliseconds handshake_timeout, Ready ready);
  std::size_t open() const { return open_.load(std::memory_order_relaxed); }

 private:
  friend class TlsRelay;
  void tick();

  std::atomic<std::size_t> open_{0};
  // The rest belongs to the front's thread.
  TlsContext context_;
  std::set<TlsRelay*> relays_{};
  bool ending_ = false;
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_{io_};
  std::jthread thread_;
};

}  // namespace sessiond::http
