#include "policy/runs/model_choice.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::runs;

TEST_CASE("the first level that names a model gives model and provider") {
  const ModelNames request{"r", "R"}, session{"s", "S"}, agent{"a", "A"}, defaults{"d", "D"};
  struct Case {
    ModelLevels levels;
    std::string_view model, provider, source;
  };
  for (const Case& one : {
           Case{{request, session, agent, defaults}, "r", "R", "run"},
           Case{{{}, session, agent, defaults}, "s", "S", "session"},
           Case{{{}, {}, agent, defaults}, "a", "A", "agent"},
           Case{{{}, {}, {}, defaults}, "d", "D", "default"},
           Case{{}, "", "", "none"},
           // a level without a provider has none
           Case{{{"r", ""}, session, agent, defaults}, "r", "", "run"},
           Case{{{}, {"s", ""}, agent, defaults}, "s", "", "session"},
           // a provider alone
           Case{{{"", "X"}, session, agent, defaults}, "s", "X", "session"},
           Case{{{"", "X"}, {}, {}, defaults}, "d", "X", "default"},
           Case{{{"", "X"}, {}, {}, {}}, "", "X", "none"},
           Case{{{}, {"", "S"}, agent, defaults}, "a", "A", "agent"},
           Case{{{}, {"", "S"}, {"", "A"}, {"", "D"}}, "", "", "none"},
       }) {
    const ModelChoice choice = choose_model(one.levels);
    CHECK(choice.names == ModelNames{std::string(one.model), std::string(one.provider)});
    CHECK(name(choice.source) == one.source);
  }
}

TEST_CASE("what an entry names") {
  const auto of = [](std::string_view entry) { return model_of_entry(json::Index(entry)); };
  CHECK(of(R"({"modelOverride":"m","providerOverride":"p","model":"x","modelProvider":"y"})") == ModelNames{"m", "p"});
  CHECK(of(R"({"model":"x"})") == ModelNames{});
  CHECK(of(R"({"modelOverride":5,"providerOverride":null})") == ModelNames{});
}
