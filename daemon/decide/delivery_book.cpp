#include "daemon/decide/delivery_book.hpp"

#include <algorithm>
#include <vector>

#include "store/json/raw_json.hpp"

namespace sessiond::decide {
namespace {

// The book's file is written whole.
constexpr std::size_t most_ended_deliveries = 1'000;  // of each kind
constexpr std::size_t most_failed_bytes = 8U << 20;

// Names what is sent in order: the conversation as one session has it, so that no session holds up another one.
std::string queue_of(const Delivery& delivery) { return delivery.key + "\n" + delivery.conversation; }

}  // namespace

const Delivery* DeliveryBook::find(std::string_view id) const {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : &found->second;
}

const Delivery* DeliveryBook::find_of_message(std::string_view message) const {
  const auto found = by_message_.find(message);
  return found == by_message_.end() ? nullptr : find(found->second);
}

const Delivery* DeliveryBook::find_under_way(std::string_view key,
                                             const std::function<bool(const Delivery&)>& is_it) const {
  const std::string beginning = std::string(key) + "\n";
  int left = 100;
  for (auto at = conversations_.lower_bound(beginning); at != conversations_.end() && at->first.starts_with(beginning);
       ++at) {
    const Delivery* delivery = find(at->second.unsent.begin()->second);
    if (delivery->attempt == 0) continue;
    if (--left < 0) return nullptr;
    if (is_it(*delivery)) return delivery;
  }
  return nullptr;
}

bool DeliveryBook::has_unsent(std::string_view key) const {
  const std::string beginning = std::string(key) + "\n";
  const auto first = conversations_.lower_bound(beginning);
  return first != conversations_.end() && first->first.starts_with(beginning);
}

DeliveryBook::Counts DeliveryBook::counts() const {
  return {.pending = unsent_by_age_.size() - leased_,
          .leased = leased_,
          .failed = alarming_.size(),
          .oldest = unsent_by_age_.empty() ? 0 : unsent_by_age_.begin()->first};
}

void DeliveryBook::set_head(const std::string& name) {
  const auto found = conversations_.find(name);
  if (found == conversations_.end()) return;
  Conversation& conversation = found->second;
  if (conversation.head) heads_.erase(*conversation.head);
  conversation.head.reset();
  if (conversation.unsent.empty()) {
    conversations_.erase(found);
    return;
  }
  if (conversation.leased != 0) return;
  conversation.head = *conversation.unsent.begin();
  heads_.insert(*conversation.head);
}

void DeliveryBook::count(const Delivery& delivery, bool in) {
  const bool leased = delivery.status == DeliveryStatus::leased;
  if (delivery.is_alarming()) {
    if (in)
      alarming_.insert(delivery.id);
    else
      alarming_.erase(delivery.id);
  }
  if (!delivery.is_unsent()) return;
  Conversation& conversation = conversations_[queue_of(delivery)];
  const Place place{delivery.order, delivery.id};
  if (in) {
    conversation.unsent.insert(place);
    conversation.leased += leased ? 1 : 0;
    leased_ += leased ? 1 : 0;
    unsent_by_age_.emplace(delivery.created_at, delivery.id);
  } else {
    conversation.unsent.erase(place);
    conversation.leased -= leased ? 1 : 0;
    leased_ -= leased ? 1 : 0;
    unsent_by_age_.erase({delivery.created_at, delivery.id});
  }
}

void DeliveryBook::put(Delivery delivery) {
  count(delivery, true);
  set_head(queue_of(delivery));
  const std::string id = delivery.id;
  std::string& of_message = by_message_[delivery.message];
  const Delivery* before = find(of_message);
  if (before == nullptr || before->order <= delivery.order) of_message = id;
  all_.insert_or_assign(id, std::move(delivery));
}

void DeliveryBook::list_ended(const std::string& id) {
  const Delivery& delivery = all_.at(id);
  if (delivery.is_unsent()) return;
  const bool failed = delivery.is_alarming();
  std::deque<std::string>& list = failed ? failed_ : ended_;
  list.push_back(id);
  if (failed) failed_bytes_ += delivery.fixed.size();
  while (list.size() > most_ended_deliveries) {
    forget(list.front());
    list.pop_front();
  }
  limit_text();
}

void DeliveryBook::forget(const std::string& id) {
  const Delivery& delivery = all_.at(id);
  if (alarming_.erase(id) != 0) failed_bytes_ -= delivery.fixed.size();
  if (const auto found = by_message_.find(delivery.message); found != by_message_.end() && found->second == id)
    by_message_.erase(found);
  all_.erase(id);
}

void DeliveryBook::forget_session(std::string_view key) {
  std::vector<std::string> gone;
  for (const auto& [id, delivery] : all_) {
    if (delivery.key != key) continue;
    if (const auto found = by_message_.find(delivery.message); found != by_message_.end() && found->second == id)
      by_message_.erase(found);
    if (delivery.status == DeliveryStatus::sent) gone.push_back(id);
  }
  for (const std::string& id : gone) {
    std::erase(ended_, id);
    forget(id);
  }
}

void DeliveryBook::limit_text() {
  for (std::size_t i = 0; failed_bytes_ > most_failed_bytes && i + 1 < failed_.size(); ++i) {
    Delivery& oldest = all_.at(failed_[i]);
    failed_bytes_ -= oldest.fixed.size();
    oldest.forget_content();
    failed_bytes_ += oldest.fixed.size();
  }
}

void DeliveryBook::change(const journal::Envelope& about, const DeliveryTold& told) {
  const auto found = all_.find(told.id);
  if (found == all_.end()) return;  // it ended long ago
  Delivery& delivery = found->second;
  if (!delivery.is_unsent()) {
    std::erase(ended_, delivery.id);
    if (std::erase(failed_, delivery.id) != 0) failed_bytes_ -= delivery.fixed.size();
  }
  count(delivery, false);
  change_by(delivery, about, told);
  count(delivery, true);
  set_head(queue_of(delivery));
  list_ended(delivery.id);
}

void DeliveryBook::apply(const Change& event) {
  using journal::EventType;
  const journal::Envelope& about = event.envelope;
  if (about.seq <= seq_) return;
  if (const auto* said = event.as<MessageAppended>()) {
    auto made = made_delivery(about, *said);
    if (!made) return;
    put(std::move(*made));
  } else if (const auto* told = event.as<DeliveryTold>()) {
    change(about, *told);
  } else if (about.type == EventType::session_deleted && json::find(event.data, "purged") == "true") {
    forget_session(about.key);
  } else {
    return;
  }
  seq_ = about.seq;
  dirty_ = true;
}

std::string DeliveryBook::to_json() {
  dirty_ = false;
  std::string text = "{\"seq\":" + std::to_string(seq_) + ",\"unsent\":[";
  const auto put = [&text](const Delivery& delivery) {
    if (text.back() != '[') text += ',';
    text += stored_delivery(delivery);
  };
  for (const auto& [id, delivery] : all_)
    if (delivery.is_unsent()) put(delivery);
  text += "],\"failed\":[";
  for (const std::string& id : failed_) put(all_.at(id));
  text += "],\"ended\":[";
  for (const std::string& id : ended_) put(all_.at(id));
  return text + "]}";
}

Result<DeliveryBook> DeliveryBook::from_json(std::string_view text) {
  const auto seq = json::int_at(text, "seq");
  if (!seq || !json::find(text, "unsent")) return fail(Code::degraded, "it has no deliveries");
  DeliveryBook book;
  book.seq_ = static_cast<std::uint64_t>(*seq);
  for (const std::string_view list : {"unsent", "failed", "ended"}) {
    for (const std::string_view stored : json::elements(json::find(text, list).value_or("[]"))) {
      Delivery delivery = read_delivery(stored);
      const std::string id = delivery.id;
      book.put(std::move(delivery));
      book.list_ended(id);
    }
  }
  return book;
}

}  // namespace sessiond::decide
