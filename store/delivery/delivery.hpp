// Where a session's replies go. An entry says it twice, as `lastChannel`, `lastTo`, `lastAccountId`, `lastThreadId` and
// as `deliveryContext`, and older programs said it under other names; here is the one rule that makes them agree
// (FORMATS §2): last* win over deliveryContext field by field, but to, accountId and threadId are never borrowed from a
// context that names another channel; a channel is trimmed and lower-cased, an empty value is absent, a numeric thread
// id stays a number. Values keep their bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct Delivery {
  std::optional<std::string> channel{};
  std::optional<std::string> to{};
  std::optional<std::string> account_id{};
  std::optional<std::string> thread_id{};  // raw JSON: a number or a string
  friend bool operator==(const Delivery&, const Delivery&) = default;
};

// The normalised delivery of an entry, legacy names included. `channel` of the entry itself names the channel only
// where something else is there to be delivered to.
Delivery read_delivery(std::string_view entry);

// Adds to `edit` what makes both forms of `entry` say `delivery`; absent fields go, members of deliveryContext that are
// not ours stay.
void write_delivery(json::Edit& edit, std::string_view entry, const Delivery& delivery);

// Is the deliveryContext in an edit a merge patch as the client sent it (RFC 7396, null removes), or the whole new
// object?
enum class Nested : bool { patch, complete };

// Completes a client's edit that names deliveryContext, last*, channel or groupChannel over `entry` ("{}" when it
// replaces or makes one): both forms are written, the form named wins, of both named last* win. A new channel drops the
// to, accountId and threadId of the old one unless they are named too. Afterwards deliveryContext in `edit` is the
// whole object. validation_failed with every fault.
Result<void> normalize_patch(json::Edit& edit, std::string_view entry, std::string_view pointer_prefix,
                             Nested nested = Nested::patch);

// The edit that turns a stored entry into what readers of the API see. `provider` and `lastProvider` move to `channel`
// and `lastChannel` where those are absent and stay otherwise, as OpenClaw has it; `room` moves to `groupChannel` or
// goes. Empty for an entry that is already so.
json::Edit legacy_view(std::string_view entry);

}  // namespace sessiond
