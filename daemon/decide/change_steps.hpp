// What people did to a message, as a step of a decision that is about more.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/decide/commands.hpp"
#include "daemon/decide/early_changes.hpp"

namespace sessiond::decide {

// Takes out messages that came in and that the agent has sent itself, as their platform says now: they count as
// deleted, no run is to answer them, and an active one that answers nothing else is stopped. May set builder.out.need.
Result<void> remove_echoes(DecisionBuilder& builder, Session& session, const std::vector<MessagePlace>& places,
                           const FetchedLines& lines);

// The changes of a message that were told before it came.
struct Foretold {
  std::vector<EarlyChange> changes{};
  bool is_deleted() const;
  bool addresses() const;                           // an edit addresses the agent
  const EarlyChange* edit() const;                  // the last one; null: there is none
  bool leaves_nothing(bool has_attachments) const;  // of the message, if the edit held
};
// `message`: its names, its author and the token that brings it.
Foretold foretold(const Context& context, const AgentState& state, const EarlyChange& message);
// Tells that they hold now. The session need not be there: `about` is where the message belongs.
void take_foretold(DecisionBuilder& builder, const Foretold& told, journal::Envelope about);
// Tells that they do not hold, although the message came.
void lose_foretold(DecisionBuilder& builder, const Foretold& told);
// Appends an edit or a deletion of a message that this decision has appended, or that was there already. `topic`: whose
// transcript takes the entry. `fresh`: as for append_entries. Does nothing if the message's transcript is gone. May set
// builder.out.need.
Result<void> change_foretold(DecisionBuilder& builder, Session& session, const EarlyChange& change,
                             const MessagePlace& place, const std::optional<std::string>& topic,
                             const FetchedLines& lines, bool fresh = false);

}  // namespace sessiond::decide
