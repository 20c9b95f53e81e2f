#include "daemon/decide/message_channels.hpp"

#include <utility>

#include "daemon/decide/session.hpp"
#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

using List = std::vector<std::string>;

List channels(std::string_view entry, std::string key = "agent:main:main") {
  return channels_of(Session(std::move(key), raw(entry)));
}

// Returns the value that an edit gives to `channels` after keep_channels(); "-" if it gives none.
std::string kept(std::string_view entry, std::string_view changes, bool foreign) {
  json::Edit edit = json::read_edit(changes);
  keep_channels(Session("agent:main:main", raw(entry)), edit, foreign);
  for (const auto& [name, value] : edit.set)
    if (name == "channels") return value;
  return "-";
}

}  // namespace

TEST_CASE("the channels of a session are those that it names, else those of its origin and its last message") {
  CHECK(channels(R"({"origin":{"provider":"Discord"},"lastChannel":" slack "})") == List{"discord", "slack"});
  CHECK(channels(R"({"origin":{"provider":"slack"},"lastProvider":"slack","channel":"discord"})") == List{"slack"});
  CHECK(channels(R"({"channels":["a","B","a",7,""],"origin":{"provider":"x"}})") == List{"a", "b"});
  CHECK(channels(R"({"channels":[],"origin":{"provider":"x"}})") == List{"x"});  // none is named
  CHECK(channels(R"({"channels":"a","origin":"x","channel":"c"})") == List{"c"});
  CHECK(channels("{}", "agent:main:slack:group:c7") == List{"slack"});
  CHECK(channels("{}").empty());
}

TEST_CASE("only a session that several channels reached is hidden from the tokens of one") {
  const Session one("agent:main:main", raw(R"({"channels":["slack"],"lastChannel":"discord","channel":"slack"})"));
  CHECK(one.channels.empty());
  CHECK(one.audience() == "slack");
  const Session two("agent:main:slack:group:c7",
                    raw(R"({"ori\u0067in":{"provider":"discord"},"lastChannel":"slack"})"));
  CHECK(two.channels == "discord slack");
  CHECK(two.audience().empty());
  CHECK(is_reached_by(two, "Slack"));
  CHECK_FALSE(is_reached_by(two, "telegram"));
  CHECK_FALSE(is_reached_by(one, "slack"));
}

TEST_CASE("no edit of an entry forgets a channel") {
  constexpr std::string_view slack = R"({"origin":{"provider":"slack"},"lastChannel":"slack"})";
  CHECK(kept(slack, R"({"set":{"label":"x"}})", false) == "-");
  CHECK(kept(slack, R"({"set":{"lastChannel":"slack"}})", false) == "-");
  CHECK(kept(slack, R"({"set":{"lastChannel":"discord"}})", false) == R"(["slack"])");
  CHECK(kept(slack, R"({"set":{"channels":["a"]}})", false) == R"(["a"])");
  constexpr std::string_view both = R"({"origin":{"provider":"slack"},"lastChannel":"discord"})";
  CHECK(kept(slack, R"({"set":{"lastChannel":"discord"}})", true) == "-");  // both are told by origin and lastChannel
  CHECK(kept(both, R"({"set":{"lastChannel":"slack"}})", true) == R"(["slack","discord"])");
  CHECK(kept(both, R"({"unset":["origin"]})", true) == R"(["slack","discord"])");
  CHECK(kept(R"({"channels":["a","b"]})", R"({"unset":["channels"]})", true) == R"(["a","b"])");
  CHECK(kept(R"({"channels":["a","b"]})", R"({"set":{"channels":["c"]}})", true) == R"(["a","b","c"])");
  CHECK(kept("{}", R"({"set":{"lastChannel":"slack"}})", false) == "-");
}
