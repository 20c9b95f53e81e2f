#include "policy/media.hpp"

#include <doctest/doctest.h>

#include "policy/signatures.hpp"
#include "store/base64.hpp"
#include "store/json/raw_json.hpp"

using namespace sessiond;

namespace {

const std::string hash(64, 'a');
std::string fake_hash(std::string_view) { return hash; }
const std::string bytes(70'000, 'x');

std::string round_trip(const std::string& json) {
  const auto without = policy::take_media(json, fake_hash);
  REQUIRE(without.media.size() == 1);
  CHECK(without.media[0].bytes == bytes);
  CHECK(json::check(without.text).has_value());
  CHECK(without.text.size() < 1000);
  CHECK(policy::names_blob(without.text, policy::NamedBy::message, hash));
  CHECK(policy::written_handles(without.text).text.empty());  // in the form that names already
  return policy::with_media(without.text, policy::MediaAs::inlined,
                            [](const std::string&) -> std::optional<std::string> { return bytes; });
}

}  // namespace

TEST_CASE("media come back to the byte, in each spelling") {
  const std::string base64 = store::to_base64(bytes);
  for (const std::string part : {R"({"type":"image","data":"@","mimeType":"image/png"})",
                                 R"({"mimeType":"image/png","data":"@","z":[1,{"a":"\"\\"}],"n":1.50e3})",
                                 R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"@"}})",
                                 R"({"type":"image_url","image_url":{"url":"data:image/png;base64,@"}})",
                                 R"({"type":"input_image","image_url":"data:image/png;base64,@"})",
                                 R"({"inlineData":{"mimeType":"image/png","data":"@"}})"}) {
    std::string json = R"({"role":"user","content":[{"type":"text","text":"t"},)" + part + "]}";
    json.replace(json.find('@'), 1, base64);
    CHECK(round_trip(json) == json);
  }
}

TEST_CASE("handles are found however a client spells them, and brought into the form that names") {
  const auto found = [](const std::string& json) { return policy::written_handles(json); };
  for (const std::string json :
       {R"({"content":[{"source":{ "sha256":"@", "type":"blob","x":1}}]})",
        R"({"content":[{"source":{"type":"bl\u006fb","type":"blob","sha256":"@"}}]})",
        R"({"a":{"$blob":"@","bytes":1}})", R"({"a":{"bytes":1,"$blob":"@"}})",
        R"({"a":"{\"type\":\"blob\",\"sha256\":\"@\"}"})", R"({"a":"{\"type\":\"blob\u0022,\"sha256\":\"@\"}"})"}) {
    std::string text = json;
    text.replace(text.find('@'), 1, hash);
    const auto handles = found(text);
    CHECK_MESSAGE(handles.found.size() == 1, text);
    if (handles.found.empty()) continue;
    CHECK(handles.found[0].sha256 == hash);
    if (!handles.text.empty()) CHECK(policy::names_blob(handles.text, policy::NamedBy::either, hash));
  }
  CHECK(found(R"({"a":{"type":"blob","sha256":"short"}})").found.empty());
  CHECK(found(R"({"a":{"type":"text","text":"a \"blob\""}})").found.empty());
}

TEST_CASE("a handle whose `was` is not to be trusted is shown as an image") {
  const std::string begin = R"({"source":{"type":"blob","sha256":")" + hash + R"(","media_type":"image/png")";
  for (const char* was : {R"(,"was":["{\"a\":\"","\"},{\"b\":1}"])", R"(,"was":["x"])", R"(,"was":5)", "",
                          R"(,"was":["{\"a\":","}"])", R"(,"was":["[\"","\"]"])"}) {
    const std::string shown =
        policy::with_media(begin + was + "}}", policy::MediaAs::inlined,
                           [](const std::string&) -> std::optional<std::string> { return "abc"; });
    CHECK(shown == R"({"type":"image","data":"YWJj","mimeType":"image/png"})");
  }
  const auto none = [](const std::string&) -> std::optional<std::string> { return {}; };
  CHECK(policy::with_media(begin + "}}", policy::MediaAs::inlined, none).contains(R"("unavailable":true)"));
}

TEST_CASE("signatures go, and arguments of tools keep theirs") {
  CHECK(
      policy::without_signatures(
          R"({"content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"}]})")
          .text == R"({"content":[{"type":"thinking","thinking":"t"}]})");
  CHECK(policy::without_signatures(R"({"name":"sign","arguments":{"signature":1},"thoughtSignature":"s"})").text ==
        R"({"name":"sign","arguments":{"signature":1}})");
  CHECK(policy::without_signatures(R"({"text":"signature\""})").text.empty());
  CHECK(policy::without_signatures(R"({"name":"sign","arguments":{"signature":1}})").text.empty());
  const auto without = policy::without_signatures(
      R"({"content":[ {"type":"thinking","signature":"s"}, {"type":"text"}],"more":{"content":[{"type":"redacted_thinking"}]}})");
  REQUIRE(without.contents.size() == 1);  // of the other one nothing is left that could be found
  CHECK(without.text.contains(without.contents[0].stored));
  CHECK(without.contents[0].stored == R"([{"type":"thinking"},{"type":"text"}])");
  CHECK(without.contents[0].sent == R"([ {"type":"thinking","signature":"s"}, {"type":"text"}])");
}
