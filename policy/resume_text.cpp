#include "policy/resume_text.hpp"

#include <fmt/format.h>

#include "store/utf8.hpp"

namespace sessiond::policy {
namespace {

constexpr std::size_t topic_points = 100;

std::string on_one_line(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') continue;
    out += text[at] == '\n' || text[at] == '\r' ? ' ' : text[at];
  }
  return out;
}

}  // namespace

std::string resume_text(const ResumedSession& session) {
  std::string out = fmt::format(
      "You are resuming a previous conversation session.\n"
      "Session: {}\n"
      "Created: {}\n"
      "Last activity: {}\n"
      "Total messages: {} ({} from user, {} from assistant)\n",
      on_one_line(session.name), session.created, session.last_active, session.of_user + session.of_assistant,
      session.of_user, session.of_assistant);
  if (!session.description.empty()) out += fmt::format("Description: {}\n", on_one_line(session.description));
  if (!session.first_message.empty()) {
    const std::string_view text = session.first_message;
    out += fmt::format("First topic: {}...\n", on_one_line(text.substr(0, store::code_points_end(text, topic_points))));
  }
  return out + "\nThe conversation history follows. Continue naturally from where you left off.";
}

}  // namespace sessiond::policy
