#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "config/read.hpp"

using namespace sessiond;
using namespace sessiond::config;

namespace {

using Pointers = std::vector<std::string>;

Pointers pointers_of(std::string_view text) {
  Pointers pointers;
  const auto config = parse_config(text);
  if (!config)
    for (const ConfigFault& fault : config.error()) pointers.push_back(fault.pointer);
  return pointers;
}

}  // namespace

TEST_CASE("listening beyond this machine without TLS must be meant") {
  const auto open = parse_config(R"({"listen":{"tcp":["127.0.0.1:1","0.0.0.0:7433"]}})");
  REQUIRE_FALSE(open.has_value());
  REQUIRE(open.error().size() == 1);
  CHECK(open.error()[0].pointer == "/listen/tcp");
  CHECK(open.error()[0].detail.starts_with("0.0.0.0:7433 can be reached from other machines"));
  CHECK(open.error()[0].detail.find("/listen/insecure") != std::string::npos);
  CHECK(pointers_of(R"({"listen":{"tcp":"[::]:7433"}})") == Pointers{"/listen/tcp"});
  CHECK(pointers_of(R"({"listen":{"tcp":"[::]:7433","insecure":true}})").empty());
  CHECK(pointers_of(R"({"listen":{"tcp":["127.0.0.2:7433","[::1]:7433","localhost:1"]}})").empty());
}

TEST_CASE("listening nowhere, or twice at one place") {
  CHECK(pointers_of(R"({"listen":{"tcp":[],"unix":null}})") == Pointers{"/listen"});
  CHECK(pointers_of(R"({"listen":{"tcp":[]}})").empty());
  CHECK(pointers_of(R"({"listen":{"unix":null}})").empty());
  CHECK(pointers_of(R"({"listen":{"tcp":["127.0.0.1:1","localhost:1"]}})") == Pointers{"/listen/tcp"});
  CHECK(pointers_of(R"({"listen":{"tcp":["127.0.0.1:0","localhost:0"]}})").empty());  // any two free ports
}

TEST_CASE("sizes and times that contradict each other") {
  CHECK(pointers_of(R"({"journal":{"segmentBytes":200000,"maxBytes":199999}})") == Pointers{"/journal/maxBytes"});
  CHECK(pointers_of(R"({"journal":{"segmentBytes":200000,"maxBytes":200000}})").empty());
  CHECK(pointers_of(R"({"journal":{"maxBytes":100000}})") == Pointers{"/journal/maxBytes"});  // against the default
  CHECK(pointers_of(R"({"limits":{"headerBytes":4096}})") == Pointers{"/limits/targetBytes"});
  CHECK(pointers_of(R"({"store":{"lock":{"timeoutMs":24}}})") == Pointers{"/store/lock/pollIntervalMs"});
  CHECK(pointers_of(R"({"store":{"lock":{"pollIntervalMs":2000,"staleMs":1999}}})") ==
        Pointers{"/store/lock/pollIntervalMs"});
}

TEST_CASE("a heartbeat that is longer than the stall timeout is refused") {
  CHECK(pointers_of(R"({"stream":{"heartbeatMs":30000,"stallTimeoutMs":20000}})") == Pointers{"/stream/heartbeatMs"});
  CHECK(pointers_of(R"({"stream":{"heartbeatMs":20000,"stallTimeoutMs":20000}})").empty());
  CHECK(pointers_of(R"({"stream":{"stallTimeoutMs":1000}})").empty());  // the default heartbeat is nobody's wish
}

TEST_CASE("a key that is wrong in itself starts no second complaint") {
  CHECK(pointers_of(R"({"journal":{"segmentBytes":"x","maxBytes":100000}})") == Pointers{"/journal/segmentBytes"});
  CHECK(pointers_of(R"({"limits":{"headerBytes":1,"targetBytes":20000}})") == Pointers{"/limits/headerBytes"});
  CHECK(pointers_of(R"({"listen":{"tcp":"0.0.0.0:1","insecure":"yes"}})") == Pointers{"/listen/insecure"});
  CHECK(pointers_of(R"({"listen":{"tcp":["0.0.0.0:1",5]}})") == Pointers{"/listen/tcp/1"});
  // but contradictions elsewhere are found all the same
  CHECK(pointers_of(R"({"x":1,"journal":{"maxBytes":100000},"listen":{"tcp":"0.0.0.0:1"}})") ==
        Pointers{"/x", "/listen/tcp", "/journal/maxBytes"});
}
