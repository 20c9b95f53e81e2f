// Takes apart and puts together the two forms in which an entry says where replies go: helpers of delivery.cpp and
// patch.cpp.
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

using RawDelivery = std::array<std::string, field_count>;  // normalised raw JSON; "": absent

// The members of an entry that concern the delivery. Of duplicates the last one counts. Views into the entry.
struct Stored {
  std::array<std::optional<std::string_view>, field_count> last{};
  std::optional<std::string_view> context, channel, provider, last_provider, group_channel, room;
};
Stored read_stored(const json::Index& entry);
// Tells whether both forms say the same in normal values and no legacy name is there, as in entries of ours. May be
// false for others of which the same is true.
bool is_settled(const Stored& stored);

// Tells whether the legacy name counts: if the new one is not a string, as in the programs that wrote both.
bool moves(std::optional<std::string_view> now, std::optional<std::string_view> legacy);

// Returns the normalised value; "" if it is empty or of another type. A value that is normal keeps its bytes.
std::string normalized(std::size_t field, std::optional<std::string_view> raw);

// Tells whether both name a channel, and not the same.
bool other_channel(const RawDelivery& a, const RawDelivery& b);
// Fills the fields that `strong` lacks from `weak`, unless that names another channel.
RawDelivery merged(RawDelivery strong, const RawDelivery& weak);
// Merges both forms of an entry. `settled`: is_settled(stored), which the caller knows.
RawDelivery delivery_of(const Stored& stored, bool settled);
inline RawDelivery delivery_of(const Stored& stored) { return delivery_of(stored, is_settled(stored)); }

// Adds to `edit` what makes a member `value` ("": absent), if it is not so already.
void settle(json::Edit& edit, std::string_view name, std::optional<std::string_view> present, const std::string& value);
// The fate of a value of a wrong type where there is no other value.
enum class Odd : bool { removed, kept };
// Writes both forms. `context` is the deliveryContext whose other members stay.
void write_forms(json::Edit& edit, const Stored& stored, std::optional<std::string_view> context,
                 const RawDelivery& wanted, Odd odd = Odd::removed);

}  // namespace sessiond::delivery
