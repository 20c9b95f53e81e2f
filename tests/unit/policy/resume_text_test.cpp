#include "policy/resume_text.hpp"

#include <doctest/doctest.h>

namespace sessiond::policy {
namespace {

const ResumedSession sample{.name = "my-session",
                            .created = "2025-01-04T14:32:15.000Z",
                            .last_active = "2025-01-04T15:45:30.000Z",
                            .of_user = 12,
                            .of_assistant = 12,
                            .description = "Working on authentication feature",
                            .first_message = "Help me implement JWT authentication"};

TEST_CASE("the text that a person is shown who goes on with a session") {
  CHECK(resume_text(sample) == R"(You are resuming a previous conversation session.
Session: my-session
Created: 2025-01-04T14:32:15.000Z
Last activity: 2025-01-04T15:45:30.000Z
Total messages: 24 (12 from user, 12 from assistant)
Description: Working on authentication feature
First topic: Help me implement JWT authentication...

The conversation history follows. Continue naturally from where you left off.)");
}

TEST_CASE("lines without a value are left out, and each value has one line of 100 characters at most") {
  ResumedSession session = sample;
  session.description.clear();
  session.first_message.clear();
  const std::string text = resume_text(session);
  CHECK_FALSE(text.contains("Description"));
  CHECK_FALSE(text.contains("First topic"));
  CHECK(text.contains("from assistant)\n\nThe conversation"));
  session.name = "a\r\nb\nc\rd";
  session.first_message.clear();
  for (int n = 0; n < 101; ++n) session.first_message += "é";
  const std::string other = resume_text(session);
  CHECK(other.contains("Session: a b c d\n"));
  CHECK(other.contains("First topic: " + session.first_message.substr(0, 200) + "...\n"));
}

}  // namespace
}  // namespace sessiond::policy
