// Limits how many connections each address has, so that one host cannot take all of limits.connections. An IPv6 network
// of 64 bits counts as one address, since a host there can use all of them. An IPv4 address mapped into IPv6 counts as
// the IPv4 address.
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

  // Returns a slot, or nothing when `limit` slots (0: no limit) of this address are taken. The slot is returned when
  // its last copy is destroyed: on any thread, and possibly after the quota itself.
  std::optional<std::shared_ptr<void>> take(const boost::asio::ip::address& address, std::size_t limit);

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

// Returns what counts as one address, as bytes. `peer` is as in logs: "192.0.2.1:5123" or "[2001:db8::1]:5123". Any
// other text, such as the peer of a unix socket, is returned as it is.
std::string network_of(std::string_view peer);

// True also for an IPv4 loopback address that is mapped into IPv6.
bool is_loopback(const boost::asio::ip::address& address);

}  // namespace sessiond
