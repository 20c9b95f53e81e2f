#include "policy/context/byte_limit.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "policy/media.hpp"
#include "tests/unit/policy/context/messages.hpp"

using namespace sessiond;
using namespace sessiond::context;
using namespace sessiond::testing;

namespace {

using Strings = std::vector<std::string>;

std::string image_part(std::size_t bytes) {
  return fmt::format(R"({{"type":"image","data":"{}","mimeType":"image/png"}})", std::string(bytes, 'A'));
}
std::string blob_part(std::size_t bytes) {
  return fmt::format(
      R"({{"type":"image","source":{{"type":"blob","sha256":"{}","media_type":"image/png","bytes":{}}}}})",
      std::string(64, 'a'), bytes);
}
std::string photo(std::size_t bytes, std::string_view text = "look") {
  return user_parts(text_part(text) + "," + image_part(bytes));
}
std::string pdf(std::size_t bytes) {
  return user_parts(fmt::format(R"({{"type":"file","name":"report.pdf","data":"{}"}})", std::string(bytes, 'A')));
}
std::string shot(std::string_view id, std::size_t bytes, std::string_view tool = "screen") {
  return fmt::format(R"({{"role":"toolResult","toolCallId":"{}","toolName":"{}","content":[{},{}]}})", id, tool,
                     text_part("done"), image_part(bytes));
}

// A view, and the conversation that its rows are of.
struct Shown {
  Conversation conversation;
  View view;

  Shown(Conversation of, std::int64_t most, Prune how = Prune::automatic)
      : conversation(std::move(of)), view(view_of(conversation, {.prune = how, .max_bytes = most}, {})) {}
  Shown(const Strings& messages, std::int64_t most, Prune how = Prune::automatic) : Shown(talk(messages), most, how) {}

  std::int64_t bytes() const { return view.bytes; }
  // "e1 image bytes", "e2 ls hard": of each thing that was left out.
  Strings told() const {
    Strings all;
    for (const Pruned& one : view.pruned)
      all.push_back(one.entry_id + " " + (one.media.empty() ? one.tool : std::string(one.media)) + " " + one.how);
    return all;
  }
  std::string message(std::size_t at) const { return std::string(view.rows.all[at].entry.message); }
  std::string result(std::size_t at) const { return result_text(view.rows.all[at]); }
};

}  // namespace

