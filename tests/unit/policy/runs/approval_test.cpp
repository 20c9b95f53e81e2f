#include "policy/runs/approval.hpp"

#include <doctest/doctest.h>

using namespace sessiond::runs;

namespace {

constexpr Ruling asked{};
constexpr Ruling denied{Answer::deny, AnswerSource::guardrail};
constexpr Ruling by_guardrail{Answer::allow, AnswerSource::guardrail};
constexpr Ruling by_session{Answer::allow, AnswerSource::session};

}  // namespace

TEST_CASE("the order of answers") {
  struct Case {
    std::string_view tool, args, guardrails, allowed_tools;
    Ruling ruling;
  };
  constexpr std::string_view status = R"({"command":"git status"})";
  constexpr std::string_view push = R"({"command":"git push"})";
  constexpr std::string_view git_status = R"({"allowedCommands":["git status"]})";
  for (const Case& one : {
           // without guardrails
           Case{"bash", "{}", "", "", asked},
           Case{"bash", "{}", "{}", "[]", asked},
           Case{"bash", "{}", "", R"(["ls","bash"])", by_session},
           Case{"Bash", "{}", "", R"(["bash"])", asked},
           Case{"run_command", push, "", "", asked},
           Case{"run_command", push, "", R"(["run_command"])", by_session},
           // git_commit is always asked, unless approval says otherwise
           Case{"git_commit", "{}", "", "", asked},
           Case{"git_commit", "{}", "{}", R"(["git_commit"])", asked},
           Case{"git_commit", "{}", R"({"approval":null})", R"(["git_commit"])", asked},
           Case{"git_commit", "{}", R"({"approval":[]})", R"(["git_commit"])", by_session},
           Case{"git_commit", "{}", R"({"approval":["bash"]})", R"(["git_commit"])", by_session},
           Case{"bash", "{}", R"({"approval":["bash"]})", R"(["bash"])", asked},
           Case{"git_commit", "{}", R"({"approval":[]})", "", asked},
           // allowedCommands
           Case{"run_command", status, git_status, "", by_guardrail},
           Case{"run_command", status, git_status, R"(["run_command"])", by_session},
           Case{"run_command", push, git_status, "", denied},
           Case{"run_command", push, git_status, R"(["run_command"])", denied},
           Case{"run_command", status, R"({"allowedCommands":[]})", R"(["run_command"])", denied},
           Case{"run_command", push, R"({"allowedCommands":["git status"],"approval":["run_command"]})", "", denied},
           Case{"run_command", status, R"({"allowedCommands":["git status"],"approval":["run_command"]})",
                R"(["run_command"])", asked},
           Case{"run_command", push, R"({"allowedCommands":null})", "", asked},
           Case{"bash", push, git_status, "", asked},  // it is about run_command only
           // args.command
           Case{"run_command", "{}", git_status, "", denied},
           Case{"run_command", "", git_status, "", denied},
           Case{"run_command", "[]", git_status, "", denied},
           Case{"run_command", R"("git status")", git_status, "", denied},
           Case{"run_command", R"({"command":null})", git_status, "", denied},
           Case{"run_command", R"({"command":["git","status"]})", git_status, "", denied},
           Case{"run_command", R"({"command":""})", git_status, "", denied},
           Case{"run_command", R"({"c\u006fmmand":"git\u0020status"})", git_status, "", by_guardrail},
           Case{"run_command", R"({"command":"git status\u0000"})", git_status, "", denied},
           // of a foreign program
           Case{"run_command", status, R"({"allowedCommands":"git status"})", "", denied},
           Case{"run_command", status, R"({"allowedCommands":{"a":"git status"}})", "", denied},
           Case{"run_command", status, R"({"allowedCommands":[null,""]})", "", denied},
           Case{"bash", "{}", R"({"approval":"bash"})", R"(["bash"])", asked},
           Case{"ls", "{}", R"({"approval":{}})", R"(["ls"])", asked},
           Case{"bash", "{}", R"("strict")", R"(["bash"])", by_session},
           Case{"bash", "{}", "null", R"({"0":"bash"})", asked},
           Case{"bash", "{}", "", R"("bash")", asked},
           Case{"bash", "{}", "", R"([5,null,"bash"])", by_session},
       }) {
    CAPTURE(one.tool);
    CAPTURE(one.args);
    CAPTURE(one.guardrails);
    CAPTURE(one.allowed_tools);
    CHECK(rule_on({one.tool, one.args, one.guardrails, one.allowed_tools}) == one.ruling);
  }
}

TEST_CASE("what allow-session may add") {
  CHECK(is_always_asked("git_commit", ""));
  CHECK_FALSE(is_always_asked("bash", ""));
  CHECK_FALSE(is_always_asked("git_commit", R"({"approval":[]})"));
  CHECK(is_always_asked("bash", R"({"approval":["bash"]})"));
  CHECK(with_allowed_tool("", "bash") == R"(["bash"])");
  CHECK(with_allowed_tool("[]", "a\"b") == R"(["a\"b"])");
  CHECK(with_allowed_tool(R"(["ls"])", "bash") == R"(["ls","bash"])");
  CHECK(with_allowed_tool(R"(["ls","b\u0061sh"])", "bash") == R"(["ls","bash"])");
  CHECK(with_allowed_tool(R"([5,"ls"])", "bash") == R"(["ls","bash"])");
  CHECK(with_allowed_tool(R"("x")", "bash") == R"(["bash"])");
}

TEST_CASE("names of sources") {
  CHECK(name(AnswerSource::session) == "session");
  CHECK(name(AnswerSource::guardrail) == "guardrail");
  CHECK(name(AnswerSource::none).empty());
}
