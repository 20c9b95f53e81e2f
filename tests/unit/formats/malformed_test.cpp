#include <doctest/doctest.h>

#include <vector>

#include "formats/index.hpp"
#include "formats/jsonl.hpp"
#include "tests/unit/formats/sessions.hpp"

using namespace sessiond;
using namespace sessiond::testing;

namespace {

struct Malformed {
  const char* format;
  const char* text;
  const char* why;  // the detail of the problem
};

constexpr const char* role_why = ", which is none of user, assistant, system, developer, tool and toolResult";

std::string said_of(const Malformed& one) {
  if (one.format == std::string_view("index")) {
    const auto read = formats::read_index(one.text);
    return read ? "read" : read.error().detail;
  }
  if (one.format == std::string_view("jsonl")) {
    const auto read = formats::read_header(one.text);
    return read ? "read" : read.error().detail;
  }
  const auto read = try_read(one.format, one.text);
  return read ? "read" : read.error().detail;
}

const std::vector<Malformed> documents{
    {"json", "", "is not JSON at byte 0: unexpected end"},
    {"json", "{", "is not JSON at byte 1: unexpected end"},
    {"json", "[]", "must be an object"},
    {"json", "null", "must be an object"},
    {"json", "{\"a\":\"\xff\"}", "is not JSON at byte 6: not UTF-8"},
    {"json", "{}", "/metadata: is missing"},
    {"json", R"({"metadata":1})", "/metadata: must be an object"},
    {"json", R"({"metadata":{}})", "/metadata/id: is missing"},
    {"json", R"({"metadata":{"id":null}})", "/metadata/id: is missing"},
    {"json", R"({"metadata":{"id":7}})", "/metadata/id: must be a string"},
    {"json", R"({"metadata":{"id":"a"}})", "/messages: is missing"},
    {"json", R"({"metadata":{"id":"a"},"messages":{}})", "/messages: must be an array"},
    {"json", R"({"metadata":{"id":"a"},"messages":[1]})", "/messages/0: must be an object"},
    {"json", R"({"metadata":{"id":"a"},"messages":[{}]})", "/messages/0/role: is missing"},
    {"json", R"({"metadata":{"id":"a"},"messages":[{"role":"user","content":""},{"role":"bot"}]})",
     "/messages/1/role: is \"bot\"*"},
    {"json", R"({"metadata":{"id":"a"},"messages":[{"role":1}]})", "/messages/0/role: is 1*"},
    {"json", R"({"metadata":{"id":"a"},"messages":[{"role":"user","content":5}]})",
     "/messages/0/content: must be a string or an array of objects"},
    {"json", R"({"metadata":{"id":"a"},"messages":[{"role":"user","content":null}]})",
     "/messages/0/content: must be a string or an array of objects"},
    {"json", R"({"metadata":{"id":"a"},"messages":[{"role":"user","content":["x"]}]})",
     "/messages/0/content/0: must be an object"},
    {"json", R"({"metadata":{"id":"a"},"messages":[{"role":"user","content":"","timestamp":"yesterday"}]})",
     "/messages/0/timestamp: must be an ISO 8601 time, up to the year 9999"},
    {"json", R"({"metadata":{"id":"a"},"messages":[{"role":"user","content":"","timestamp":-1}]})",
     "/messages/0/timestamp: must be an ISO 8601 time, up to the year 9999"},
    {"json", R"({"metadata":{"id":"a","name":1},"messages":[]})", "/metadata/name: must be a string"},
    {"json", R"({"metadata":{"id":"a","description":[]},"messages":[]})", "/metadata/description: must be a string"},
    {"json", R"({"metadata":{"id":"a","provider":{}},"messages":[]})", "/metadata/provider: must be a string"},
    {"json", R"({"metadata":{"id":"a","model":true},"messages":[]})", "/metadata/model: must be a string"},
    {"json", R"({"metadata":{"id":"a","firstMessage":0},"messages":[]})", "/metadata/firstMessage: must be a string"},
    {"json", R"({"metadata":{"id":"a","createdAt":"x"},"messages":[]})",
     "/metadata/createdAt: must be an ISO 8601 time, up to the year 9999"},
    {"json", R"({"metadata":{"id":"a","lastActivityAt":[]},"messages":[]})",
     "/metadata/lastActivityAt: must be an ISO 8601 time, up to the year 9999"},
    {"json", R"({"metadata":{"id":"a"},"messages":[],"contextSummary":1})", "/contextSummary: must be a string"},
    {"json", R"({"metadata":{"id":"a"},"messages":[]} {})", "is not JSON at byte 38*"},
    {"robota", "{}", "/id: is missing"},
    {"robota", R"({"id":"a"})", "/messages: is missing"},
    {"robota", R"({"id":"a","cwd":1,"messages":[]})", "/cwd: must be a string"},
    {"robota", R"({"id":"a","name":1,"messages":[]})", "/name: must be a string"},
    {"robota", R"({"id":"a","createdAt":"1","messages":[]})",
     "/createdAt: must be an ISO 8601 time, up to the year 9999"},
    {"robota", R"({"id":"a","updatedAt":{},"messages":[]})",
     "/updatedAt: must be an ISO 8601 time, up to the year 9999"},
    {"robota", R"({"id":"a","messages":[],"history":{}})", "/history: must be an array"},
    {"robota", R"({"id":"a","messages":[{"role":"user","content":{}}]})",
     "/messages/0/content: must be a string or an array of objects"},
    {"manager", R"({"messages":[]})", "/id: is missing"},
    {"manager", R"({"id":"a","workerId":1,"messages":[]})", "/workerId: must be a string"},
    {"manager", R"({"id":"a","workspaceId":1,"messages":[]})", "/workspaceId: must be a string"},
    {"manager", R"({"id":"a","messages":[{"role":"user","text":1}]})", "/messages/0/text: must be a string"},
    {"manager", R"({"id":"a","messages":[{"role":"user","files":{}}]})", "/messages/0/files: must be an array"},
    {"manager", R"({"id":"a","messages":[{"role":"user","files":[1,2,3,4,5,6,7,8,9,10,11]}]})",
     "/messages/0: has 11 files, at most 10 are taken"},
    {"manager", R"({"id":"a","messages":[{"role":"user","toolCalls":[1]}]})",
     "/messages/0/toolCalls/0: must be an object"},
    {"manager", R"({"id":"a","messages":[{"role":"user","usage":1}]})", "/messages/0/usage: must be an object"},
    {"manager", R"({"id":"a","messages":[{"role":"user","timestamp":"x"}]})",
     "/messages/0/timestamp: must be an ISO 8601 time, up to the year 9999"},
    {"index", R"({"version":"2.0","sessions":{}})", "/version: is 2.0, and only 1.0 is read"},
    {"index", R"({"version":1,"sessions":{}})", "/version: must be a string"},
    {"index", R"({"version":"1.0"})", "/sessions: is missing"},
    {"index", R"({"version":"1.0","sessions":[]})", "/sessions: must be an object"},
    {"index", R"({"sessions":{"a/b":1}})", "/sessions/a~1b: must be an object"},
    {"index", R"({"sessions":{"a":{"name":1}}})", "/sessions/a/name: must be a string"},
    {"index", R"({"sessions":{"a":{"description":1}}})", "/sessions/a/description: must be a string"},
    {"jsonl", R"({"type":"session"})", "/id: is missing"},
    {"jsonl", R"({"type":"session","id":"a","sessiond":1})", "/sessiond: must be an object"},
    {"jsonl", R"({"type":"session","id":"a","sessiond":{"key":1}})", "/sessiond/key: must be a string"},
    {"jsonl", R"({"type":"session","id":"a","sessiond":{"entry":1}})", "/sessiond/entry: must be an object"},
};

}  // namespace

TEST_CASE("a malformed document is refused, and the place is named") {
  CHECK(documents.size() >= 50);
  for (const Malformed& one : documents) {
    INFO(one.format << " " << one.text);
    const std::string said = said_of(one);
    const std::string_view why = one.why;
    if (why.ends_with('*')) {
      CHECK(said.substr(0, why.size() - 1) == why.substr(0, why.size() - 1));
      if (why.contains("/role")) CHECK(said.ends_with(role_why));
    } else {
      CHECK(said == why);
    }
  }
}

TEST_CASE("an id that cannot be a session's is refused") {
  for (const char* id : {"../x", "", "a b", "con", "index", "main", "a..b", "x-topic"}) {
    INFO(id);
    const auto read = try_read("json", fmt::format(R"({{"metadata":{{"id":"{}"}},"messages":[]}})", id));
    REQUIRE_FALSE(read);
    CHECK(read.error().errors.front().pointer == "/metadata/id");
  }
}
