#include "store/delivery/delivery.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

using namespace sessiond;
using namespace sessiond::delivery;

namespace {

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// The entry after a client's merge patch.
std::string patched(std::string_view entry, std::string_view patch, Nested nested = Nested::patch) {
  json::Edit edit;
  for (const json::Member& member : json::members(patch)) {
    if (json::kind(member.value) == json::Kind::null) {
      edit.remove(json::unescape(member.name));
    } else {
      edit.put(json::unescape(member.name), std::string(member.value));
    }
  }
  const auto done = normalize_patch(edit, json::Index(entry), "", nested);
  if (!done) {
    std::string faults = "faults:";
    for (const Fault& fault : done.error().errors) faults += " " + fault.pointer;
    return faults;
  }
  return json::apply(entry, edit);
}

json::Edit view_of(std::string_view entry) { return legacy_view(json::Index(entry)); }
std::string viewed(std::string_view entry) { return json::apply(entry, view_of(entry)); }

// Members as sorted "name=value", so that their order does not matter.
std::string shape(std::string_view object) {
  std::vector<std::string> all;
  for (const json::Member& member : json::members(object)) {
    const bool nested = member.name == "deliveryContext";
    all.push_back(json::unescape(member.name) + "=" + (nested ? shape(member.value) : std::string(member.value)));
  }
  std::ranges::sort(all);
  std::string out = "{";
  for (const std::string& one : all) out += one + ";";
  return out + "}";
}

constexpr std::string_view slack =
    R"({"lastChannel":"slack","lastTo":"C1","lastAccountId":"work","lastThreadId":7,)"
    R"("deliveryContext":{"channel":"slack","to":"C1","accountId":"work","threadId":7,"x":1}})";

}  // namespace

TEST_CASE("reading: last* win, nothing is borrowed from another channel") {
  struct Case {
    std::string entry;
    Delivery delivery;
  };
  const std::vector<Case> cases{
      {"{}", {}},
      {R"({"lastChannel":" Slack ","lastTo":" C1 ","lastThreadId":" 12 "})", {"slack", "C1", {}, "\"12\""}},
      {R"({"deliveryContext":{"channel":"telegram","to":"t","accountId":"a","threadId":5},"lastChannel":"slack","lastTo":"C9"})",
       {"slack", "C9", {}, {}}},
      {R"({"deliveryContext":{"channel":"Slack","to":"t","accountId":"a","threadId":5},"lastChannel":"slack","lastTo":"C9"})",
       {"slack", "C9", "a", "5"}},
      {R"({"deliveryContext":{"channel":"telegram","to":"t"},"lastTo":"l"})", {"telegram", "l", {}, {}}},
      {R"({"deliveryContext":{"to":"channel:222"},"lastChannel":"discord","lastAccountId":""})",
       {"discord", "channel:222", {}, {}}},
      {R"({"lastProvider":"telegram","lastTo":"x"})", {"telegram", "x", {}, {}}},
      {R"({"lastChannel":"a","lastProvider":"b"})", {"a", {}, {}, {}}},
      {R"({"lastChannel":null,"lastProvider":"b"})", {"b", {}, {}, {}}},
      {R"({"channel":"discord","lastTo":"x"})", {"discord", "x", {}, {}}},
      {R"({"provider":"Discord","lastTo":"x"})", {"discord", "x", {}, {}}},
      {R"({"channel":"discord"})", {}},
      {R"({"lastThreadId":1700000001.000100})", {{}, {}, {}, "1700000001.000100"}},
      {R"({"lastThreadId":12345678901234567890})", {{}, {}, {}, "12345678901234567890"}},
      {R"({"lastChannel":5,"lastTo":[],"lastAccountId":{},"lastThreadId":true,"deliveryContext":"x"})", {}},
      {R"({"deliveryContext":[1],"lastTo":"  "})", {}},
      {R"({"lastTo":"a","lastTo":"b"})", {{}, "b", {}, {}}},
      {R"({"last\u0054o":"a"})", {{}, "a", {}, {}}},
      {R"({"x":{"lastTo":"no"},"lastTo":"日本"})", {{}, "日本", {}, {}}}};
  for (const Case& one : cases) {
    CAPTURE(one.entry);
    CHECK(read_delivery(json::Index(one.entry)) == one.delivery);
  }
}

