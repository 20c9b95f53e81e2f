// The commands about a person who speaks in place of the agent (policy/runs/README.md, Takeover). Each `decide` is
// pure.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/decide/run_commands.hpp"

namespace sessiond::decide {

// Answers with the takeover, the run that it has stopped, and what waits. The same person again renews it. taken_over:
// another person holds it.
struct TakeOver {
  Target target{};
  std::string name{};       // of the person; empty: that of the token
  std::int64_t for_ms = 0;  // 0: takeover.defaultMs
  bool stop = false;        // the active run, too
  bool force = false;       // another person's goes over to this one
};

// Answers with what the person has answered, what still waits, and the runs that wait for a claim then; 204 if nobody
// speaks in place of the agent. taken_over: another person does.
struct HandBack {
  enum class Answered : std::uint8_t { seen, all, none };
  enum class Reason : std::uint8_t { person, expired };
  Target target{};
  Answered answered = Answered::seen;
  std::string note{};  // for the agent
  bool force = false;
  bool dry_run = false;
  Reason reason = Reason::person;
};

Result<Decision> decide(const AgentState& state, const TakeOver& command, const Context& context);
Result<Decision> decide(const AgentState& state, const HandBack& command, const Context& context,
                        const FetchedLines& lines);

}  // namespace sessiond::decide
