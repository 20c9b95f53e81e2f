#include "policy/context/window.hpp"

#include "store/json/raw_json.hpp"

namespace sessiond::context {

Window window_of(std::string_view entry, const Settings& settings, std::optional<std::int64_t> asked) {
  if (asked) return {.tokens = *asked, .source = "query"};
  return window_of(json::int_at(entry, "contextTokens").value_or(0), entry, settings);
}

Window window_of(std::int64_t own, std::string_view entry, const Settings& settings) {
  if (own > 0) return {.tokens = own, .source = "entry"};
  if (!settings.windows.empty())
    if (const auto model = settings.windows.find(json::string_at(entry, "model").value_or(""));
        model != settings.windows.end())
      return {.tokens = model->second, .source = "model"};
  return {.tokens = settings.window, .source = "config"};
}

bool is_exceeded(std::string_view entry, std::string_view transcript) {
  return json::string_at(entry, "contextExceeded") == transcript;
}

bool is_name(std::string_view value) {
  constexpr std::size_t longest = 256;
  return value.starts_with('"') && value.size() > 2 && value.size() <= longest;
}

bool tells_model(const Entry& reply) {
  if (reply.role != Role::assistant || !is_name(reply.model)) return false;
  return !reply.usage || reply.usage->sum() > 0 || reply.usage->total > 0;
}

}  // namespace sessiond::context
