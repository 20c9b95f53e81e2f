#include "daemon/decide/key_policies.hpp"

#include <algorithm>
#include <utility>

#include "policy/runs/entry_fields.hpp"
#include "store/names.hpp"

namespace sessiond::decide {
namespace {

KeyPolicies::Policy policy_in(std::string_view entry) {
  KeyPolicies::Policy policy;
  const json::Index members(entry);
  for (const std::string_view field : runs::policy_fields)
    if (const auto value = members.find(field); value && *value != "null") policy.emplace(field, json::compact(*value));
  return policy;
}

// Returns the spelling of a key that all its spellings share.
std::string name_of(std::string_view agent, std::string_view key) {
  return store::folded_key(store::canonical_key(key, agent).value_or(std::string(key)));
}

bool changes_entries(journal::EventType type) {
  using journal::EventType;
  return type == EventType::session_updated || type == EventType::session_reset || type == EventType::context_cleared;
}

bool is_policy_field(std::string_view name) {
  return std::ranges::find(runs::policy_fields, name) != runs::policy_fields.end();
}

bool names_policy(const json::Edit& edit) {
  return std::ranges::any_of(edit.set, is_policy_field, &json::Edit::Set::name) ||
         std::ranges::any_of(edit.unset, is_policy_field);
}

KeyPolicies::Policy edited(KeyPolicies::Policy policy, const json::Edit& edit) {
  for (const std::string& name : edit.unset) policy.erase(name);
  for (const auto& [name, value] : edit.set) {
    if (!is_policy_field(name)) continue;
    policy.erase(name);
    if (value != "null") policy.emplace(name, json::compact(value));
  }
  return policy;
}

}  // namespace

const KeyPolicies::Policy* KeyPolicies::find(std::string_view agent, std::string_view key) const {
  if (all_.empty()) return nullptr;
  const auto found = all_.find(name_of(agent, key));
  return found == all_.end() || !found->second.by_operator ? nullptr : &found->second.policy;
}

bool KeyPolicies::has_passing() const {
  return std::ranges::any_of(all_, [](const auto& each) { return !each.second.on_disk; });
}

void KeyPolicies::set(const std::string& name, Kept kept) {
  const auto before = all_.find(name);
  if (before == all_.end() && kept.policy.empty()) return;
  if (before != all_.end()) {
    kept.by_operator = kept.by_operator || before->second.by_operator;
    kept.on_disk = kept.on_disk || before->second.on_disk;
  }
  dirty_ = dirty_ || kept.on_disk;
  all_.insert_or_assign(name, std::move(kept));
}

void KeyPolicies::forget(const std::string& name) {
  const auto found = all_.find(name);
  if (found == all_.end() || found->second.by_operator) return;
  dirty_ = dirty_ || found->second.on_disk;
  all_.erase(found);
}

void KeyPolicies::take(std::string_view agent, const Session& session) {
  std::string name = session.has_policy ? name_of(agent, session.key()) : std::string();
  if (name.empty() || all_.contains(name)) return;
  set(name, {.policy = policy_in(*session.entry_with_old_counters()), .by_operator = true, .on_disk = true});
}

void KeyPolicies::apply(const Change& event) {
  if (event.envelope.seq <= seq_) return;
  seq_ = event.envelope.seq;
  take_event(event, true);
}

void KeyPolicies::take_event(const Change& event, bool durable) {
  using journal::EventType;
  const EventType type = event.envelope.type;
  const bool is_foreign = event.envelope.source == "external";  // whoever may write the store is trusted with it
  if (type == EventType::session_created) {
    Policy policy = policy_in(json::find(event.data, "entry").value_or("{}"));
    if (policy.empty() && all_.empty()) return;
    const bool is_set = is_foreign || json::find(event.data, policy_set_member).has_value();
    if (!durable && !is_set) return;  // nothing would forget it when the session has to make room for others
    return set(name_of(event.envelope.agent, event.envelope.key),
               {.policy = std::move(policy), .by_operator = is_set, .on_disk = durable});
  }
  if (type == EventType::session_deleted) {
    if (!all_.empty()) forget(name_of(event.envelope.agent, event.envelope.key));
    return;
  }
  if (!changes_entries(type)) return;
  json::Edit held;
  const json::Edit& edit = edit_of(event, held);
  if (!names_policy(edit)) return;
  const std::string name = name_of(event.envelope.agent, event.envelope.key);
  const auto before = all_.find(name);
  set(name, {.policy = edited(before != all_.end() ? before->second.policy : Policy(), edit),
             .by_operator = true,
             .on_disk = durable});
}

std::string KeyPolicies::to_json() {
  dirty_ = false;
  std::string keys = "[";
  for (const auto& [key, kept] : all_) {
    if (!kept.on_disk) continue;
    json::ObjectWriter one;
    one.string("key", key);
    one.boolean("byOperator", kept.by_operator);
    for (const auto& [field, value] : kept.policy) one.raw(field, value);
    keys.append(keys.size() > 1 ? "," : "").append(one.text());
  }
  json::ObjectWriter out;
  out.integer("seq", static_cast<std::int64_t>(seq_));
  out.raw("keys", keys + "]");
  return out.text();
}

Result<KeyPolicies> KeyPolicies::from_json(std::string_view text) {
  const auto seq = json::int_at(text, "seq");
  const auto keys = json::find(text, "keys");
  if (!seq || !keys || json::kind(*keys) != json::Kind::array) return fail(Code::degraded, "it has no policies");
  KeyPolicies policies;
  for (const std::string_view each : json::elements(*keys))
    policies.all_.emplace(
        json::string_at(each, "key").value_or(""),
        Kept{.policy = policy_in(each), .by_operator = json::find(each, "byOperator") == "true", .on_disk = true});
  policies.seq_ = static_cast<std::uint64_t>(*seq);
  return policies;
}

bool keep_policy(const KeyPolicies::Policy& kept, std::string_view theirs, json::Edit& edit) {
  bool differs = false;
  const json::Index entry(theirs);
  for (const std::string_view field : runs::policy_fields) {
    const auto has = entry.find(field);
    const bool is_set = has && *has != "null";
    const auto ours = kept.find(field);
    const bool same = ours == kept.end() ? !is_set : is_set && json::same(*has, ours->second);
    if (same) continue;
    differs = true;
    std::erase(edit.unset, field);
    std::erase_if(edit.set, [field](const auto& member) { return member.name == field; });
    if (ours == kept.end())
      edit.remove(std::string(field));
    else
      edit.put(std::string(field), ours->second);
  }
  return differs;
}

}  // namespace sessiond::decide
