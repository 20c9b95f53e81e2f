#include "daemon/decide/shown_entry.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/decide/token_counters.hpp"
#include "policy/snapshots.hpp"
#include "policy/usage.hpp"
#include "store/delivery/delivery.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {
namespace {

constexpr std::array<std::string_view, 9> not_shown{
    "key", "agent", "rev", "sessionId", "createdAt", "updatedAt", "previousSessions", "takeover", "lastMessage"};

// The text that is shown; the entry itself if nothing is to be replaced. `members` are the entry's.
sessions::RawEntry shown_text(const sessions::RawEntry& entry, const std::vector<json::Member>& members,
                              std::string_view sdk_session_id) {
  const json::Index index(members);
  json::Edit renamed = delivery::legacy_view(index);
  if (!sdk_session_id.empty() && index.find("sdkSessionId").value_or("null") == "null")
    renamed.put_string("sdkSessionId", sdk_session_id);
  // Sums that another program has spoilt are shown as the next reply counts on.
  if (const auto totals = index.find(totals_member); totals && !policy::are_totals(*totals)) {
    if (const auto read = policy::read_totals(*totals))
      renamed.put(std::string(totals_member), read->json());
    else
      renamed.remove(std::string(totals_member));
  }
  sessions::RawEntry text = entry;
  if (!renamed.empty()) text = std::make_shared<const std::string>(json::apply(*text, renamed));
  std::string held;
  if (const std::string_view sent = json::as_sent(*text, held); sent.data() != text->data())
    text = std::make_shared<const std::string>(std::move(held));
  return text;
}

// Tells what a member is; nothing if it is not shown.
enum class Part : std::uint8_t { snapshot, other };
std::optional<Part> part_of(std::string_view name) {
  if (std::ranges::find(not_shown, name) != not_shown.end()) return {};
  return policy::is_snapshot(name) ? Part::snapshot : Part::other;
}

// Calls `use` with each member that is shown: its part, its name with escapes resolved, and the member as it stands.
template <class Members, class Use>
void for_each_shown(const Members& members, Use use) {
  for (const json::Member& member : members) {
    const std::string unescaped = member.name.contains('\\') ? json::unescape(member.name) : std::string();
    const std::string_view name = unescaped.empty() ? member.name : unescaped;
    const char* const begin = member.name.data() - 1;
    if (const auto part = part_of(name)) use(*part, name, std::string_view(begin, member.value.end()));
  }
}

}  // namespace

ShownEntry::ShownEntry(const sessions::RawEntry& entry, std::string_view sdk_session_id) {
  std::vector<json::Member> members = json::all_members(*entry);
  text_ = shown_text(entry, members, sdk_session_id);
  if (text_ != entry) members = json::all_members(*text_);
  for_each_shown(members, [this](Part part, std::string_view name, std::string_view member) {
    has_paths_ = has_paths_ || name == "paths";
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
  for_each_shown(json::members(*text_), [&](Part part, std::string_view name, std::string_view member) {
    if (part == Part::snapshot && !snapshots) return;
    if (!std::ranges::binary_search(sorted_names, name)) return;
    out += ',';
    out += member;
  });
}

}  // namespace sessiond::decide
