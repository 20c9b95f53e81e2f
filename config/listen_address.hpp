// Addresses of `listen.tcp`: "127.0.0.1:7433", "[::1]:7433" or "localhost:7433" (which is 127.0.0.1). Names are not
// resolved, so the address never depends on DNS. Port 0 means any free port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::config {

struct ListenAddress {
  std::string ip;  // as inet_pton reads it, without brackets
  std::uint16_t port = 0;
  bool loopback = false;  // 127.0.0.0/8, ::1 and their IPv4-mapped form
  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

std::optional<ListenAddress> parse_listen_address(std::string_view text);

}  // namespace sessiond::config
