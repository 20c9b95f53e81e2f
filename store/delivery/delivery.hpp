// Where the replies of a session go.
//
// An entry says it twice, as lastChannel, lastTo, lastAccountId, lastThreadId and as deliveryContext; older programs
// used other names. One rule makes them agree: last* win over deliveryContext, field by field, but to, accountId and
// threadId are not taken from a context with another channel. A channel is trimmed and made lower-case, an empty value
// counts as absent, and a numeric thread id stays a number. Values keep their bytes. These functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::delivery {

struct Delivery {
  std::optional<std::string> channel{};
  std::optional<std::string> to{};
  std::optional<std::string> account_id{};
  std::optional<std::string> thread_id{};  // raw JSON: a number or a string
  friend bool operator==(const Delivery&, const Delivery&) = default;
};

// Reads the delivery of an entry, also from legacy names. `channel` of the entry counts only if there is a to,
// accountId or threadId.
Delivery read_delivery(const json::Index& entry);

// Adds to `edit` what makes both forms of `entry` say `delivery`. Absent fields are removed; unknown members of
// deliveryContext stay.
void write_delivery(json::Edit& edit, const json::Index& entry, const Delivery& delivery);

// Returns what is wrong with the thread id that a client gives, raw JSON. It is a string, or a number that programs
// which read numbers as doubles keep: from -2^53 to 2^53, not -0.
std::optional<std::string> thread_id_fault(std::string_view raw);

// Tells what the deliveryContext in an edit is: a merge patch (RFC 7396, null removes) or the whole new object.
enum class Nested : bool { patch, complete };

// Completes a client's edit of `entry` ({} for a new or replaced one) that names deliveryContext, last*, channel or
// groupChannel, so that both forms agree. The form that is named wins; if both are, last* win. A new channel removes
// to, accountId and threadId unless they are named, too. Afterwards deliveryContext in `edit` is the whole object.
// validation_failed with all faults.
Result<void> normalize_patch(json::Edit& edit, const json::Index& entry, std::string_view pointer_prefix,
                             Nested nested = Nested::patch);

// Returns the edit that turns a stored entry into what the API shows. provider and lastProvider become channel and
// lastChannel if those are absent; otherwise they stay, as in OpenClaw. room becomes groupChannel, or is removed. A
// value of a wrong type stays where there is no right one. Empty if nothing is to be changed.
json::Edit legacy_view(const json::Index& entry);

}  // namespace sessiond::delivery
