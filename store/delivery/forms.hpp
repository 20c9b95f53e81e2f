// The two forms in which an entry says where replies go, taken apart and put together: what store/delivery and its
// patches share.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "store/json/raw_json.hpp"

namespace sessiond::delivery {

enum Field : std::size_t { channel, to, account_id, thread_id };
inline constexpr std::size_t field_count = 4;
inline constexpr std::array<std::string_view, field_count> context_names{"channel", "to", "accountId", "threadId"};
inline constexpr std::array<std::string_view, field_count> last_names{"lastChannel", "lastTo", "lastAccountId",
                                                                      "lastThreadId"};

using RawDelivery = std::array<std::string, field_count>;  // normalised raw JSON; empty: absent

// The members of an entry that matter here; of duplicates the last. Views into the entry.
struct Stored {
  std::array<std::optional<std::string_view>, field_count> last{};
  std::optional<std::string_view> context, channel, provider, last_provider, group_channel, room;
};
Stored read_stored(std::string_view entry);

// A legacy name counts where the new one is no string, as the programs that wrote both have it.
bool moves(std::optional<std::string_view> now, std::optional<std::string_view> legacy);

// The value as it counts, or "" when it does not: of another kind, or empty. What needs no change keeps its bytes.
std::string normalized(std::size_t field, std::optional<std::string_view> raw);

bool other_channel(const RawDelivery& a, const RawDelivery& b);
// `strong` wins field by field; the rest comes from `weak` unless that names another channel.
RawDelivery merged(RawDelivery strong, const RawDelivery& weak);
// Both forms of an entry as one.
RawDelivery delivery_of(const Stored& stored);

// Puts or removes a member so that `edit` makes it `value` ("" = absent); nothing when it already is so.
void settle(json::Edit& edit, std::string_view name, std::optional<std::string_view> present, const std::string& value);
// Both forms as wanted. `context` is the deliveryContext whose other members stay.
void write_forms(json::Edit& edit, const Stored& stored, std::optional<std::string_view> context,
                 const RawDelivery& wanted);

}  // namespace sessiond::delivery
