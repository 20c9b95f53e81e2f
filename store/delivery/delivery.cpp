#include "store/delivery/delivery.hpp"

#include <algorithm>
#include <utility>

#include "store/delivery/forms.hpp"

namespace sessiond::delivery {

namespace {

std::optional<std::string> text_of(const std::string& raw) { return raw.empty() ? std::nullopt : json::as_string(raw); }

// Removes from the edit what it says of the delivery.
void forget(json::Edit& edit) {
  const auto ours = [](std::string_view name) {
    return name == "deliveryContext" || std::ranges::find(last_names, name) != last_names.end();
  };
  std::erase_if(edit.set, [&](const json::Edit::Set& member) { return ours(member.name); });
  std::erase_if(edit.unset, ours);
}

}  // namespace

Delivery read_delivery(const json::Index& entry) {
  RawDelivery raw = delivery_of(read_stored(entry));
  Delivery out{.channel = text_of(raw[channel]), .to = text_of(raw[to]), .account_id = text_of(raw[account_id])};
  if (!raw[thread_id].empty()) out.thread_id = std::move(raw[thread_id]);
  return out;
}

void write_delivery(json::Edit& edit, const json::Index& entry, const Delivery& delivery) {
  const Stored stored = read_stored(entry);
  const bool settled = is_settled(stored);
  const RawDelivery now = delivery_of(stored, settled);
  RawDelivery wanted;
  const auto quoted = [&](std::size_t field, const std::optional<std::string>& text) {
    if (!text) return;
    // An unchanged value keeps its bytes, which quoting might change.
    const bool same = !now[field].empty() && json::as_string(now[field]) == text;
    wanted[field] = same ? now[field] : normalized(field, json::quote(*text));
  };
  quoted(channel, delivery.channel);
  quoted(to, delivery.to);
  quoted(account_id, delivery.account_id);
  if (delivery.thread_id) wanted[thread_id] = normalized(thread_id, *delivery.thread_id);
  forget(edit);
  if (settled && wanted == now) return;  // both forms say so already
  write_forms(edit, stored, stored.context, wanted);
}

json::Edit legacy_view(const json::Index& entry) {
  json::Edit edit;
  const Stored stored = read_stored(entry);
  if (is_settled(stored)) return edit;
  if (moves(stored.channel, stored.provider)) {
    settle(edit, "channel", stored.channel, std::string(*stored.provider));
    edit.remove("provider");
  }
  if (stored.room) {
    if (moves(stored.group_channel, stored.room)) edit.put("groupChannel", std::string(*stored.room));
    edit.remove("room");
  }
  write_forms(edit, stored, stored.context, delivery_of(stored, false), Odd::kept);
  return edit;
}

}  // namespace sessiond::delivery
