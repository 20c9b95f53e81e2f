// The text that a person is shown who goes on with a session. It is for people only: no view for models has it.
#pragma once

#include <cstdint>
#include <string>

namespace sessiond::policy {

struct ResumedSession {
  std::string name{};                           // else the session id
  std::string created{}, last_active{};         // ISO 8601
  std::uint64_t of_user = 0, of_assistant = 0;  // messages
  std::string description{};                    // empty: the line is left out
  std::string first_message{};                  // the same
};
// Writes each value on one line: line breaks in it become spaces. Without a line break at the end.
std::string resume_text(const ResumedSession& session);

}  // namespace sessiond::policy
