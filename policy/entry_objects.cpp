#include "policy/entry_objects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>

#include "policy/pointer.hpp"
#include "policy/redaction.hpp"
#include "policy/usage.hpp"
#include "store/limits.hpp"

namespace sessiond::policy {
namespace {

constexpr std::array<std::string_view, 3> scope_tiers{"sandboxed", "project", "full"};
constexpr std::array<std::string_view, 6> report_sources{"default", "skills", "subagents", "cwd", "media", "runtime"};

// Checks the members of one object.
class ObjectCheck {
 public:
  ObjectCheck(std::string_view object, std::string_view pointer, std::vector<Fault>& faults)
      : members_(object), pointer_(pointer), faults_(faults) {}

  std::optional<std::string_view> find(std::string_view name) const { return members_.find(name); }
  std::string pointer(std::string_view name) const { return pointer_to(pointer_, name); }
  void fault(std::string_view name, std::string detail) const { faults_.push_back({pointer(name), std::move(detail)}); }

  void needed_text(std::string_view name) const {
    const auto value = find(name);
    if (!value)
      fault(name, "is missing");
    else if (json::as_string(*value).value_or("").empty())
      fault(name, "must be a string that is not empty");
  }
  void text(std::string_view name) const {
    if (const auto value = find(name); value && json::kind(*value) != json::Kind::string)
      fault(name, "must be a string");
  }
  // Returns the member if it is an integer from `least` on.
  std::optional<std::int64_t> count(std::string_view name, std::int64_t least) const {
    const auto value = find(name);
    const auto number = value ? json::as_int(*value) : std::nullopt;
    if (number && *number >= least && *number <= most_counted) return number;
    fault(name, value ? fmt::format("must be an integer from {} to 2^53", least) : "is missing");
    return std::nullopt;
  }
  void choice(std::string_view name, std::span<const std::string_view> values) const {
    const auto value = find(name);
    const std::string text = value ? json::as_string(*value).value_or("") : "";
    if (std::ranges::find(values, text) == values.end())
      fault(name, value ? fmt::format("must be one of {}", fmt::join(values, ", ")) : "is missing");
  }

 private:
  json::Index members_;
  std::string pointer_;
  std::vector<Fault>& faults_;
};

void check_selection(std::string_view selection, const std::string& pointer, std::vector<Fault>& faults) {
  const ObjectCheck check(selection, pointer, faults);
  check.needed_text("file");
  const auto first = check.count("startLine", 1);
  const auto last = check.count("endLine", 1);
  if (first && last && *last < *first) check.fault("endLine", "is before startLine");
}

void check_variables(std::string_view variables, const std::string& pointer, std::vector<Fault>& faults) {
  for (const json::Member& member : json::members(variables)) {
    if (faults.size() >= limits::faults) return;
    if (json::kind(member.value) != json::Kind::string)
      faults.push_back({pointer_to(pointer, json::unescape(member.name)), "must be a string"});
  }
  if (faults.empty()) faults = secret_faults(variables, pointer);
}

std::vector<Fault> context_faults(std::string_view context, const std::string& pointer) {
  std::vector<Fault> faults;
  const ObjectCheck check(context, pointer, faults);
  check.needed_text("workingDir");
  check.text("activeFile");
  check.text("gitRef");
  if (check.find("fsScopeTier")) check.choice("fsScopeTier", scope_tiers);
  const auto object = [&](std::string_view name, auto check_it) {
    const auto value = check.find(name);
    if (value && json::kind(*value) != json::Kind::object)
      check.fault(name, "must be an object");
    else if (value)
      check_it(*value, check.pointer(name), faults);
  };
  object("selection", check_selection);
  std::vector<Fault> of_variables;
  object("variables",
         [&](std::string_view value, const std::string& at, auto&) { check_variables(value, at, of_variables); });
  std::ranges::move(of_variables, std::back_inserter(faults));
  return faults;
}

}  // namespace

std::vector<Fault> report_faults(std::string_view report, std::string_view pointer) {
  std::vector<Fault> faults;
  const auto parts = json::find(report, "parts");
  if (!parts || *parts == "null") return faults;
  const std::string at = pointer_to(pointer, "parts");
  if (json::kind(*parts) != json::Kind::array) return {{at, "must be an array"}};
  std::size_t index = 0;
  for (const std::string_view part : json::elements(*parts)) {
    if (faults.size() >= limits::faults) break;
    const std::string here = pointer_to(at, std::to_string(index++));
    if (json::kind(part) != json::Kind::object) {
      faults.push_back({here, "must be an object"});
      continue;
    }
    const ObjectCheck check(part, here, faults);
    check.choice("source", report_sources);
    check.count("chars", 0);
  }
  return faults;
}

std::vector<Fault> object_faults(const json::Edit& edit, std::string_view before, std::string_view pointer_prefix) {
  std::vector<Fault> faults;
  for (const auto& [field, value] : edit.set) {
    const bool is_context = field == "context";
    if ((!is_context && field != "systemPromptReport") || json::kind(value) != json::Kind::object) continue;
    if (const auto had = json::find(before, field); had && json::same(*had, value)) continue;
    const std::string pointer = pointer_to(pointer_prefix, field);
    std::ranges::move(is_context ? context_faults(value, pointer) : report_faults(value, pointer),
                      std::back_inserter(faults));
  }
  return faults;
}

void complete_objects(json::Edit& edit, std::string_view default_tier) {
  const auto context = std::ranges::find(edit.set, "context", &json::Edit::Set::name);
  if (context == edit.set.end() || json::kind(context->value) != json::Kind::object) return;
  if (json::find(context->value, "fsScopeTier")) return;
  json::Edit tier;
  tier.put_string("fsScopeTier", default_tier);
  context->value = json::apply(context->value, tier);
}

}  // namespace sessiond::policy
