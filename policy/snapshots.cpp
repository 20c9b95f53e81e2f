#include "policy/snapshots.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "policy/entry_objects.hpp"

namespace sessiond::policy {
namespace {

constexpr std::array<std::string_view, 6> snapshots{"systemPrompt",        "toolSchemas",    "backgroundTasks",
                                                    "backgroundJobGroups", "skillsSnapshot", "systemPromptReport"};
constexpr std::string_view handle_begin = R"({"$blob":")";

bool is_refused(std::string_view field, std::string_view value) {
  if (field != "skillsSnapshot" && field != "systemPromptReport") return false;
  if (json::kind(value) != json::Kind::object) return true;
  return field == "systemPromptReport" && !report_faults(value, "").empty();
}

}  // namespace

bool is_snapshot(std::string_view field) { return std::ranges::find(snapshots, field) != snapshots.end(); }

std::string snapshot_fields() { return fmt::format("{}", fmt::join(snapshots, ", ")); }

bool may_hold_snapshot(const json::Edit& edit) {
  return std::ranges::any_of(edit.set, [](const json::Edit::Set& member) {
    return member.value.size() > small_snapshot_bytes && is_snapshot(member.name);
  });
}

std::vector<Media> take_snapshots(json::Edit& edit, HashOf hash_of) {
  std::vector<Media> taken;
  for (json::Edit::Set& member : edit.set) {
    if (member.value.size() <= small_snapshot_bytes || !is_snapshot(member.name)) continue;
    if (is_refused(member.name, member.value)) continue;
    std::string text = json::compact(member.value);
    if (text.size() <= small_snapshot_bytes) continue;
    std::string hash = hash_of(text);
    member.value = fmt::format(R"({}{}","bytes":{}}})", handle_begin, hash, text.size());
    taken.push_back({.sha256 = std::move(hash), .bytes = std::move(text)});
  }
  return taken;
}

std::string snapshot_hash(std::string_view value) {
  if (!value.starts_with(handle_begin)) return {};
  std::string hash;
  names_in(value.substr(0, longest_name), NamedBy::entry, [&hash](std::string_view named) {
    if (hash.empty()) hash = named;
  });
  return value.substr(handle_begin.size()).starts_with(hash) ? hash : std::string();
}

std::string snapshot_tag(std::string_view value, HashOf hash_of) {
  std::string hash = snapshot_hash(value);
  return hash.empty() ? hash_of(json::compact(value)) : hash;
}

Result<void> check_snapshot(std::string_view entry, const SnapshotMatch& match) {
  if (match.tags.empty()) return {};
  const std::string_view value = json::find(entry, match.field).value_or("null");
  if (value == "null")
    return fail(Code::precondition_failed,
                fmt::format("If-Match is {}, but the session has no {}", fmt::join(match.tags, ", "), match.field));
  std::string tag = snapshot_tag(value, match.hash_of);
  if (std::ranges::any_of(match.tags, [&tag](const std::string& wanted) { return wanted == "*" || wanted == tag; }))
    return {};
  return std::unexpected(
      Problem{.code = Code::precondition_failed,
              .detail = fmt::format("If-Match is {}, {} is at {}", fmt::join(match.tags, ", "), match.field, tag),
              .etag = tag});
}

std::string with_snapshots(std::string session, const SnapshotOf& snapshot_of) {
  if (!session.contains(handle_begin)) return session;
  json::Edit edit;
  for (const json::Member& member : json::members(session)) {
    if (!is_snapshot(member.name)) continue;
    const std::string hash = snapshot_hash(member.value);
    if (hash.empty()) continue;
    if (auto shown = snapshot_of(member.value, hash)) edit.put(std::string(member.name), std::move(*shown));
  }
  return edit.empty() ? session : json::apply(session, edit);
}

std::string list_with_snapshots(std::string list, const SnapshotOf& snapshot_of) {
  if (!list.contains(handle_begin)) return list;
  std::string data = "[";
  for (const std::string_view session : json::elements(json::find(list, "data").value_or("[]"))) {
    if (data.size() > 1) data += ',';
    data += with_snapshots(std::string(session), snapshot_of);
  }
  json::Edit edit;
  edit.put("data", data + "]");
  return json::apply(list, edit);
}

}  // namespace sessiond::policy
