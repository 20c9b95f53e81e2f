#include "config/listen_address.hpp"

#include <arpa/inet.h>

#include <charconv>

namespace sessiond::config {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::optional<bool> loopback_v4(const std::string& ip) {
  in_addr address{};
  if (inet_pton(AF_INET, ip.c_str(), &address) != 1) return std::nullopt;
  return (ntohl(address.s_addr) >> 24) == 127;
}

std::optional<bool> loopback_v6(const std::string& ip) {
  in6_addr address{};
  if (inet_pton(AF_INET6, ip.c_str(), &address) != 1) return std::nullopt;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&address);
  return IN6_IS_ADDR_LOOPBACK(&address) || (mapped && address.s6_addr[12] == 127);
}

}  // namespace

std::optional<ListenAddress> parse_listen_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.find('\0') != std::string_view::npos) return std::nullopt;
  const auto port = parse_port(text.substr(colon + 1));
  if (!port) return std::nullopt;

  std::string ip(text.substr(0, colon));
  const bool bracketed = ip.size() > 2 && ip.front() == '[' && ip.back() == ']';
  if (bracketed) ip = ip.substr(1, ip.size() - 2);
  if (ip == "localhost" && !bracketed) ip = "127.0.0.1";
  const auto loopback = bracketed ? loopback_v6(ip) : loopback_v4(ip);
  if (!loopback) return std::nullopt;
  return ListenAddress{.ip = std::move(ip), .port = *port, .loopback = *loopback};
}

}  // namespace sessiond::config
