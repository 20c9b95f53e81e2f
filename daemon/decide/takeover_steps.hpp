// Steps of decisions in a session in which a person speaks in place of the agent (takeover.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/decide/run_steps.hpp"
#include "store/delivery/delivery.hpp"

namespace sessiond::decide {

// Null: the agent speaks.
const Takeover* takeover_of(const AgentState& state, const Session& session);
// As SessionView has it.
std::string shown_takeover(const AgentState& state, const Session& session);
// The entry as it was before the takeover: with the sendPolicy that is set only for other programs meanwhile.
std::string entry_before_takeover(const AgentState& state, const Session& session, const std::string& entry);

// The problem of a request that is refused while a person speaks in the session.
std::unexpected<Problem> taken_over(const Session& session, const Takeover& takeover);
// Returns whether the requester writes as the person who speaks in the session: its token does, and no run.
bool speaks_in(const DecisionBuilder& builder, const Takeover& takeover);
// taken_over while a person speaks in the session, unless the active run's runner writes, and no person has superseded
// the run.
Result<void> check_agent_may_speak(const AgentState& state, const Session& session, bool under_run);

// How a person takes over.
struct TakeoverTerms {
  std::string name{};       // empty: the token's id
  std::int64_t for_ms = 0;  // 0: as before of the same person, else takeover.defaultMs
  bool force = false;
  bool by_hand = false;  // the owner of the agent's account types in the chat: no token holds it
  bool fresh = false;    // this decision has made the session's transcript
};
// Returns whether it is the same person who would take over once more.
bool is_of(const DecisionBuilder& builder, const Takeover& takeover, const TakeoverTerms& terms);
// Emits session.takeover: the person takes over, or goes on. Returns the takeover as it is then. taken_over: another
// person has it. May set builder.out.need.
Result<Takeover> take_over(DecisionBuilder& builder, Session& session, const TakeoverTerms& terms);
// Stops the active run: what it ends with is stored, and never delivered.
void supersede(DecisionBuilder& builder, Session& session);

// A message of the person, for say_as_person().
struct SaidByPerson {
  std::string reply_to{};                   // raw JSON object: where it goes
  std::optional<std::uint64_t> seen_seq{};  // the last message that the person has seen; nothing: all before
  bool fresh = false;                       // the session's transcript is of this decision, and it has no run
};
// The person says something: the run that answers at this address is stopped, and the takeover goes on. Marks `append`,
// which will append the message, as a word of the person.
void say_as_person(DecisionBuilder& builder, Session& session, const Takeover& takeover, SaidByPerson said,
                   AppendRequest& append);
// Where an answer to this address goes, as the `replyTo` of a run has it; empty: nowhere.
std::string reply_to_of(const delivery::Delivery& address);
// Where the answer of a run with this `replyTo` goes: without one it is the session's address.
std::string reply_to_in(const Session& session, const std::string& reply_to);

// A message of people waits for the person, or for the hand-back.
void hold_message(DecisionBuilder& builder, const Session& session, const HeldMessage& message);

// The person's takeover ends with the session, before the event that ends it.
void end_takeover(DecisionBuilder& builder, Session& session);
// Emits session.handback, and takes back what the takeover has changed in the entry.
void emit_handback(DecisionBuilder& builder, Session& session, const Takeover& takeover, std::string_view reason,
                   const std::vector<std::string>& answered, const std::vector<std::string>& waiting);

}  // namespace sessiond::decide
