#include "config/listen_address.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sessiond;

TEST_CASE("addresses of listen.tcp") {
  CHECK(config::parse_listen_address("127.0.0.1:7433") == config::ListenAddress{"127.0.0.1", 7433, true});
  CHECK(config::parse_listen_address("127.9.9.9:1") == config::ListenAddress{"127.9.9.9", 1, true});
  CHECK(config::parse_listen_address("localhost:0") == config::ListenAddress{"127.0.0.1", 0, true});
  CHECK(config::parse_listen_address("[::1]:65535") == config::ListenAddress{"::1", 65535, true});
  CHECK(config::parse_listen_address("[::ffff:127.0.0.1]:80") == config::ListenAddress{"::ffff:127.0.0.1", 80, true});
  CHECK(config::parse_listen_address("0.0.0.0:80") == config::ListenAddress{"0.0.0.0", 80, false});
  CHECK(config::parse_listen_address("[::]:80") == config::ListenAddress{"::", 80, false});
  CHECK(config::parse_listen_address("[::ffff:10.0.0.1]:80") == config::ListenAddress{"::ffff:10.0.0.1", 80, false});
}

TEST_CASE("what is no address of listen.tcp") {
  for (const std::string text : {"",
                                 ":",
                                 ":80",
                                 "80",
                                 "127.0.0.1",
                                 "127.0.0.1:",
                                 "127.0.0.1:65536",
                                 "127.0.0.1:-1",
                                 "127.0.0.1:+1",
                                 "127.0.0.1: 80",
                                 "127.0.0.1:80 ",
                                 "127.0.0.1:8a",
                                 "127.1:80",
                                 "::1:80",
                                 "[::1]",
                                 "[::1]80",
                                 "[::1]:",
                                 "[]:80",
                                 "[127.0.0.1]:80",
                                 "[localhost]:80",
                                 "[fe80::1%eth0]:80",
                                 "example.org:80",
                                 "*:80",
                                 "http://127.0.0.1:80",
                                 "256.0.0.1:80",
                                 "0x7f.0.0.1:80"}) {
    CAPTURE(text);
    CHECK_FALSE(config::parse_listen_address(text).has_value());
  }
  CHECK_FALSE(config::parse_listen_address(std::string_view("127.0.0.1\0x:80", 14)).has_value());
}
