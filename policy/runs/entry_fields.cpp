#include "policy/runs/entry_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>

#include "policy/pointer.hpp"
#include "policy/runs/caps.hpp"
#include "policy/runs/shell_words.hpp"
#include "store/limits.hpp"

namespace sessiond::runs {
namespace {

using policy::pointer_to;

constexpr std::array<std::string_view, 3> bound_fields{"agentRef", "agentSnapshot", "fallbackChain"};

void check_names(std::string_view array, const std::string& pointer, std::vector<Fault>& faults) {
  if (json::kind(array) != json::Kind::array) {
    faults.push_back({pointer, "must be an array of names"});
    return;
  }
  std::size_t index = 0;
  for (const std::string_view element : json::elements(array)) {
    if (faults.size() >= limits::faults) return;
    const std::size_t here = index++;
    if (json::kind(element) != json::Kind::string)
      faults.push_back({pointer_to(pointer, std::to_string(here)), "must be a string"});
  }
}

bool is_of(std::string_view raw, json::Kind kind) { return json::kind(raw) == kind; }

void check_guardrails(std::string_view guardrails, const std::string& pointer, std::vector<Fault>& faults) {
  for (const json::Member& member : json::members(guardrails)) {
    if (is_of(member.value, json::Kind::null)) continue;  // a PATCH removes it
    const std::string name = json::unescape(member.name);
    if (name == "allowedCommands") check_allowed_commands(member.value, pointer_to(pointer, name), faults);
    if (name == "approval") check_names(member.value, pointer_to(pointer, name), faults);
  }
}

void check_snapshot(std::string_view snapshot, const std::string& pointer, std::vector<Fault>& faults) {
  const auto tools = is_of(snapshot, json::Kind::object) ? json::find(snapshot, "tools") : std::nullopt;
  if (tools && !is_of(*tools, json::Kind::null)) check_names(*tools, pointer_to(pointer, "tools"), faults);
}

// The value of a field before and after an edit; nothing for absent and null.
struct Change {
  std::optional<std::string_view> before{};
  std::optional<std::string_view> after{};
  bool is_named = false;  // the edit sets or removes the field

  Change(const json::Index& entry, const json::Edit& edit, std::string_view field) : before(entry.find(field)) {
    after = before;
    for (const auto& [name, value] : edit.set) {
      if (name != field) continue;
      after = value;
      is_named = true;
    }
    if (std::ranges::find(edit.unset, field) != edit.unset.end()) {
      after.reset();
      is_named = true;
    }
    if (before == "null") before.reset();
    if (after == "null") after.reset();
  }
  bool is_change() const { return before.has_value() != after.has_value() || (before && !json::same(*before, *after)); }
};

std::set<std::string, std::less<>> names_in(std::string_view array) {
  std::set<std::string, std::less<>> names;
  for (const std::string_view element : json::elements(array))
    if (auto text = json::as_string(element)) names.insert(std::move(*text));
  return names;
}

// Adds a fault for each element of `tools` that is not in `allowed`, which `detail` tells.
void check_tools(std::string_view tools, std::string_view allowed, const std::string& pointer, const char* detail,
                 std::vector<Fault>& faults) {
  const auto names = names_in(allowed);
  std::size_t index = 0;
  for (const std::string_view element : json::elements(tools)) {
    if (faults.size() >= limits::faults) return;
    const std::size_t here = index++;
    const auto tool = json::as_string(element);
    if (!tool || !names.contains(*tool)) faults.push_back({pointer_to(pointer, std::to_string(here)), detail});
  }
}

std::unexpected<Problem> needs_policy(const std::string& what) {
  return std::unexpected(Problem{.code = Code::forbidden,
                                 .detail = what + " needs the permission policy, which this token does not have",
                                 .members = {{"permission", "\"policy\""}}});
}

bool has_active_run(const json::Index& entry) {
  const auto status = entry.string_at("status");
  return status == "running" || status == "aborting";
}

}  // namespace

std::vector<Fault> field_faults(const json::Edit& edit, std::string_view pointer_prefix) {
  std::vector<Fault> faults;
  for (const auto& [field, value] : edit.set) {
    const std::string pointer = pointer_to(pointer_prefix, field);
    if (field == "turnCap") {
      if (auto why = turn_cap_fault(value)) faults.push_back({pointer, std::move(*why)});
    } else if (field == "guardrails") {
      check_guardrails(value, pointer, faults);
    } else if (field == "agentSnapshot") {
      check_snapshot(value, pointer, faults);
    } else if (field == "tools" && is_of(value, json::Kind::array)) {
      check_names(value, pointer, faults);
    }
  }
  return faults;
}

Result<void> check_binding(std::string_view before, const json::Edit& edit, std::string_view pointer_prefix) {
  const auto is_bound = [](std::string_view field) {
    return field == "tools" || std::ranges::find(bound_fields, field) != bound_fields.end();
  };
  if (std::ranges::none_of(edit.set, is_bound, &json::Edit::Set::name) && std::ranges::none_of(edit.unset, is_bound))
    return {};
  const json::Index entry(before);
  for (const std::string_view field : bound_fields) {
    const Change change(entry, edit, field);
    if (change.before && change.is_change())
      return fail(Code::agent_bound, fmt::format("{} is set already; a session keeps its agent", field));
  }
  const Change tools(entry, edit, "tools");
  const Change snapshot(entry, edit, "agentSnapshot");
  const std::string pointer = pointer_to(pointer_prefix, "tools");
  std::vector<Fault> faults;
  if (tools.after && snapshot.after && (tools.is_named || snapshot.is_named) &&
      is_of(*snapshot.after, json::Kind::object)) {
    check_tools(*tools.after, json::find(*snapshot.after, "tools").value_or("[]"), pointer,
                "is not in agentSnapshot.tools", faults);
  }
  const bool had_tools = tools.before && is_of(*tools.before, json::Kind::array);
  if (faults.empty() && had_tools && tools.is_named && has_active_run(entry)) {
    if (!tools.after) {
      faults.push_back({pointer, "cannot be removed while a run is active"});
    } else {
      check_tools(*tools.after, *tools.before, pointer, "is not in tools, and a run is active", faults);
    }
  }
  if (!faults.empty()) return fail_with(std::move(faults));
  return {};
}

Result<void> check_keeps_policy(std::string_view before, const json::Edit& edit) {
  const json::Index entry(before);
  for (const std::string_view field : policy_fields)
    if (Change(entry, edit, field).is_change()) return needs_policy(fmt::format("changing {}", field));
  return {};
}

Result<void> inherit_policy(std::string_view parent, json::Edit& edit, bool sets_policy) {
  const json::Index above(parent);
  for (const std::string_view field : {"guardrails", "permissionMode"}) {
    const Change change(above, edit, field);
    if (!change.before) continue;
    if (change.is_named && change.after) {
      if (!sets_policy && change.is_change())
        return needs_policy(fmt::format("spawning with another {} than the parent's", field));
      continue;
    }
    std::erase(edit.unset, field);
    std::erase_if(edit.set, [field](const auto& member) { return member.name == field; });
    edit.put(std::string(field), std::string(*change.before));
  }
  return {};
}

}  // namespace sessiond::runs
