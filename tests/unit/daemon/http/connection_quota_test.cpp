#include "daemon/http/connection_quota.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace sessiond;
using namespace sessiond::http;
namespace ip = boost::asio::ip;

namespace {
ip::address address(const char* text) { return ip::make_address(text); }
Network at(const char* text) { return network_of(address(text)); }
}  // namespace

TEST_CASE("an address has so many places, and gets back what it leaves") {
  ConnectionQuota quota;
  auto one = quota.take(at("192.0.2.1"), 2);
  auto two = quota.take(at("192.0.2.1"), 2);
  REQUIRE(one);
  REQUIRE(two);
  CHECK(!quota.take(at("192.0.2.1"), 2));
  CHECK(quota.take(at("192.0.2.2"), 2));
  const std::shared_ptr<void> copy = *one;
  one->reset();
  CHECK(!quota.take(at("192.0.2.1"), 2));
  two->reset();
  CHECK(quota.take(at("192.0.2.1"), 2));
}

TEST_CASE("0 is no limit, but counts for when there is one") {
  ConnectionQuota quota;
  std::vector<std::shared_ptr<void>> held;
  for (int i = 0; i < 100; ++i) held.push_back(quota.take(at("192.0.2.1"), 0).value());
  CHECK(!quota.take(at("192.0.2.1"), 100));
  CHECK(quota.take(at("192.0.2.1"), 101));
}

TEST_CASE("an IPv6 network of 64 bits is one address, a mapped IPv4 address is that address") {
  ConnectionQuota quota;
  const auto held = quota.take(at("2001:db8:0:1::1"), 1);
  CHECK(!quota.take(at("2001:db8:0:1:ffff:ffff:ffff:ffff"), 1));
  CHECK(quota.take(at("2001:db8:0:2::1"), 1));
  const auto four = quota.take(at("192.0.2.1"), 1);
  CHECK(!quota.take(at("::ffff:192.0.2.1"), 1));
  CHECK(quota.take(at("::ffff:192.0.2.2"), 1));
}

TEST_CASE("places outlive the count and go on any thread") {
  std::vector<std::shared_ptr<void>> held;
  {
    ConnectionQuota quota;
    for (int i = 0; i < 100; ++i) held.push_back(quota.take(at("192.0.2.1"), 0).value());
    std::thread([some = std::vector(held.begin(), held.begin() + 50)] {}).join();
    held.erase(held.begin(), held.begin() + 50);
    CHECK(quota.take(at("192.0.2.1"), 51));
    CHECK(!quota.take(at("192.0.2.1"), 50));
  }
  held.clear();
}

TEST_CASE("this machine") {
  for (const char* ours : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"}) CHECK(is_loopback(address(ours)));
  for (const char* other : {"192.0.2.1", "0.0.0.0", "::", "::2", "::ffff:192.0.2.1"})
    CHECK(!is_loopback(address(other)));
}

TEST_CASE("the network of a peer, as logs have it") {
  CHECK(network_of("192.0.2.1:1") == network_of("192.0.2.1:65535"));
  CHECK(network_of("192.0.2.1:1") == network_of("[::ffff:192.0.2.1]:9"));
  CHECK(network_of("192.0.2.1:1") != network_of("192.0.2.2:1"));
  CHECK(network_of("[2001:db8::1]:1") == network_of("[2001:db8:0:0:ffff::2]:1"));  // however short it is written
  CHECK(network_of("[2001:db8::1]:1") != network_of("[2001:db8:0:1::1]:1"));
  CHECK(network_of("[fe80::1%lo]:1") == network_of("[fe80::2%lo]:1"));
  for (const char* text : {"unix", "", ":", "[", "[]", "[::1", "here:1"}) CHECK(network_of(text) == text);
}
