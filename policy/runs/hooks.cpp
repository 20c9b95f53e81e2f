#include "policy/runs/hooks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"

namespace sessiond::runs {
namespace {

constexpr std::array<std::string_view, 3> waited_for{"UserPromptSubmit", "PreCompact", "PreToolUse"};
constexpr std::array<std::string_view, 8> hook_events{"UserPromptSubmit", "PreCompact", "PreToolUse",  "SessionStart",
                                                      "SessionEnd",       "Stop",       "StopFailure", "PostCompact"};

std::vector<std::string> strings_at(std::string_view object, std::string_view name) {
  std::vector<std::string> strings;
  for (const std::string_view each : json::elements(json::find(object, name).value_or("[]")))
    strings.push_back(json::as_string(each).value_or(""));
  return strings;
}

}  // namespace

bool is_hook_event(std::string_view event) { return std::ranges::find(hook_events, event) != hook_events.end(); }

bool can_block(std::string_view event) { return std::ranges::find(waited_for, event) != waited_for.end(); }

std::string hook_event_names() { return fmt::format("{}", fmt::join(hook_events, ", ")); }

bool Hook::wants(std::string_view agent, std::string_view event) const {
  return std::ranges::find(events, event) != events.end() &&
         (agents.empty() || std::ranges::find(agents, agent) != agents.end());
}

std::string to_json(const Hook& hook) {
  json::ObjectWriter out;
  out.string("name", hook.name);
  out.raw("events", json::array_of(hook.events));
  out.boolean("blocking", hook.blocking);
  if (hook.timeout_ms) out.integer("timeoutMs", *hook.timeout_ms);
  out.string("onTimeout", hook.blocks_on_timeout ? "block" : "continue");
  if (!hook.agents.empty()) out.raw("agents", json::array_of(hook.agents));
  return out.text();
}

const Hook* HookList::find(std::string_view name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

bool HookList::is_wanted(std::string_view agent, std::string_view event) const {
  return std::ranges::any_of(all_, [&](const auto& each) { return each.second.wants(agent, event); });
}

bool HookList::is_waited_for(std::string_view agent, std::string_view event) const {
  return can_block(event) && std::ranges::any_of(all_, [&](const auto& each) {
           return each.second.blocking && each.second.wants(agent, event);
         });
}

bool HookList::has_room(std::string_view owner) const {
  const auto made = std::ranges::count_if(all_, [owner](const auto& each) { return each.second.owner == owner; });
  return static_cast<std::size_t>(made) < (owner.empty() ? most : most_of_limited);
}

void HookList::put(Hook hook) {
  std::string name = hook.name;
  all_.insert_or_assign(std::move(name), std::move(hook));
}

void HookList::erase(std::string_view name) {
  if (const auto found = all_.find(name); found != all_.end()) all_.erase(found);
}

std::string HookList::to_json() const {
  std::string list = "[";
  for (const auto& [name, hook] : all_) {
    json::Edit edit;
    if (!hook.owner.empty()) edit.put_string("owner", hook.owner);
    list.append(list.size() > 1 ? "," : "").append(json::apply(runs::to_json(hook), edit));
  }
  return "{\"hooks\":" + list + "]}";
}

Result<HookList> HookList::from_json(std::string_view text) {
  const auto list = json::find(text, "hooks");
  if (!list || json::kind(*list) != json::Kind::array) return fail(Code::degraded, "it has no hooks");
  HookList hooks;
  for (const std::string_view each : json::elements(*list)) {
    Hook hook{.name = json::string_at(each, "name").value_or(""),
              .events = strings_at(each, "events"),
              .blocking = json::as_bool(json::find(each, "blocking").value_or("false")).value_or(false),
              .timeout_ms = json::int_at(each, "timeoutMs"),
              .blocks_on_timeout = json::string_at(each, "onTimeout") == "block",
              .agents = strings_at(each, "agents"),
              .owner = json::string_at(each, "owner").value_or("")};
    if (hook.name.empty()) return fail(Code::degraded, "one of its hooks has no name");
    hooks.put(std::move(hook));
  }
  return hooks;
}

std::optional<HookVerdict> verdict_of(std::span<const HookAnswer> answers) {
  HookVerdict verdict;
  for (const HookAnswer& answer : answers) {
    if (answer.is_open) return std::nullopt;
    if (answer.blocks) return HookVerdict{.blocked = true, .reason = answer.reason};
    if (answer.context.empty()) continue;
    if (!verdict.context.empty()) verdict.context += '\n';
    verdict.context += answer.context;
  }
  if (verdict.context.size() > most_context_bytes)
    verdict.context.resize(store::utf8_prefix(verdict.context, most_context_bytes));
  return verdict;
}

}  // namespace sessiond::runs
