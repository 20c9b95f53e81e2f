// What people did to messages later, as a transcript's index has it and as a view shows it.
#include "transcripts/changes.hpp"

#include <doctest/doctest.h>

#include "store/json/raw_json.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry.hpp"

using namespace sessiond;
using namespace sessiond::transcripts;

namespace {

std::string custom(std::string_view what, std::string_view more,
                   std::string_view target = R"("sessionId":"s","id":"a")") {
  return R"({"type":"custom","id":"c","parentId":"a","customType":"sessiond.)" + std::string(what) +
         R"(","data":{"target":{)" + std::string(target) + "}" + std::string(more) + "}}";
}

constexpr const char* message = R"({"type":"message","id":"a","parentId":null,"timestamp":1,)"
                                R"("message":{"role":"user","content":[{"type":"text","text":"old"}]}})";

const std::string of_s = transcript_name("s", {});

}  // namespace

TEST_CASE("changes: the newest edit, a deletion for ever, a set of reactions") {
  Changes changes;
  changes.add(custom("edit", R"(,"text":"1")"), 1);
  changes.add(custom("delete", ""), 2);
  changes.add(custom("edit", R"(,"text":"2")"), 3);
  changes.add(custom("reaction", R"(,"emoji":"+","from":"Ada")"), 4);
  changes.add(custom("reaction", R"(,"emoji":"+","from":{"id":"Ada","name":"A"})"), 5);
  changes.add(custom("reaction", R"(,"emoji":"+","from":"Bob")"), 6);
  changes.add(custom("reaction", R"(,"emoji":"+","from":"Bob","removed":true)"), 7);
  changes.add(custom("reaction", R"(,"emoji":"-","from":"Bob","removed":true)"), 8);
  for (const Changes& each : {changes, Changes::from_json(changes.to_json())}) {
    REQUIRE(each.of(of_s) != nullptr);
    const Change& change = each.of(of_s)->at("a");
    CHECK(change.edit == 3);
    CHECK(change.deleted == 2);
    CHECK(reactions_member({.reactions = change.reactions}) == R"(,"reactions":[{"emoji":"+","count":1}])");
    CHECK(each.of(transcript_name("s", "t")) == nullptr);
  }
}

TEST_CASE("changes: what only looks like one is none") {
  Changes changes;
  for (const std::string& line :
       {custom("run", ""), custom("edits", ""), custom("edit", "", R"("id":"a")"),
        custom("edit", "", R"("sessionId":"s")"), custom("edit", "", R"("sessionId":7,"id":"a")"),
        std::string(R"({"type":"custom","customType":"sessiond.edit"})"),
        std::string(R"({"type":"custom","customType":"sessiond.edit","data":7})"),
        std::string(R"({"type":"custom","customType":"sessiond.edit","data":{"target":"a"}})"),
        std::string(R"({"type":"custom","customType":7})")})
    changes.add(line, 0);
  CHECK(changes.to_json() == "{}");
}

TEST_CASE("changes: names of any bytes come back from the sidecar") {
  Changes changes;
  changes.add(custom("reaction", R"(,"emoji":"\"\\\n","from":"\u0000")", R"("sessionId":"s","topic":"\"","id":"\\")"),
              1);
  const Changes again = Changes::from_json(changes.to_json());
  REQUIRE(again.of(transcript_name("s", "\"")) != nullptr);
  CHECK(again.to_json() == changes.to_json());
}

TEST_CASE("changes: a message as people left it") {
  const ShownChange edited{.edit = R"({"text":"new"})"};
  CHECK(changed_message(R"({"role":"user","content":[{"type":"text","text":"old"},{"type":"image"}]})", edited) ==
        R"({"role":"user","content":[{"type":"text","text":"new"},{"type":"image"}],"edited":true})");
  CHECK(changed_message(R"({"role":"user","content":[{"type":"image"}]})", edited) ==
        R"({"role":"user","content":[{"type":"text","text":"new"},{"type":"image"}],"edited":true})");
  CHECK(changed_message(R"({"role":"user","text":"old"})", edited) ==
        R"({"role":"user","content":"new","edited":true})");
  const ShownChange deleted{.edit = R"({"text":"new"})", .deleted = true};
  CHECK(!changed_message(R"({"role":"user","content":"old"})", deleted));
  CHECK(changed_message(R"({"role":"assistant","content":[{"type":"text","text":"x"},)"
                        R"({"type":"toolCall","id":"c","name":"n","arguments":{}}]})",
                        deleted) ==
        R"({"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":{}}]})");
  CHECK(view_entry(message, 0, View::chat, &edited) ==
        R"({"seq":0,"id":"a","timestamp":1,"role":"user","text":"new","edited":true})");
  CHECK(view_entry(message, 0, View::chat, &deleted) ==
        R"({"seq":0,"id":"a","timestamp":1,"role":"user","deleted":true})");
}

TEST_CASE("changes: what was decided later holds behind what was there") {
  ShownChanges shown((Origins(of_s)));
  shown.add(of_s, "a", {.edit = R"({"text":"1"})", .reactions = {{"+", {{"Ada", true}}}}});
  shown.add(of_s, "a", {.edit = R"({"text":"2"})", .reactions = {{"+", {{"Ada", false}}}}});
  REQUIRE(shown.of(0, "a") != nullptr);
  CHECK(edited_text(*shown.of(0, "a")) == "2");
  CHECK(reactions_member(*shown.of(0, "a")).empty());
  shown.add(of_s, "a", {.deleted = true});
  shown.add(of_s, "a", {.edit = R"({"text":"3"})"});
  CHECK(shown.of(0, "a")->deleted);
  CHECK(shown.of(0, "b") == nullptr);
}

TEST_CASE("changes: a stored line as people left it") {
  ShownChanges shown((Origins(of_s)));
  CHECK(!changed_line(message, 0, shown));
  shown.add(of_s, "a", {.edit = R"({"target":{"sessionId":"s","id":"a"},"text":"2"})"});
  CHECK(json::find(changed_line(message, 0, shown).value_or(""), "message") ==
        R"({"role":"user","content":[{"type":"text","text":"2"}],"edited":true})");
  CHECK(!changed_line(custom("edit", R"(,"text":"2")"), 1, shown));
  CHECK(!changed_line(custom("edit", R"(,"text":"1")"), 1, shown)->contains("text"));
  shown.add(of_s, "a", {.deleted = true});
  CHECK(json::find(changed_line(message, 0, shown).value_or(""), "message") == R"({"role":"user","deleted":true})");
  CHECK(!changed_line(custom("edit", R"(,"text":"2")"), 1, shown)->contains("text"));
}

TEST_CASE("changes: a transcript tells of its own messages, and a target in another one is none of them") {
  MemoryTranscript transcript;
  transcript.add(message + std::string("\n"), 0);
  transcript.add(custom("edit", R"(,"text":"own")") + "\n", 0);
  transcript.add(custom("edit", R"(,"text":"other")", R"("sessionId":"before","id":"a")") + "\n", 0);
  const auto own = read_changes(transcript, of_s, {{.seq = 0, .line = message}});
  REQUIRE(own);
  CHECK(edited_text(*own->of(0, "a")) == "own");
  CHECK(!read_changes(transcript, of_s, {{.seq = 1, .line = custom("edit", "")}})->empty());
  CHECK(read_changes(transcript, of_s, {{.seq = 0, .line = R"({"type":"message","id":"b"})"}})->empty());
  const auto shown = read_conversation(transcript, {.name = of_s});
  REQUIRE(shown);
  CHECK(json::find(shown->after.at(0).body, "content") == R"([{"type":"text","text":"own"}])");
}
