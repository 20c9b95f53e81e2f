// Texts in formats that no reader knows: they are answered with the formats that exist.
#include "formats/known.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "formats/documents.hpp"

using namespace sessiond;

namespace {

constexpr const char* open_webui =
    R"([{"id":"c1","user_id":"u","title":"t","chat":{"title":"t","models":["m"],"history":{"messages":{},"currentId":"x"},"messages":[{"id":"x","role":"user","content":"hi"}]},"updated_at":1,"created_at":1,"archived":false,"meta":{}}])";
constexpr const char* librechat =
    R"({"conversationId":"c1","endpoint":"openAI","title":"t","exportAt":"10:00:00","branches":true,"recursive":false,"options":{"model":"m"},"messages":[{"messageId":"x","sender":"User","text":"hi","isCreatedByUser":true}]})";
constexpr const char* chatgpt =
    R"([{"title":"t","create_time":1.5,"update_time":2.5,"mapping":{"x":{"id":"x","message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["hi"]}},"parent":null,"children":[]}},"current_node":"x","conversation_id":"c1"}])";

}  // namespace

TEST_CASE("files of Open WebUI, LibreChat and ChatGPT are in no format that is known") {
  for (const char* text : {open_webui, librechat, chatgpt, "PK\x03\x04", "", "hello", R"({"a":1})", "[]", "null",
                           R"({"metadata":{"powered_by":"x"},"messages":[]})"})
    CHECK(!formats::format_of(text));
}

TEST_CASE("a text in a known format is recognised") {
  CHECK(formats::format_of(R"({"metadata":{"id":"a"},"messages":[]})") == "json");
  CHECK(formats::format_of("\xEF\xBB\xBF{\"metadata\":{\"id\":\"a\"}}\n{\"metadata\":{\"id\":\"b\"}}\n") == "json");
  CHECK(formats::format_of(R"({"id":"a","messages":[],"history":[]})") == "robota");
  CHECK(formats::format_of(R"({"id":"a","workerId":"w","messages":[]})") == "manager");
  CHECK(formats::format_of(R"({"version":"1.0","sessions":{}})") == "index");
  CHECK(formats::format_of("{\"type\":\"session\",\"id\":\"a\"}\n{\"type\":\"message\"}\n") == "jsonl");
  CHECK(formats::format_of("{\"metadata\":") == "json");  // torn: the reader says where
  CHECK(formats::format_of("\xFF\xFE{") == "json");       // UTF-16: the reader says so
}

TEST_CASE("each format that has a reader is among the known ones, and the answer names all") {
  const std::string answer = formats::not_known();
  CHECK(answer ==
        "not a known format; known are json, robota, manager, jsonl and index, and with `sessiond import --from` "
        "claude-code, codex, opencode, openclaw and goose");
  for (const formats::DocumentFormat& format : formats::document_formats)
    CHECK((std::ranges::find(formats::body_formats, format.name) != formats::body_formats.end()) ==
          (format.read != nullptr));
}

TEST_CASE("the problem of a document says which formats there are only if it is in none") {
  const Problem missing = fail_at("/metadata", "is missing").error();
  const Problem named = formats::naming_known(missing, librechat);
  CHECK(named.detail == "/metadata: is missing (" + formats::not_known() + ")");
  CHECK(named.errors.front().pointer == "/metadata");
  CHECK(named.errors.front().detail == "is missing (" + formats::not_known() + ")");
  for (const char* text : {R"({"id":"a","messages":[]})", "{\"metadata\":{\"id\":\"a\"", "{"})
    CHECK(formats::naming_known(missing, text).detail == missing.detail);
}
