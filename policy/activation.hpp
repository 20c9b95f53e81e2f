// Should the agent answer what came in, and is this the message that gets the introduction (API §5 `activate`,
// `systemIntro`)?
#pragma once

#include <optional>
#include <string_view>

namespace sessiond {

struct ActivationInput {
  std::string_view entry{};      // the session's entry after this message's metadata, a JSON object
  std::string_view chat_type{};  // direct (or dm), group, channel
  bool mentioned = false;        // the platform says that the agent was addressed
  bool trigger = false;          // the text was a reset trigger: it addresses the agent
  std::optional<bool> asked{};   // `activate` of the call: the bridge knows better
};
// direct: always; everything else: groupActivation of the entry (absent or unknown: mention).
bool activates(const ActivationInput& input);

// Group sessions: true once per session. `fresh`: the session was made or reset by this command; otherwise the entry's
// groupActivationNeedsSystemIntro says it is still owed, and the caller removes that flag in the same commit.
bool system_intro(std::string_view entry, bool fresh);

}  // namespace sessiond
