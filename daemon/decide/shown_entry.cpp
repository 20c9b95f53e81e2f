#include "daemon/decide/shown_entry.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "store/delivery/delivery.hpp"
#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"

namespace sessiond::decide {
namespace {

constexpr std::array<std::string_view, 7> not_shown{"key",       "agent",           "rev", "sessionId", "createdAt",
                                                    "updatedAt", "previousSessions"};

sessions::RawEntry shown_text(sessions::RawEntry entry, std::string_view sdk_session_id) {
  json::Edit renamed = delivery::legacy_view(*entry);
  if (!sdk_session_id.empty() && json::find(*entry, "sdkSessionId").value_or("null") == "null")
    renamed.put_string("sdkSessionId", sdk_session_id);
  if (!renamed.empty()) entry = std::make_shared<const std::string>(json::apply(*entry, renamed));
  if (store::invalid_utf8(*entry))  // a foreign program wrote them
    entry = std::make_shared<const std::string>(store::replace_invalid_utf8(*entry));
  return entry;
}

// Tells what a member is; nothing if it is not shown.
enum class Part : std::uint8_t { snapshot, other };
std::optional<Part> part_of(std::string_view name) {
  if (std::ranges::find(not_shown, name) != not_shown.end()) return {};
  return name == "skillsSnapshot" || name == "systemPromptReport" ? Part::snapshot : Part::other;
}

// Calls `use` with each member that is shown: its part, its name with escapes resolved, and the member as it stands.
template <class Use>
void for_each_shown(std::string_view object, Use use) {
  for (const json::Member& member : json::members(object)) {
    const std::string unescaped = member.name.contains('\\') ? json::unescape(member.name) : std::string();
    const std::string_view name = unescaped.empty() ? member.name : unescaped;
    const char* const begin = member.name.data() - 1;
    if (const auto part = part_of(name)) use(*part, name, std::string_view(begin, member.value.end()));
  }
}

}  // namespace

ShownEntry::ShownEntry(const sessions::RawEntry& entry, std::string_view sdk_session_id)
    : text_(shown_text(entry, sdk_session_id)) {
  for_each_shown(*text_, [this](Part part, std::string_view, std::string_view member) {
    const bool snapshot = part == Part::snapshot;
    Stretch* const last = stretches_.empty() ? nullptr : &stretches_.back();
    if (last != nullptr && last->snapshots == snapshot && last->members.end() + 1 == member.begin()) {
      last->members = {last->members.begin(), member.end()};
    } else {
      stretches_.push_back({member, snapshot});
    }
  });
  stretches_.shrink_to_fit();
}

void ShownEntry::append_all(std::string& out, bool snapshots) const {
  for (const Stretch& stretch : stretches_) {
    if (stretch.snapshots && !snapshots) continue;
    out += ',';
    out += stretch.members;
  }
}

void ShownEntry::append_named(std::string& out, const std::vector<std::string>& sorted_names, bool snapshots) const {
  for_each_shown(*text_, [&](Part part, std::string_view name, std::string_view member) {
    if (part == Part::snapshot && !snapshots) return;
    if (!std::ranges::binary_search(sorted_names, name)) return;
    out += ',';
    out += member;
  });
}

}  // namespace sessiond::decide
