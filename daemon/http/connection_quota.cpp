#include "daemon/http/connection_quota.hpp"

#include <algorithm>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/address_v6.hpp>

namespace sessiond::http {

namespace ip = boost::asio::ip;

namespace {

ip::address unmapped(const ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  return address;
}

}  // namespace

Network network_of(const ip::address& address) {
  const ip::address plain = unmapped(address);
  if (plain.is_v4()) return ip::make_address_v6(ip::v4_mapped, plain.to_v4()).to_bytes();
  Network bytes = plain.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return bytes;
}

std::string network_of(std::string_view peer) {
  const std::size_t bracket = peer.find(']');
  const bool v6 = peer.starts_with('[') && bracket != std::string_view::npos;
  const std::string_view host = v6 ? peer.substr(1, bracket - 1) : peer.substr(0, peer.rfind(':'));
  boost::system::error_code error;
  const ip::address address = ip::make_address(host, error);
  if (error) return std::string(peer);
  const Network network = network_of(address);
  return {network.begin(), network.end()};
}

bool is_loopback(const ip::address& address) { return unmapped(address).is_loopback(); }

}  // namespace sessiond::http
