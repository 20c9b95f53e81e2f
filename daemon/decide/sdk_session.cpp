#include "daemon/decide/sdk_session.hpp"

#include <algorithm>
#include <optional>

#include "store/json/raw_json.hpp"

namespace sessiond::decide {
namespace {

// Returns the id of provider claude-cli, or of the only provider. Nothing if neither is there.
std::optional<std::string> of_providers(std::string_view ids) {
  if (json::kind(ids) != json::Kind::object) return {};
  if (const auto claude = json::find(ids, "claude-cli"); claude && *claude != "null") return json::as_string(*claude);
  std::string_view only = "null";
  int count = 0;
  for (const json::Member& member : json::members(ids)) {
    only = member.value;
    ++count;
  }
  return count == 1 ? json::as_string(only) : std::nullopt;
}

}  // namespace

bool SdkSessionId::take(std::string_view name, std::string_view value) {
  const auto field = std::ranges::find(sdk_session_fields, name);
  if (field == sdk_session_fields.end()) return false;
  values_.at(static_cast<std::size_t>(field - sdk_session_fields.begin())) = value;
  return true;
}

std::string SdkSessionId::id() const {
  const auto& [own, claude_cli, providers] = values_;
  if (own != "null") return json::as_string(own).value_or("");
  if (claude_cli != "null") return json::as_string(claude_cli).value_or("");
  return of_providers(providers).value_or("");
}

std::string sdk_session_id(std::string_view entry) {
  SdkSessionId found;
  for (const json::Member& member : json::members(entry))
    found.take(member.name.contains('\\') ? json::unescape(member.name) : std::string(member.name), member.value);
  return found.id();
}

}  // namespace sessiond::decide