TEST_CASE("the view of legacy entries") {
  CHECK(
      shape(viewed(
          R"({"provider":"telegram","lastProvider":"telegram","lastTo":"t","deliveryContext":{"to":"t"},"z":1e400})")) ==
      shape(
          R"({"channel":"telegram","lastChannel":"telegram","lastTo":"t","deliveryContext":{"channel":"telegram","to":"t"},"z":1e400})"));
  CHECK(viewed(R"({"room":"#a","groupChannel":"#b"})") == R"({"groupChannel":"#b"})");
  CHECK(viewed(R"({"room":"#a"})") == R"({"groupChannel":"#a"})");
  CHECK(viewed(R"({"room":5})") == "{}");
  // An old name beside the new one is not ours to drop: OpenClaw shows it.
  CHECK(
      view_of(
          R"({"channel":"slack","provider":"stays","lastChannel":"x","lastProvider":"stays","deliveryContext":{"channel":"x"}})")
          .empty());
  CHECK(view_of("{}").empty());
  CHECK(view_of(slack).empty());
  CHECK(view_of(R"({"channel":"slack","chatType":"channel"})").empty());
}

TEST_CASE("the view keeps the bytes of values it does not have to change") {
  CHECK(view_of(R"({"lastTo":"cut \ud83d","deliveryContext":{"to":"cut \ud83d"}})").empty());
  CHECK(viewed(R"({"lastTo":"\ud83d","p":"\ud83d"})") ==
        R"({"lastTo":"\ud83d","p":"\ud83d","deliveryContext":{"to":"\ud83d"}})");
  CHECK(viewed(R"({"lastThreadId":1.50,"deliveryContext":{"threadId":9,"k":1E2}})") ==
        R"({"lastThreadId":1.50,"deliveryContext":{"threadId":1.50,"k":1E2}})");
}

TEST_CASE("a patch writes both forms, the form named wins") {
  struct Case {
    std::string_view entry, patch, result;
  };
  const std::vector<Case> cases{
      {"{}", R"({"lastChannel":" Slack","lastTo":"C1"})",
       R"({"lastChannel":"slack","lastTo":"C1","deliveryContext":{"channel":"slack","to":"C1"}})"},
      {"{}", R"({"deliveryContext":{"channel":"Slack","to":"C1","threadId":5}})",
       R"({"lastChannel":"slack","lastTo":"C1","lastThreadId":5,"deliveryContext":{"channel":"slack","to":"C1","threadId":5}})"},
      {slack, R"({"deliveryContext":{"to":"C2"}})",
       R"({"lastChannel":"slack","lastTo":"C2","lastAccountId":"work","lastThreadId":7,"deliveryContext":{"channel":"slack","to":"C2","accountId":"work","threadId":7,"x":1}})"},
      {slack, R"({"deliveryContext":{"threadId":null,"x":null,"y":{"a":null,"b":1}}})",
       R"({"lastChannel":"slack","lastTo":"C1","lastAccountId":"work","deliveryContext":{"channel":"slack","to":"C1","accountId":"work","y":{"b":1}}})"},
      {slack, R"({"deliveryContext":null})", "{}"},
      {slack, R"({"deliveryContext":null,"lastTo":"C3"})", R"({"lastTo":"C3","deliveryContext":{"to":"C3"}})"},
      {slack, R"({"lastThreadId":null})",
       R"({"lastChannel":"slack","lastTo":"C1","lastAccountId":"work","deliveryContext":{"channel":"slack","to":"C1","accountId":"work","x":1}})"},
      {slack, R"({"lastTo":""})",
       R"({"lastChannel":"slack","lastAccountId":"work","lastThreadId":7,"deliveryContext":{"channel":"slack","accountId":"work","threadId":7,"x":1}})"},
      // Another channel: what belonged to the old one is not borrowed.
      {slack, R"({"lastChannel":"telegram","lastTo":"t"})",
       R"({"lastChannel":"telegram","lastTo":"t","deliveryContext":{"channel":"telegram","to":"t","x":1}})"},
      {slack, R"({"deliveryContext":{"channel":"telegram"}})",
       R"({"lastChannel":"telegram","deliveryContext":{"channel":"telegram","x":1}})"},
      // Both named: last* win field by field.
      {"{}",
       R"({"deliveryContext":{"channel":"telegram","to":"telegram:1","accountId":"a1","threadId":5},"lastChannel":"slack","lastTo":"channel:C9"})",
       R"({"lastChannel":"slack","lastTo":"channel:C9","deliveryContext":{"channel":"slack","to":"channel:C9"}})"},
      {"{}",
       R"({"deliveryContext":{"channel":"IMessage ","to":" chat_guid:any ","threadId":" 12 "},"lastTo":"imessage:+1","lastThreadId":99,"channel":"imessage"})",
       R"({"channel":"imessage","lastChannel":"imessage","lastTo":"imessage:+1","lastThreadId":99,"deliveryContext":{"channel":"imessage","to":"imessage:+1","threadId":99}})"},
      {"{}", R"({"deliveryContext":{"to":"channel:222"},"lastChannel":"discord","lastAccountId":""})",
       R"({"lastChannel":"discord","lastTo":"channel:222","deliveryContext":{"channel":"discord","to":"channel:222"}})"},
      {slack, R"({"lastChannel":"slack","deliveryContext":{"channel":"telegram","to":"t"}})", slack},
      // Legacy names do not come back once the new one is written.
      {R"({"lastProvider":"slack","lastTo":"C1"})", R"({"lastChannel":null})",
       R"({"lastTo":"C1","deliveryContext":{"to":"C1"}})"},
      {R"({"provider":"slack"})", R"({"channel":null})", "{}"},
      {R"({"provider":"slack"})", R"({"channel":" Discord "})", R"({"channel":"discord"})"},
      {R"({"room":"#a"})", R"({"groupChannel":null})", "{}"},
      {R"({"channel":"slack"})", R"({"channel":"  "})", "{}"},
      // Not about delivery: untouched.
      {R"({"lastProvider":"x"})", R"({"label":"\ud83d","n":1e400})",
       R"({"lastProvider":"x","label":"\ud83d","n":1e400})"},
      {slack, R"({"deliveryContext":{}})", slack},
      {"{}", R"({"lastTo":"\ud83d x"})", R"({"lastTo":"\ud83d x","deliveryContext":{"to":"\ud83d x"}})"},
      {R"({"deliveryContext":"garbage","lastTo":5})", R"({"lastChannel":"slack"})",
       R"({"lastChannel":"slack","deliveryContext":{"channel":"slack"}})"}};
  for (const Case& one : cases) {
    CAPTURE(one.entry);
    CAPTURE(one.patch);
    const std::string result = patched(one.entry, one.patch);
    CHECK(shape(result) == shape(one.result));
    CHECK((view_of(result).empty() || one.patch.find("label") != std::string_view::npos));
  }
}

TEST_CASE("a whole new deliveryContext replaces the old one") {
  CHECK(shape(patched(slack, R"({"deliveryContext":{"channel":"slack","to":"C2"}})", Nested::complete)) ==
        shape(R"({"lastChannel":"slack","lastTo":"C2","deliveryContext":{"channel":"slack","to":"C2"}})"));
  CHECK(patched(slack, R"({"deliveryContext":{}})", Nested::complete) == "{}");
}

TEST_CASE("a patch of the wrong types names every fault") {
  CHECK(patched("{}", R"({"deliveryContext":5})") == "faults: /deliveryContext");
  CHECK(
      patched(
          "{}",
          R"({"deliveryContext":{"channel":1,"to":[],"accountId":true,"threadId":{}},"lastTo":7,"lastThreadId":false,"channel":9})") ==
      "faults: /deliveryContext/channel /deliveryContext/to /deliveryContext/accountId /deliveryContext/threadId "
      "/lastTo /lastThreadId /channel");
}

TEST_CASE("writing a delivery sets both forms and keeps what is not ours") {
  json::Edit edit;
  write_delivery(edit, json::Index(slack), {"Telegram", "t", {}, "42"});
  CHECK(
      shape(json::apply(slack, edit)) ==
      shape(
          R"({"lastChannel":"telegram","lastTo":"t","lastThreadId":42,"deliveryContext":{"channel":"telegram","to":"t","threadId":42,"x":1}})"));
  json::Edit same;
  write_delivery(same, json::Index(slack), read_delivery(json::Index(slack)));
  CHECK(same.empty());
  constexpr std::string_view lone = R"({"lastTo":"\ud83d","deliveryContext":{"to":"\ud83d"}})";
  json::Edit untouched;
  write_delivery(untouched, json::Index(lone), read_delivery(json::Index(lone)));
  CHECK(untouched.empty());
}

TEST_CASE("real stores: the view shows what loaded.json shows") {
  const std::filesystem::path root = SESSIOND_SOURCE_DIR "/../shared/data/openclaw";
  if (!std::filesystem::exists(root)) {
    MESSAGE("no stores at " << root.string() << ", nothing compared");
    return;
  }
  std::size_t seen = 0;
  for (const char* version : {"2026.1.24", "2026.2.17", "2026.4.29", "2026.6.11"}) {
    for (const std::string agent : {"main", "codex"}) {
      const std::string raw = slurp(root / version / "agents" / agent / "sessions" / "sessions.json");
      const std::string loaded = slurp(root / version / "expected" / (agent + ".loaded.json"));
      const bool forms_agree = std::string_view(version) >= "2026.4";  // older ones leave deliveryContext as it was
      for (const json::Member& member : json::members(raw)) {
        const std::string key = json::unescape(member.name);
        const auto expected = json::find(loaded, key);
        if (!expected) continue;
        ++seen;
        CAPTURE(version);
        CAPTURE(key);
        const std::string got = viewed(member.value);
        for (const char* field : {"channel", "provider", "lastChannel", "lastProvider", "room", "groupChannel",
                                  "lastTo", "lastAccountId", "lastThreadId", "deliveryContext"}) {
          if (!forms_agree && std::string_view(field) == "deliveryContext") continue;
          CAPTURE(field);
          const auto a = json::find(got, field);
          const auto b = json::find(*expected, field);
          REQUIRE(a.has_value() == b.has_value());
          if (a) CHECK(shape(*a) == shape(*b));
          if (a && json::kind(*a) != json::Kind::object) CHECK(json::compact(*a) == json::compact(*b));
        }
      }
    }
  }
  CHECK(seen > 100);
}
