#include "daemon/auth/token_record.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "store/json/raw_json.hpp"

using namespace sessiond;
using namespace sessiond::auth;

namespace {

const std::string hash(64, 'a');

std::string file_with(const std::string& members) {
  return R"({"tokens":[{"id":"abcd1234","hash":")" + hash + R"(","role":"viewer")" + members + "}]}";
}

std::string fault_of(std::string_view text) {
  const auto records = parse_tokens(text);
  REQUIRE_FALSE(records);
  CHECK(records.error().code == Code::degraded);
  return records.error().detail;
}

}  // namespace

TEST_CASE("what is written is read again, whatever the texts hold") {
  const std::vector<TokenRecord> written{{.info = {.id = "aaaaaaaa", .role = Role::operator_}, .hash = hash_token("1")},
                                         {.info = {.id = "00000000",
                                                   .role = Role::bridge,
                                                   .agents = {"main", "b"},
                                                   .key_prefix = "agent:main:\"\\",
                                                   .channel = "slack",
                                                   .note = "line\nbreak \xC3\xA9",
                                                   .permissions = {"approve"},
                                                   .created_at = 1,
                                                   .expires_at = 2,
                                                   .last_used_at = 3},
                                          .hash = hash_token("2")}};
  const std::string text = write_tokens(written);
  CHECK(json::check(text));
  const auto read = parse_tokens(text);
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(to_json((*read)[i].info) == to_json(written[i].info));
    CHECK(same_hash((*read)[i].hash, written[i].hash));
  }
  CHECK(write_tokens(*read) == text);
}

TEST_CASE("no tokens is a file too") {
  const std::string text = write_tokens({});
  const auto read = parse_tokens(text);
  REQUIRE(read);
  CHECK(read->empty());
}

TEST_CASE("what the API shows has neither token nor hash") {
  const TokenInfo info{.id = "abcd1234", .role = Role::viewer, .created_at = 5};
  CHECK(to_json(info) == R"({"id":"abcd1234","role":"viewer","agents":[],"createdAt":5})");
}

TEST_CASE("any layout is read") {
  CHECK(parse_tokens(" \n" + file_with(R"(  , "agents" : [ "main" ] )") + "\n").value().front().info.agents ==
        std::vector<std::string>{"main"});
}

TEST_CASE("damage is named, with its place, and is never the same as empty") {
  CHECK(fault_of("").starts_with("offset 0"));
  CHECK(fault_of(std::string(100, '\0')).starts_with("offset 0"));
  const std::string good = file_with("");
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(parse_tokens(std::string_view(good).substr(0, length)));
  }
  CHECK(fault_of("[]").starts_with("/: "));
  CHECK(fault_of("{}").starts_with("/tokens: "));
  CHECK(fault_of(R"({"tokens":{}})").starts_with("/tokens: "));
  CHECK(fault_of(R"({"tokens":[],"more":1})").starts_with("/more: "));
  CHECK(fault_of(R"({"tokens":[1]})").starts_with("/tokens/0: "));
  CHECK(fault_of(R"({"tokens":[{}]})").starts_with("/tokens/0: "));
  CHECK(fault_of(file_with(R"(,"createdAt":"x")")).starts_with("/tokens/0/createdAt: "));
  CHECK(fault_of(file_with(R"(,"expiresAt":null)")).starts_with("/tokens/0/expiresAt: "));
  CHECK(fault_of(file_with(R"(,"expiresAt":-1)")).starts_with("/tokens/0/expiresAt: "));
  CHECK(fault_of(file_with(R"(,"agents":["../x"])")).starts_with("/tokens/0/agents: "));
  CHECK(fault_of(file_with(R"(,"keyPrefix":null)")).starts_with("/tokens/0/keyPrefix: "));
  // A limit of a later version, read by this one, must not become no limit.
  CHECK(fault_of(file_with(R"(,"topics":["a"])")).starts_with("/tokens/0/topics: "));
  CHECK_FALSE(parse_tokens(file_with(R"(,"role":"admin")")));  // twice
  CHECK(fault_of(R"({"tokens":[{"id":"abcd1234","hash":"00","role":"viewer"}]})").starts_with("/tokens/0/hash: "));
  CHECK(fault_of(R"({"tokens":[{"id":"ABCD1234","hash":")" + hash + R"(","role":"viewer"}]})")
            .starts_with("/tokens/0/id"));
  CHECK(fault_of(R"({"tokens":[{"id":"abcd1234","hash":")" + hash + R"(","role":"root"}]})")
            .starts_with("/tokens/0/role"));
}

TEST_CASE("two tokens of one id are damage") {
  const std::string one = R"({"id":"abcd1234","hash":")" + hash + R"(","role":"viewer"})";
  CHECK(fault_of(R"({"tokens":[)" + one + "," + one + "]}").starts_with("/tokens/1/id: "));
}
