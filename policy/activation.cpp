#include "policy/activation.hpp"

#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::policy {

bool activates(const ActivationInput& input) {
  if (input.asked) return *input.asked;
  const std::string chat_type = store::lower(input.chat_type);
  if (chat_type == "direct" || chat_type == "dm") return true;
  return input.mentioned || input.trigger ||
         (input.group_activation && json::as_string(*input.group_activation) == "always");
}

bool wants_intro(std::string_view chat_type) {
  const std::string type = store::lower(store::trim(chat_type));
  return type == "group" || type == "channel" || type == "room";
}

bool owes_intro(const json::Index& entry) {
  const auto owed = entry.find(intro_field);
  return owed && json::as_bool(*owed) == true && wants_intro(entry.string_at("chatType").value_or(""));
}

}  // namespace sessiond::policy
