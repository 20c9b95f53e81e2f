// Talks to systemd without its library: sd_notify(3) is a datagram to $NOTIFY_SOCKET; sd_listen_fds(3) are descriptors
// from 3 on, which $LISTEN_FDS counts. Both protocols are stable (systemd.io/PORTABILITY_AND_STABILITY). Does nothing
// when the daemon was not started by systemd.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond::serve {

// Used on one thread. Reads the environment once, at the start, and removes the variables.
class ServiceManager {
 public:
  static ServiceManager from_environment();

  // Reports what the start waits for.
  void starting(std::string_view status);
  // Reports that the daemon listens. `systemctl status` shows `status`.
  void ready(std::string_view status);
  void stopping();
  // Reports a reload (SIGHUP), which lasts until the guard is destroyed.
  class Reload {
   public:
    explicit Reload(const ServiceManager& manager) : manager_(manager) {}
    ~Reload() { manager_.tell("READY=1"); }
    Reload(const Reload&) = delete;
    Reload& operator=(const Reload&) = delete;

   private:
    const ServiceManager& manager_;
  };
  Reload reloading() const;

  // Sends signs of life for WatchdogSec, at twice the rate that is asked for. They come from the loop, so a loop that
  // hangs sends none. Returns at once without WatchdogSec, else never. This object must outlive the coroutine.
  boost::asio::awaitable<void> keep_alive();

  // Returns the sockets that systemd has handed over; each is listening. Errors: validation_failed for any other
  // descriptor and, as for listen.tcp, for TCP on an address that is not loopback, unless `anywhere` (the daemon has
  // TLS, or listen.insecure is set).
  struct Socket {
    store::Fd fd{};
    std::string name{};  // address without port, or path
  };
  struct Sockets {
    std::vector<Socket> tcp{};
    std::vector<Socket> unix{};
  };
  Result<Sockets> sockets(bool anywhere);

 private:
  void tell(std::string_view state) const;

  std::string notify_socket_{};
  std::chrono::microseconds watchdog_{0};
  int inherited_ = 0;
  std::vector<std::string> names_{};
};

}  // namespace sessiond::serve
