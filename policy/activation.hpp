// Decides whether the agent should answer an inbound message (`activate` of the reply), and whether the message carries
// the introduction to a group (`systemIntro`).
#pragma once

#include <optional>
#include <string_view>

#include "store/json/raw_json.hpp"

namespace sessiond::policy {

struct ActivationInput {
  std::optional<std::string_view> group_activation{};  // of the session's entry, raw
  std::string_view chat_type{};                        // direct (or dm), group, channel
  bool mentioned = false;                              // the platform says that the agent was addressed
  bool trigger = false;                                // the text began with a reset trigger, which addresses the agent
  std::optional<bool> asked{};                         // `activate` of the request, which decides if it is set
};
// A direct message always activates. In other chats groupActivation decides (absent or unknown: mention).
bool activates(const ActivationInput& input);

// In a group or channel, the first message that activates comes with an introduction for the agent. The code that
// creates or resets such a session sets this field of its entry; the code that gives the introduction removes it in the
// same commit.
inline constexpr std::string_view intro_field = "groupActivationNeedsSystemIntro";
bool wants_intro(std::string_view chat_type);
bool owes_intro(const json::Index& entry);

}  // namespace sessiond::policy
