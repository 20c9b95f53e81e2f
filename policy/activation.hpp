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
  bool trigger = false;          // the text began with a reset trigger: it addresses the agent
  std::optional<bool> asked{};   // `activate` of the call: the bridge knows better
};
// direct: always; everything else: groupActivation of the entry (absent or unknown: mention).
bool activates(const ActivationInput& input);

// Sessions of groups and channels owe the agent an introduction, which goes with the first message that activates.
// Whoever makes or resets such a session sets this field of its entry; whoever gives the introduction removes it in the
// same commit.
inline constexpr std::string_view intro_field = "groupActivationNeedsSystemIntro";
bool wants_intro(std::string_view chat_type);
bool owes_intro(std::string_view entry);

}  // namespace sessiond
