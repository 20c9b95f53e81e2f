// What systemd and the daemon tell each other, in its own words, without its library: sd_notify(3) is a datagram to
// $NOTIFY_SOCKET, sd_listen_fds(3) are descriptors from 3 on that $LISTEN_FDS counts. Both protocols are promised to
// stay (systemd.io/PORTABILITY_AND_STABILITY). Without systemd around nothing here does anything.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond {

// Of one thread. Taken from the environment once, at start; the variables are gone afterwards.
class ServiceManager {
 public:
  static ServiceManager from_environment();

  // What the start waits for.
  void starting(std::string_view status);
  // It listens. `status` is what `systemctl status` shows.
  void ready(std::string_view status);
  void stopping();
  // SIGHUP: until the guard goes.
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

  // WatchdogSec: a sign of life, two for each that is asked for, from the loop that this runs on: one that hangs is
  // silent. Returns at once when none is asked for, else never. This outlives it.
  boost::asio::awaitable<void> keep_alive();

  // The sockets that came with the start, each already listening. validation_failed for what is no such thing, and,
  // unless `anywhere` (there is TLS, or listen.insecure), for TCP on other than loopback addresses, as of listen.tcp.
  struct Socket {
    Fd fd{};
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

// Does stdout go into systemd's journal? There secrets are kept, and shown to others.
bool stdout_is_journal();

}  // namespace sessiond
