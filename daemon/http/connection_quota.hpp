// Limits how many connections each address has, so that one host cannot take all of limits.connections. An IPv6 network
// of 64 bits counts as one address, since a host there can use all of them. An IPv4 address mapped into IPv6 counts as
// the IPv4 address.
#pragma once

#include <array>
#include <boost/asio/ip/address.hpp>
#include <string>
#include <string_view>

#include "daemon/http/quota.hpp"

namespace sessiond::http {

// An address, as far as it counts: an IPv4 address as if it were mapped into IPv6, an IPv6 address without its last 64
// bits.
using Network = std::array<unsigned char, 16>;

using ConnectionQuota = Quota<Network>;

Network network_of(const boost::asio::ip::address& address);
// Returns the network of an address in text, as bytes. `peer` is as in logs: "192.0.2.1:5123" or "[2001:db8::1]:5123".
// Any other text, such as the peer of a unix socket, is returned as it is.
std::string network_of(std::string_view peer);

// True also for an IPv4 loopback address that is mapped into IPv6.
bool is_loopback(const boost::asio::ip::address& address);

}  // namespace sessiond::http
