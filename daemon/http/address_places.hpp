// How many connections each address has, so that one host cannot take all places. An IPv6 network of 64 bits counts as
// one address (who has one address there has them all), an IPv4 address mapped into IPv6 as what it is.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <memory>
#include <optional>

namespace sessiond {

class AddressPlaces {
 public:
  AddressPlaces();

  // A place that is held until its last copy goes, on any thread and also after us; nothing when `limit` (0: none) are
  // held from there.
  std::optional<std::shared_ptr<void>> take(const boost::asio::ip::address& address, std::size_t limit);

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

// Also when it is mapped into IPv6.
bool is_loopback(const boost::asio::ip::address& address);

}  // namespace sessiond
