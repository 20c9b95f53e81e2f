#include "daemon/decide/naming.hpp"

#include <algorithm>

#include "daemon/decide/steps.hpp"
#include "policy/names.hpp"
#include "policy/pointer.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

std::string random_suffix(const DecisionBuilder& builder) { return builder.context().ids->entry_id().substr(0, 8); }

}  // namespace

Result<void> check_name(const Rules& rules, json::Edit& edit, const std::string& pointer_prefix,
                        std::string_view before) {
  const auto member = std::ranges::find(edit.set, "name", &json::Edit::Set::name);
  const auto name = member == edit.set.end() ? std::nullopt : json::as_string(member->value);
  if (!name || json::string_at(before, "name") == name) return {};
  if (store::is_reserved_name(policy::sanitize_name(*name)) || rules.sanitize_names) {
    TRY(const auto stored, policy::sanitized_name(*name, policy::pointer_to(pointer_prefix, "name")));
    member->value = json::quote(stored);
  }
  return {};
}

std::string free_slug_of(const DecisionBuilder& builder, std::string_view key, std::string_view name) {
  std::string base = policy::sanitize_name(name);
  const bool nothing = base.empty() || store::is_reserved_name(base);
  if (nothing) base = "session";
  const auto taken = [&](const std::string& slug) { return builder.state().has_slug(slug, key); };
  if (!nothing && builder.context().sight.whole_agent) return policy::free_slug(base, taken);
  std::string slug;
  do {
    slug = policy::with_suffix(base, random_suffix(builder));
  } while (taken(slug));
  return slug;
}

void put_slug(const DecisionBuilder& builder, std::string_view key, std::string_view before, json::Edit& edit) {
  const bool removed = std::ranges::find(edit.unset, "name") != edit.unset.end();
  const std::string* value = value_of(edit, "name");
  if (value == nullptr && !removed) return;
  const auto name = value == nullptr ? std::nullopt : json::as_string(*value);
  if (!name) {
    edit.unset.emplace_back("slug");
  } else if (json::string_at(before, "name") != name || !json::find(before, "slug")) {
    edit.put_string("slug", free_slug_of(builder, key, *name));
  }
}

}  // namespace sessiond::decide
