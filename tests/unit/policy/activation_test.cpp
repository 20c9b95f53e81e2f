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
  const std::vector<Case> cases{{{.chat_type = "direct"}, true},
                                {{.chat_type = "DM"}, true},
                                {{.group_activation = R"("mention")", .chat_type = "direct"}, true},
                                {{.chat_type = "group"}, false},
                                {{.chat_type = "group", .mentioned = true}, true},
                                {{.chat_type = "channel", .trigger = true}, true},
                                {{.group_activation = R"("always")", .chat_type = "channel"}, true},
                                {{.group_activation = R"("mention")", .chat_type = "channel"}, false},
                                {{.group_activation = R"("ALWAYS?")", .chat_type = "group"}, false},
                                {{.group_activation = "true", .chat_type = "group"}, false},
                                {{.chat_type = "room"}, false},
                                {{.group_activation = R"("always")", .chat_type = "group", .asked = false}, false},
                                {{.chat_type = "group", .asked = true}, true},
                                {{.chat_type = "direct", .asked = false}, false}};
  for (const Case& one : cases) {
    CAPTURE(one.input.group_activation.value_or("-"));
    CAPTURE(one.input.chat_type);
    CHECK(activates(one.input) == one.answers);
  }
}

TEST_CASE("an introduction is owed in groups and channels, as long as the entry says so") {
  CHECK(wants_intro("group"));
  CHECK(wants_intro(" Channel"));
  CHECK_FALSE(wants_intro("direct"));
  CHECK_FALSE(wants_intro(""));
  CHECK(owes_intro(json::Index(R"({"chatType":"channel","groupActivationNeedsSystemIntro":true,"systemSent":true})")));
  CHECK_FALSE(owes_intro(json::Index(R"({"chatType":"group"})")));
  CHECK_FALSE(owes_intro(json::Index(R"({"chatType":"channel","groupActivationNeedsSystemIntro":false})")));
  CHECK_FALSE(owes_intro(json::Index(R"({"chatType":"channel","groupActivationNeedsSystemIntro":"true"})")));
  CHECK_FALSE(owes_intro(json::Index(R"({"chatType":"direct","groupActivationNeedsSystemIntro":true})")));
  CHECK_FALSE(owes_intro(json::Index("{}")));
}
