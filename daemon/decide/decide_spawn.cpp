// Which session is the parent of which, and the decision of spawn.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/free_id.hpp"
#include "daemon/decide/message_channels.hpp"
#include "daemon/decide/sdk_session.hpp"
#include "daemon/decide/steps.hpp"
#include "policy/runs/entry_fields.hpp"
#include "policy/usage.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

// Tells whether `key` names the parent or one of its ancestors.
bool is_above(const AgentState& state, const Session& parent, std::string_view key) {
  return store::folded_key(parent.key()) == store::folded_key(key) || descends_from(state, parent, key);
}

std::unexpected<Problem> descends_from_itself(std::string pointer, std::string_view key) {
  return fail_at(std::move(pointer), fmt::format("{} cannot descend from itself", key));
}

std::int64_t depth_below(const Session& parent) {
  return policy::add_counted(policy::counted(json::find(*parent.entry(), "spawnDepth").value_or("0")).value_or(0), 1);
}

}  // namespace

Result<const Session*> find_parent(const AgentState& state, std::string_view spawned_by, std::string_view key,
                                   const Sees& sees, std::string pointer) {
  const auto name = json::as_string(spawned_by);
  const Session* parent = name ? state.find_key(*name) : nullptr;
  if (parent == nullptr || (sees && !sees(*parent)))
    return fail_at(std::move(pointer), fmt::format("names no session of agent {}", state.id()));
  if (is_above(state, *parent, key)) return descends_from_itself(std::move(pointer), key);
  return parent;
}

Result<std::int64_t> check_spawn(const AgentState& state, const Session& parent, const Rules& rules) {
  const std::int64_t depth = depth_below(parent);
  if (depth > rules.spawn_depth) {
    return fail_at("", fmt::format("{} is {} deep already; session.spawn.depth is {}", parent.key(), depth - 1,
                                   rules.spawn_depth));
  }
  if (state.children(parent.key()).size() >= static_cast<std::size_t>(rules.spawn_count)) {
    return fail_at(
        "", fmt::format("{} may have no more children; session.spawn.count is {}", parent.key(), rules.spawn_count));
  }
  return depth;
}

void put_parent(json::Edit& edit, const Session& parent, std::int64_t depth) {
  edit.put_string("spawnedBy", parent.key());
  edit.put_int("spawnDepth", depth);
}

Result<void> check_put_parent(const AgentState& state, const Sees& sees, const Session* there, std::string_view key,
                              const Rules& rules, json::Edit& edit) {
  const auto changed = [&](std::string_view name) -> std::optional<std::string> {
    const std::string* value = value_of(edit, name);
    if (value == nullptr || (there != nullptr && json::find(*there->entry(), name) == *value)) return {};
    return *value;
  };
  const auto spawned_by = changed("spawnedBy");
  const auto depth = changed("spawnDepth");
  if (!spawned_by && (!depth || !sees)) return {};
  const auto read_only = [](std::string pointer) { return fail_at(std::move(pointer), "is read-only"); };
  if (sees && there != nullptr) return read_only(spawned_by ? "/spawnedBy" : "/spawnDepth");
  if (!spawned_by) return read_only("/spawnDepth");
  if (!sees) {
    const std::string name = json::as_string(*spawned_by).value_or("");
    const Session* above = state.find_key(name);
    if (store::folded_key(name) == store::folded_key(key) || (above != nullptr && is_above(state, *above, key)))
      return descends_from_itself("/spawnedBy", key);
    if (above == nullptr) return {};  // imported later, or deleted
    put_parent(edit, *above, (depth ? policy::counted(*depth) : std::nullopt).value_or(depth_below(*above)));
    return {};
  }
  TRY(const auto parent, find_parent(state, *spawned_by, key, sees, "/spawnedBy"));
  TRY(const auto allowed, check_spawn(state, *parent, rules));
  if (depth && policy::counted(*depth) != allowed) return read_only("/spawnDepth");
  put_parent(edit, *parent, allowed);
  return {};
}

Result<void> inherit_policy_in_put(const AgentState& state, std::string_view key, const Context& context,
                                   json::Edit& edit) {
  const std::string* spawned_by = value_of(edit, "spawnedBy");
  if (context.sight.sets_policy || spawned_by == nullptr) return {};
  const Session* parent = state.find_key(json::as_string(*spawned_by).value_or(""));
  if (parent == nullptr || store::folded_key(parent->key()) == store::folded_key(key)) return {};
  return runs::inherit_policy(*parent->entry(), edit, false);
}

Result<Decision> decide(const AgentState& state, const SpawnSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  const Session& parent = *there;
  TRY(const auto depth, check_spawn(state, parent, *context.rules));
  const bool nested = command.below_parent || parent.key().find(":subagent:") != std::string::npos;
  const std::string key =
      fmt::format("{}:subagent:{}", nested ? parent.key() : "agent:" + state.id(), context.ids->uuid());
  if (key.size() > 512) return fail_at("", "the child's key would be longer than 512 bytes");
  json::Edit edit = command.entry;
  TRY(check_new_entry(*context.rules, state.id(), edit));
  if (!command.label.empty()) edit.put_string("label", command.label);
  if (!command.task.empty()) edit.put_string("task", command.task);
  if (command.below_parent && !parent.channel.empty() && value_of(edit, "channel") == nullptr)
    edit.put_string("channel", parent.channel);
  put_parent(edit, parent, depth);
  if (!parent.channels.empty()) edit.put("channels", json::array_of(channels_of(parent)));
  TRY(runs::inherit_policy(*parent.entry(), edit, context.sight.sets_policy));
  for (const std::string& field : context.rules->require_fields) {
    if (std::ranges::find(sdk_session_fields, field) != sdk_session_fields.end()) continue;  // the parent's own
    const auto of_parent = json::find(*parent.entry(), field);
    if (of_parent && value_of(edit, field) == nullptr) edit.put(field, std::string(*of_parent));
  }
  TRY(auto session, create_session(builder, key, fresh_session_id(state, context), std::move(edit), "spawn", "/entry",
                                   &command.entry));
  return answer_session(builder, session, 201);
}

}  // namespace sessiond::decide