TEST_CASE("of a view that is too long the oldest media go first, then the oldest results") {
  const Strings messages{photo(10'000),        assistant(),        call("c1"),    result("c1", std::string(9'000, 'x')),
                         call("c2", "screen"), shot("c2", 10'000), photo(10'000), assistant(),
                         user("and now?")};
  const std::int64_t all = Shown(messages, 1 << 20).bytes();
  CHECK(all > 39'000);
  CHECK(Shown(messages, all).told() == Strings{});
  CHECK(Shown(messages, all - 1).told() == Strings{"e0 image bytes"});
  CHECK(Shown(messages, all - 15'000).told() == Strings{"e0 image bytes", "e5 image bytes"});
  CHECK(Shown(messages, all - 25'000).told() == Strings{"e0 image bytes", "e5 image bytes", "e6 image bytes"});
  const Shown view(messages, all - 31'000);
  CHECK(view.told() == Strings{"e0 image bytes", "e5 image bytes", "e6 image bytes", "e3 ls bytes"});
  CHECK(view.bytes() <= all - 31'000);
  CHECK(view.bytes() == bytes_of(view.view.rows.all));
  CHECK(
      view.message(0) ==
      R"({"role":"user","content":[{"type":"text","text":"look"},{"type":"text","text":"[Old image content cleared]"}]})");
  CHECK(view.result(3) == "[Old tool result content cleared]");
  CHECK(view.result(5) == "done[Old image content cleared]");
}

TEST_CASE("what is asked now is shown whole, however long the view is") {
  const Shown last(
      Strings{photo(10'000), assistant(), photo(20'000), call("c1"), result("c1", std::string(9'000, 'x'))}, 1);
  CHECK(last.told() == Strings{"e0 image bytes"});
  CHECK(last.bytes() > 29'000);
  // A run was handed the photo, and words came while it was at work: a turn of their own.
  Conversation conversation = talk({photo(10'000), call("c1"), result("c1"), photo(20'000), assistant(), user("hm")});
  CHECK(Shown(conversation, 1).told() == Strings{"e0 image bytes", "e3 image bytes"});
  conversation.after[0].is_asked = true;
  CHECK(Shown(conversation, 1).told() == Strings{"e3 image bytes"});
}

TEST_CASE("words of programs begin a turn behind an answer") {
  const std::string photo_of_program =
      R"({"role":"user","synthetic":true,"content":[)" + text_part("look") + "," + image_part(10'000) + "]}";
  CHECK(Shown(Strings{photo_of_program, assistant(), photo_of_program, assistant(), photo_of_program}, 1).told() ==
        Strings{"e0 image bytes", "e2 image bytes"});
  // A warning stands within the work.
  CHECK(Shown(Strings{user(), call("c1"), shot("c1", 10'000), synthetic(), call("c2"), result("c2")}, 1).told() ==
        Strings{});
  CHECK(Shown(Strings{call("c1"), shot("c1", 10'000), call("c2"), shot("c2", 10'000)}, 1).told() ==
        Strings{"e1 image bytes"});
}

TEST_CASE("words beside a result do not become a person's") {
  const std::string both = user_parts(fmt::format(R"({{"type":"tool_result","tool_use_id":"c1","content":[{}]}},{})",
                                                  image_part(5'000), text_part("hm")));
  const Strings messages{user(), calls(tool_use("c1")), both, assistant(), assistant(), user()};
  const Shown view(messages, 1'000);
  CHECK(view.told() == Strings{"e2 image bytes"});
  for (const Row& row : view.view.rows.all) CHECK(row.entry.person == (row.id == "e0" || row.id == "e5"));
}

TEST_CASE("what no model is sent does not count") {
  const std::string with_details =
      fmt::format(R"({{"role":"toolResult","toolCallId":"c1","toolName":"ls","content":[{}],"details":"{}"}})",
                  text_part("done"), std::string(50'000, 'x'));
  CHECK(Shown(Strings{user(), call("c1"), with_details}, 1).bytes() < 1'000);
}

TEST_CASE("media in each spelling") {
  for (const std::string_view part : {R"({"inlineData":{"mimeType":"image/png","data":"@"}})",
                                      R"({"inline_data":{"mime_type":"image/png","data":"@"}})",
                                      R"({"type":"input_audio","input_audio":{"data":"@","format":"wav"}})",
                                      R"({"type":"resource","resource":{"uri":"file:///a","blob":"@"}})",
                                      R"({"type":"file","file":{"filename":"a.pdf","file_data":"@"}})"}) {
    CAPTURE(part);
    std::string whole(part);
    whole.replace(whole.find('@'), 1, std::string(5'000, 'A'));
    const Shown view(Strings{user_parts(whole), assistant(), user()}, 1'000);
    REQUIRE(view.told().size() == 1);
    CHECK(view.message(0).contains(part.contains("a.pdf") ? "cleared: a.pdf]" : "content cleared]"));
  }
}

TEST_CASE("without pruning nothing is left out") {
  const Strings messages{photo(10'000), assistant(), user()};
  const Shown view(messages, 100, Prune::off);
  CHECK(view.view.pruned.empty());
  CHECK(view.bytes() > 10'000);
  for (const Prune how : {Prune::soft, Prune::hard, Prune::aggressive})
    CHECK(Shown(messages, 1'000, how).bytes() < 1'000);
}

TEST_CASE("media that are stored as blobs count as they are sent") {
  const Strings messages{user_parts(blob_part(90'000)), assistant(), user()};
  const std::int64_t all = Shown(messages, 1 << 20).bytes();
  CHECK(all > 120'000);
  CHECK(all < 121'000);
  CHECK(Shown(messages, all - 1).told() == Strings{"e0 image bytes"});
  const auto size = [](std::string_view json) { return policy::inlined_bytes(json) - json.size(); };
  CHECK(size(blob_part(90'000)) == 120'000);
  CHECK(size("[" + blob_part(90'000) + "," + blob_part(90'000) + "]") == 240'000);
  // Whatever a client has written there.
  CHECK(size(blob_part(0)) == 87'384);
  const std::string hash(64, 'a');
  CHECK(size(R"({"source":{"type":"blob","sha256":")" + hash + R"("}})") == 87'384);
  CHECK(size(R"({"source" : {"type":"blob","sha256":")" + hash + R"(","bytes":1099511627776}})") == 89'478'488);
  for (
      const std::string_view none :
      {R"("type":"blob","sha256":"x")", R"({"source":{"type":"blob","sha256":"x","bytes":99999}})",
       R"({"x":{"type":"blob","sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","bytes":99999}})"})
    CHECK(size(none) == 0);
}

TEST_CASE("files and attachments give way too, and keep their names") {
  const Shown view(Strings{pdf(10'000), assistant(), user()}, 1'000);
  CHECK(view.told() == Strings{"e0 file bytes"});
  CHECK(view.message(0).contains("[Old file content cleared: report.pdf]"));
  const std::string attached = fmt::format(
      R"({{"role":"user","content":"see","attachments":[{{"type":"image","name":"a.png","data":"{}"}},{{"type":"image","url":"https://example.org/b.png"}},7]}})",
      std::string(5'000, 'A'));
  const Shown second(Strings{attached, assistant(), user()}, 1'000);
  CHECK(
      second.message(0) ==
      R"({"role":"user","content":"see","attachments":[{"type":"image","name":"a.png","cleared":true},{"type":"image","url":"https://example.org/b.png"},7]})");
}

TEST_CASE("results within a message of a person, and spellings with input_ parts") {
  const std::string within =
      user_parts(fmt::format(R"({{"type":"tool_result","tool_use_id":"c1","content":[{},{}]}},{})", text_part("done"),
                             image_part(5'000), tool_result("c2", std::string(5'000, 'x'))));
  const Strings messages{user(), calls(tool_use("c1") + "," + tool_use("c2")), within, assistant(), user()};
  const Shown media(messages, 6'500);
  CHECK(media.told() == Strings{"e2 image bytes"});
  CHECK(media.message(2).contains(
      R"("content":[{"type":"text","text":"done"},{"type":"text","text":"[Old image content cleared]"}])"));
  CHECK(Shown(messages, 1'500).told() == Strings{"e2 image bytes", "e2 ls bytes"});
  const std::string input = user_parts(
      fmt::format(R"({{"type":"input_image","image_url":"data:image/png;base64,{}"}})", std::string(5'000, 'A')));
  CHECK(Shown(Strings{input, assistant(), user()}, 1'000).message(0).contains(R"({"type":"input_text","text":"[Old)"));
}

TEST_CASE("results of excluded tools stay, with their media") {
  const Strings messages{user(),
                         call("c1", "skill_x"),
                         shot("c1", 10'000, "skill_x"),
                         call("c2", "skill_y"),
                         result("c2", std::string(9'000, 'x'), "skill_y"),
                         assistant(),
                         user()};
  CHECK(Shown(messages, 1).told() == Strings{});
}

TEST_CASE("what is left out by bytes takes no tokens") {
  const Strings messages{photo(10'000), assistant(), user()};
  const Shown view(messages, 1'000), whole(messages, 1 << 20);
  CHECK(view.view.whole == whole.view.used);
  CHECK(view.view.used == whole.view.used - 2000 + 7);  // the notice has 27 characters
}

TEST_CASE("hard and aggressive pruning take old media, whatever room there is") {
  const Strings messages{photo(100), assistant(), assistant(), photo(100), assistant(), photo(100), assistant()};
  CHECK(Shown(messages, 1 << 20, Prune::hard).told() == Strings{"e0 image hard"});
  CHECK(Shown(messages, 1 << 20, Prune::aggressive).told() == Strings{"e0 image hard", "e3 image hard"});
  CHECK(Shown(messages, 1 << 20, Prune::soft).told() == Strings{});
  CHECK(Shown(messages, 1 << 20).told() == Strings{});
  Strings loop{photo(100)};  // one long turn: what was asked stays, screens of its work go
  for (const std::string id : {"c1", "c2", "c3"}) {
    loop.push_back(call(id, "screen"));
    loop.push_back(shot(id, 100));
  }
  const Shown view(loop, 1 << 20, Prune::aggressive);
  CHECK(view.told() == Strings{"e2 image hard", "e4 image hard"});
  CHECK(view.view.used == view.view.whole - 2 * (2000 - 7));
}
