// The run that answers a person's message, and what it is told of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/decide/run_queue.hpp"

namespace sessiond::decide {

// The address of a conversation, to which an answer goes whatever becomes of the session's: raw JSON. `thread_id` is
// raw JSON, too; what is empty is left out.
std::string reply_address(std::string_view channel, std::string_view peer, std::string_view account_id,
                          std::string_view thread_id);

// Makes the run that answers messages of a session, or says why there is none. Returns the member `run` of the reply.
// May set builder.out.need. `runs`: as for place_input. `seq`: of the message in its transcript. While a person speaks
// in place of the agent, the message is held and there is no run.
std::string place_inbound_run(DecisionBuilder& builder, Session& session, const SessionRuns* runs,
                              const RunInput& input, std::uint64_t seq);

// A message of a session's current transcript that addressed nobody when it came, and does now.
struct LateMessage {
  MessagePlace place{};
  std::string text{};      // as it is now
  std::string reply_to{};  // raw JSON object
};
// The members of the reply, raw JSON.
struct LateActivation {
  std::string system_intro = "false";
  std::string run = "null";
  bool is_held = false;  // a person speaks in place of the agent, which does not answer
};
// Lets it activate. May set builder.out.need.
Result<LateActivation> activate_late(DecisionBuilder& builder, Session& session, const LateMessage& message);
// The reply that a further telling of the message gets then. `told`: that it got so far.
std::string told_after(const LateActivation& activation, std::string_view told);

}  // namespace sessiond::decide
