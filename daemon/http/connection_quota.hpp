// How many connections each address has, so that one host cannot take all places. An IPv6 network of 64 bits counts as
// one address (who has one address there has them all), an IPv4 address mapped into IPv6 as what it is.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond {

class ConnectionQuota {
 public:
  ConnectionQuota();

  // A place that is held until its last copy goes, on any thread and also after us; nothing when `limit` (0: none) are
  // held from there.
  std::optional<std::shared_ptr<void>> take(const boost::asio::ip::address& address, std::size_t limit);

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

// What counts as one address, as bytes: of a peer as logs have it, "192.0.2.1:5123" or "[2001:db8::1]:5123". Another
// text (a unix socket's peer) counts as itself.
std::string network_of(std::string_view peer);

// Also when it is mapped into IPv6.
bool is_loopback(const boost::asio::ip::address& address);

}  // namespace sessiond
