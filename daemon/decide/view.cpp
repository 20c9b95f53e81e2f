#include "daemon/decide/view.hpp"

#include <algorithm>
#include <array>

#include "store/delivery/delivery.hpp"
#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"

namespace sessiond::decide {
namespace {

// Members that are shown first, from the fields that were read out, or not at all (previousSessions).
constexpr std::array<std::string_view, 7> ours{"key",       "agent",           "rev", "sessionId", "createdAt",
                                               "updatedAt", "previousSessions"};

}  // namespace

std::string etag(const Session& session) { return "r" + std::to_string(session.rev); }

std::string session_json(std::string_view agent, const Session& session, const SessionView& view) {
  const auto wanted = [&view](std::string_view name) {
    return view.fields.empty() || std::ranges::binary_search(view.fields, name);
  };
  const sessions::RawEntry& entry = session.entry();
  std::string out;
  out.reserve(entry->size() + session.key().size() + agent.size() + 160);  // our members take no more
  json::ObjectWriter writer(out);
  writer.string("key", session.key());
  if (wanted("agent")) writer.string("agent", agent);
  if (wanted("rev")) writer.integer("rev", static_cast<std::int64_t>(session.rev));
  if (wanted("sessionId")) writer.string("sessionId", session.session_id);
  if (wanted("createdAt")) writer.integer("createdAt", session.created_at);
  if (wanted("updatedAt")) writer.integer("updatedAt", session.updated_at);
  const json::Edit renamed = delivery::legacy_view(*entry);
  const std::string normalised = renamed.empty() ? std::string() : json::apply(*entry, renamed);
  for (const json::Member& member : json::members(renamed.empty() ? *entry : normalised)) {
    std::string unescaped;
    std::string_view name = member.name;
    if (name.contains('\\')) name = unescaped = json::unescape(name);
    if (std::ranges::find(ours, name) != ours.end() || !wanted(name)) continue;
    if (!view.snapshots && (name == "skillsSnapshot" || name == "systemPromptReport")) continue;
    writer.raw(member.name, member.value);
  }
  writer.close();
  // A foreign program may have written bytes that are not UTF-8. On disk they stay as they are.
  return store::invalid_utf8(out) ? store::replace_invalid_utf8(out) : out;
}

}  // namespace sessiond::decide
