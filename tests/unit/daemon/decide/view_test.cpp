#include "daemon/decide/view.hpp"

#include <algorithm>
#include <array>

#include "store/delivery/delivery.hpp"
#include "store/utf8.hpp"
#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

// Writes the same as session_json, member by member and from the stored bytes each time.
std::string written_in_full(std::string_view agent, const Session& session, const SessionView& view) {
  constexpr std::array<std::string_view, 7> ours{"key",       "agent",           "rev", "sessionId", "createdAt",
                                                 "updatedAt", "previousSessions"};
  const auto wanted = [&view](std::string_view name) {
    return view.fields.empty() || std::ranges::binary_search(view.fields, name);
  };
  json::ObjectWriter writer;
  writer.string("key", session.key());
  if (wanted("agent")) writer.string("agent", agent);
  if (wanted("rev")) writer.integer("rev", static_cast<std::int64_t>(session.rev));
  if (wanted("sessionId")) writer.string("sessionId", session.session_id);
  if (wanted("createdAt")) writer.integer("createdAt", session.created_at);
  if (wanted("updatedAt")) writer.integer("updatedAt", session.updated_at);
  const std::string entry = json::apply(*session.entry(), delivery::legacy_view(json::Index(*session.entry())));
  for (const json::Member& member : json::members(entry)) {
    const std::string name = json::unescape(member.name);
    if (std::ranges::find(ours, name) != ours.end() || !wanted(name)) continue;
    if (!view.snapshots && (name == "skillsSnapshot" || name == "systemPromptReport")) continue;
    writer.raw(member.name, member.value);
  }
  return store::replace_invalid_utf8(writer.text());
}

}  // namespace

TEST_CASE("a session as the API shows it: flat, ours first") {
  const Session session("k", raw(R"({"label":"L","updatedAt":2,"sessionId":"s","rev":7,"odd":1e400,)"
                                 R"("previousSessions":[1],"key":"fake","agent":"fake","createdAt":1})"));
  CHECK(session_json("main", session) ==
        R"({"key":"k","agent":"main","rev":7,"sessionId":"s","createdAt":1,"updatedAt":2,"label":"L","odd":1e400})");
  CHECK(etag(session) == "r7");
}

TEST_CASE("an entry with nothing in it still has all that is ours") {
  CHECK(session_json("a", Session("k\"", raw("{}"))) ==
        R"({"key":"k\"","agent":"a","rev":0,"sessionId":"","createdAt":0,"updatedAt":0})");
}

TEST_CASE("counters that are not in the bytes yet are shown") {
  Session session("k", raw(R"({"messageCount":1})"));
  session.edit(edit_of(R"({"messageCount":2,"updatedAt":9})"));
  CHECK(at(session_json("a", session), "messageCount") == "2");
  CHECK(at(session_json("a", session), "updatedAt") == "9");
}

TEST_CASE("snapshots and fields") {
  const Session session("k", raw(R"({"skillsSnapshot":{"x":1},"systemPromptReport":2,"label":"L","n":null})"));
  CHECK(at(session_json("a", session), "skillsSnapshot") == R"({"x":1})");
  const std::string brief = session_json("a", session, {.snapshots = false});
  CHECK(at(brief, "skillsSnapshot") == "-");
  CHECK(at(brief, "systemPromptReport") == "-");
  CHECK(at(brief, "label") == "\"L\"");
  CHECK(session_json("a", session, {.fields = {"label", "n", "nope"}}) == R"({"key":"k","label":"L","n":null})");
  CHECK(session_json("a", session, {.fields = {"rev", "updatedAt"}}) == R"({"key":"k","rev":0,"updatedAt":0})");
  CHECK(session_json("a", session, {.snapshots = false, .fields = {"skillsSnapshot"}}) == R"({"key":"k"})");
}

TEST_CASE("legacy names are shown under the new ones") {
  const Session session("k", raw(R"({"provider":"Slack","room":"#r","lastProvider":"slack","lastTo":"u"})"));
  const std::string shown = session_json("a", session);
  CHECK(at(shown, "provider") == "-");
  CHECK(at(shown, "room") == "-");
  CHECK(at(shown, "groupChannel") == "\"#r\"");
  CHECK(at(shown, "lastChannel") == "\"slack\"");
  CHECK(at(at(shown, "deliveryContext"), "to") == "\"u\"");
  CHECK(*session.entry() == R"({"provider":"Slack","room":"#r","lastProvider":"slack","lastTo":"u"})");  // untouched
}

TEST_CASE("entries of every shape are shown as if each member were written anew") {
  const std::array<std::string_view, 24> members{R"("label":"L")",
                                                 R"("rev":7)",
                                                 R"("x":{"rev":1,"key":[{}]})",
                                                 R"("skillsSnapshot":{"a":[1]})",
                                                 R"("label":"twice")",
                                                 R"("sessionId":"s1")",
                                                 R"("r\u0065v":8)",
                                                 R"("updatedAt":5)",
                                                 R"("systemPromptReport":null)",
                                                 R"("skills\u0053napshot":2)",
                                                 R"("n":1e400)",
                                                 R"("l\u0061bel":"escaped")",
                                                 "\"bad\":\"\xC3(\"",
                                                 "\"\xFFname\":1",
                                                 R"("provider":"Slack")",
                                                 R"("":"empty name")",
                                                 R"("previousSessions":[1])",
                                                 R"("lastTo":"u")",
                                                 R"("deliveryContext":{"channel":"Slack","to":"u"})",
                                                 R"("room":"#r")",
                                                 R"("key":"fake")",
                                                 R"("agent":"fake")",
                                                 R"("createdAt":1)",
                                                 R"("messageCount":3)"};
  const std::vector<SessionView> views{{},
                                       {.snapshots = false},
                                       {.fields = {"label", "n", "rev", "skillsSnapshot"}},
                                       {.snapshots = false, .fields = {"", "bad", "lastTo", "skillsSnapshot"}}};
  std::uint32_t random = 1;
  const auto draw = [&random](std::size_t below) {
    random = random * 1664525 + 1013904223;
    return (random >> 8) % below;
  };
  for (int round = 0; round < 2000; ++round) {
    std::string entry = "{";
    for (std::size_t count = draw(9); count > 0; --count) {
      if (entry.size() > 1) entry += ',';
      entry += members[draw(members.size())];
    }
    entry += '}';
    CAPTURE(entry);
    Session session("agent:main:k\xFF", raw(entry));
    for (const bool edited : {false, true}) {
      if (edited) session.edit(edit_of(draw(2) == 0 ? R"({"messageCount":12,"updatedAt":77})" : R"({"label":"new"})"));
      for (const SessionView& view : views)
        CHECK(session_json("main", session, view) == written_in_full("main", session, view));
    }
  }
}
