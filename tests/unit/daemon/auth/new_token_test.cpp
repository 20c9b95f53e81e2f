#include "daemon/auth/new_token.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/daemon/auth/auth_fixture.hpp"

using namespace sessiond;
using namespace sessiond::auth;

namespace {

std::vector<std::string> pointers(std::string_view body) {
  const auto wish = parse_new_token(body, now);
  REQUIRE_FALSE(wish);
  REQUIRE(wish.error().code == Code::validation_failed);
  std::vector<std::string> all;
  for (const Fault& fault : wish.error().errors) all.push_back(fault.pointer);
  return all;
}

using Pointers = std::vector<std::string>;

}  // namespace

TEST_CASE("a whole wish is read") {
  const auto wish = parse_new_token(
      R"({"role":"bridge","agents":["main","codex"],"keyPrefix":"agent:main:","channel":"Slack","expiresAt":1700000000001,"note":"é"})",
      now);
  REQUIRE(wish);
  const auto info = check_new_token(*wish, now);
  REQUIRE(info);
  CHECK(info->role == Role::bridge);
  CHECK(info->agents == std::vector<std::string>{"main", "codex"});
  CHECK(info->key_prefix == "agent:main:");
  CHECK(info->channel == "slack");
  CHECK(info->note == "é");
  CHECK(info->created_at == now);
  CHECK(info->expires_at == now + 1);
}

TEST_CASE("null is absent; absent limits are none") {
  const auto wish = parse_new_token(
      R"({"role":"viewer","agents":null,"keyPrefix":null,"channel":null,"expiresAt":null,"note":null})", now);
  REQUIRE(wish);
  CHECK(wish->agents.empty());
  CHECK_FALSE(wish->expires_at);
  CHECK(principal_of(check_new_token(*wish, now).value()).sees_everything());
}

TEST_CASE("every fault, with its pointer") {
  CHECK(pointers("{}") == Pointers{"/role"});
  CHECK(pointers(R"({"role":null})") == Pointers{"/role"});
  CHECK(pointers(R"({"role":7})") == Pointers{"/role"});
  CHECK(pointers(R"({"role":"Admin"})") == Pointers{"/role"});
  CHECK(pointers(R"({"role":"admin","agents":"main"})") == Pointers{"/agents"});
  CHECK(pointers(R"({"role":"admin","agents":[1,"main","NO","../x",""]})") ==
        Pointers{"/agents/0", "/agents/2", "/agents/3", "/agents/4"});
  CHECK(pointers(R"({"role":"admin","expiresAt":1700000000000})") == Pointers{"/expiresAt"});
  CHECK(pointers(R"({"role":"admin","expiresAt":-1})") == Pointers{"/expiresAt"});
  CHECK(pointers(R"({"role":"admin","expiresAt":"tomorrow"})") == Pointers{"/expiresAt"});
  CHECK(pointers(R"({"role":"admin","expiresAt":1e400})") == Pointers{"/expiresAt"});
  CHECK(pointers(R"({"role":"admin","keyprefix":"x"})") == Pointers{"/keyprefix"});
  CHECK(pointers(R"({"role":"admin","permissions":"approve"})") == Pointers{"/permissions"});
  CHECK(pointers(R"({"role":"admin","permissions":["approve","tokens",1,"hook"]})") ==
        Pointers{"/permissions/1", "/permissions/2"});
  CHECK(pointers(R"({"role":"admin","note":1})") == Pointers{"/note"});
  CHECK(pointers(R"({"role":"admin","note":"a\u0000b"})") == Pointers{"/note"});
  CHECK(pointers(R"({"role":"x","agents":[""],"keyPrefix":1,"channel":2,"expiresAt":3,"note":4,"z":5})").size() == 7);
}

TEST_CASE("a limit that is given but empty is a fault, never no limit") {
  CHECK(pointers(R"({"role":"admin","agents":[]})") == Pointers{"/agents"});
  CHECK(pointers(R"({"role":"admin","keyPrefix":""})") == Pointers{"/keyPrefix"});
  CHECK(pointers(R"({"role":"admin","channel":""})") == Pointers{"/channel"});
  CHECK(pointers(R"({"role":"admin","channel":"  "})") == Pointers{"/channel"});
}

TEST_CASE("what is no JSON object, or says a thing twice, is a bad request") {
  for (const char* body : {"", "null", "[]", "\"admin\"", "{", R"({"role":"viewer","role":"admin"})",
                           R"({"role":"viewer","r\u006fle":"admin"})", "{\"role\":\"viewer\",\"note\":\"\xFF\"}"}) {
    CAPTURE(body);
    const auto wish = parse_new_token(body, now);
    REQUIRE_FALSE(wish);
    CHECK(wish.error().code == Code::bad_request);
  }
}

TEST_CASE("texts have an end") {
  CHECK(check_new_token({.role = "viewer", .note = std::string(512, 'x')}, now));
  CHECK_FALSE(check_new_token({.role = "viewer", .note = std::string(513, 'x')}, now));
  CHECK_FALSE(check_new_token({.role = "viewer", .key_prefix = std::string(513, 'x')}, now));
}
