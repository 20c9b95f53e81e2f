#include "daemon/decide/view.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

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
