#include "policy/activation.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace sessiond;
using namespace sessiond::policy;

TEST_CASE("when the agent answers") {
  struct Case {
    ActivationInput input;
    bool answers;
  };
  const std::vector<Case> cases{
      {{.entry = "{}", .chat_type = "direct"}, true},
      {{.entry = "{}", .chat_type = "DM"}, true},
      {{.entry = R"({"groupActivation":"mention"})", .chat_type = "direct"}, true},
      {{.entry = "{}", .chat_type = "group"}, false},
      {{.entry = "{}", .chat_type = "group", .mentioned = true}, true},
      {{.entry = "{}", .chat_type = "channel", .trigger = true}, true},
      {{.entry = R"({"groupActivation":"always"})", .chat_type = "channel"}, true},
      {{.entry = R"({"groupActivation":"mention"})", .chat_type = "channel"}, false},
      {{.entry = R"({"groupActivation":"ALWAYS?"})", .chat_type = "group"}, false},
      {{.entry = R"({"groupActivation":true})", .chat_type = "group"}, false},
      {{.entry = "{}", .chat_type = "room"}, false},
      {{.entry = R"({"groupActivation":"always"})", .chat_type = "group", .asked = false}, false},
      {{.entry = "{}", .chat_type = "group", .asked = true}, true},
      {{.entry = "{}", .chat_type = "direct", .asked = false}, false}};
  for (const Case& one : cases) {
    CAPTURE(one.input.entry);
    CAPTURE(one.input.chat_type);
    CHECK(activates(one.input) == one.answers);
  }
}

TEST_CASE("fault 22: an introduction is owed in groups and channels, as long as the entry says so") {
  CHECK(wants_intro("group"));
  CHECK(wants_intro(" Channel"));
  CHECK_FALSE(wants_intro("direct"));
  CHECK_FALSE(wants_intro(""));
  CHECK(owes_intro(R"({"chatType":"channel","groupActivationNeedsSystemIntro":true,"systemSent":true})"));
  CHECK_FALSE(owes_intro(R"({"chatType":"group"})"));
  CHECK_FALSE(owes_intro(R"({"chatType":"channel","groupActivationNeedsSystemIntro":false})"));
  CHECK_FALSE(owes_intro(R"({"chatType":"channel","groupActivationNeedsSystemIntro":"true"})"));
  CHECK_FALSE(owes_intro(R"({"chatType":"direct","groupActivationNeedsSystemIntro":true})"));
  CHECK_FALSE(owes_intro("{}"));
}
