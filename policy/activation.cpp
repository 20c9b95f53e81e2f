#include "policy/activation.hpp"

#include "store/names.hpp"
#include "store/raw_json.hpp"

namespace sessiond {

bool activates(const ActivationInput& input) {
  if (input.asked) return *input.asked;
  const std::string chat_type = lower(input.chat_type);
  if (chat_type == "direct" || chat_type == "dm") return true;
  return input.mentioned || input.trigger || json::string_at(input.entry, "groupActivation") == "always";
}

bool system_intro(std::string_view entry, bool fresh) {
  const std::string chat_type = lower(trim(json::string_at(entry, "chatType").value_or("")));
  if (chat_type != "group" && chat_type != "channel" && chat_type != "room") return false;
  if (fresh) return true;
  const auto owed = json::find(entry, "groupActivationNeedsSystemIntro");
  return owed && json::as_bool(*owed) == true;
}

}  // namespace sessiond
