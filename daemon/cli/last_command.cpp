#include "daemon/cli/last_command.hpp"

#include <fmt/format.h>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/table.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

Answer<std::string> ask_last(const Endpoint& daemon, const std::optional<std::string>& agent,
                             const std::optional<std::string>& client) {
  const std::string query = client ? "?client=" + in_url(*client) : "";
  return answer_of(daemon, "GET", "/v1/agents/" + in_url(agent.value_or("main")) + "/sessions/-/last" + query);
}

Answer<std::string> ask(const LastCommand& command) {
  TRY(const auto daemon, endpoint_of(command.asked));
  return ask_last(daemon, command.agent, command.client);
}

Answer<std::string> ask(const ResumeCommand& command) {
  TRY(const auto daemon, endpoint_of(command.asked));
  NamedSession session{.key = command.key.value_or(""), .agent = command.agent};
  if (!command.key) {
    TRY(const auto last, ask_last(daemon, command.agent, command.client));
    session.key = text_at(last, "key");
  }
  json::ObjectWriter body;
  if (command.client) body.string("client", *command.client);
  return answer_of(daemon, "POST", path_of(session) + "/resume", body.text());
}

Answer<std::string> ask(const ForkCommand& command) {
  TRY(const auto daemon, endpoint_of(command.asked));
  json::ObjectWriter body;
  if (command.message) body.string("messageId", *command.message);
  if (command.key) body.string("key", *command.key);
  if (command.name) body.string("name", *command.name);
  return answer_of(daemon, "POST", path_of(command.session) + "/fork", body.text());
}

// Prints the answer as JSON, or the text of its member.
template <class Command>
int print(std::string_view name, const Command& command, std::string_view member) {
  const auto answer = ask(command);
  if (!answer) return told(name, answer.error());
  if (command.asked.json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  std::string_view rest;
  const std::string text = text_at(*answer, member);
  for (rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    fmt::print("{}\n", without_controls(line));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  return 0;
}

}  // namespace

int run(const LastCommand& command) { return print("last", command, "key"); }
int run(const ResumeCommand& command) { return print("resume", command, "resumeSummary"); }
int run(const ForkCommand& command) { return print("fork", command, "key"); }

}  // namespace sessiond::cli
