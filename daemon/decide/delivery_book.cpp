#include "daemon/decide/delivery_book.hpp"

#include <algorithm>
#include <vector>

#include "store/json/raw_json.hpp"

namespace sessiond::decide {
namespace {

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
  note(id);
  note_text(id);
}

void DeliveryBook::note(const std::string& id) { unwritten_.add("d " + id); }
void DeliveryBook::note_text(const std::string& id) { unwritten_.add("t " + id); }

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
    if (failed && without_text_ != 0) --without_text_;
  }
  limit_text();
}

void DeliveryBook::forget(const std::string& id) {
  const Delivery& delivery = all_.at(id);
  if (alarming_.erase(id) != 0) failed_bytes_ -= delivery.fixed.size();
  if (const auto found = by_message_.find(delivery.message); found != by_message_.end() && found->second == id)
    by_message_.erase(found);
  note(id);
  note_text(id);
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
  for (; failed_bytes_ > most_failed_bytes && without_text_ + 1 < failed_.size(); ++without_text_) {
    Delivery& oldest = all_.at(failed_[without_text_]);
    failed_bytes_ -= oldest.fixed.size();
    oldest.forget_content();
    note_text(oldest.id);
    failed_bytes_ += oldest.fixed.size();
  }
}

void DeliveryBook::change(const journal::Envelope& about, const DeliveryTold& told) {
  const auto found = all_.find(told.id);
  if (found == all_.end()) return;  // it ended long ago
  Delivery& delivery = found->second;
  if (!delivery.is_unsent()) {
    std::erase(ended_, delivery.id);
    if (std::erase(failed_, delivery.id) != 0) {
      failed_bytes_ -= delivery.fixed.size();
      without_text_ = 0;
    }
  }
  count(delivery, false);
  const std::size_t fixed_before = delivery.fixed.size();
  change_by(delivery, about, told);
  delivery.ended_seq = delivery.is_unsent() ? 0 : about.seq;
  note(delivery.id);
  if (delivery.fixed.size() != fixed_before) note_text(delivery.id);
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
    unwritten_.forget();
  } else if ((about.type == EventType::message_deleted || about.type == EventType::message_edited) && !all_.empty()) {
    unwritten_.forget();  // lines of before may have its text
  } else {
    return;
  }
  seq_ = about.seq;
  unwritten_.mark_dirty();
}

BookRecord DeliveryBook::record(const std::string& name) const {
  const Delivery* delivery = find(std::string_view(name).substr(2));
  if (delivery == nullptr) return {.key = name};
  if (name.front() == 't')
    return {.key = name, .value = std::make_shared<const std::string>("{" + delivery->fixed + "}")};
  return {.key = name,
          .value = std::make_shared<const std::string>(stored_delivery(*delivery)),
          .order = delivery->ended_seq};
}

void DeliveryBook::list_records() {
  std::set<std::string> names;
  for (const auto& [id, delivery] : all_) {
    names.insert("d " + id);
    names.insert("t " + id);
  }
  unwritten_.list(std::move(names));
}

bool DeliveryBook::take_changes(BookChanges& changes, BookSlice most) {
  if (unwritten_.lacks_list()) list_records();
  if (!unwritten_.take(changes, most, [this](const std::string& name) { return record(name); })) return false;
  const Counts counts = this->counts();
  json::ObjectWriter ending;
  ending.integer("end", static_cast<std::int64_t>(seq_));
  ending.integer("open", static_cast<std::int64_t>(counts.pending + counts.leased + counts.failed));
  if (changes.forgets) ending.boolean("forgets", true);
  changes.ending = ending.text();
  return true;
}

void DeliveryBook::put_read(std::vector<Delivery> deliveries) {
  std::ranges::sort(deliveries, {}, &Delivery::ended_seq);
  for (Delivery& delivery : deliveries) {
    const std::string id = delivery.id;
    put(std::move(delivery));
    list_ended(id);
  }
}

Result<DeliveryBook> DeliveryBook::from_records(std::span<const BookRecord> records, std::string_view ending) {
  std::map<std::string_view, std::string_view> fixed;  // by id
  for (const BookRecord& record : records)
    if (record.key.starts_with("t ")) fixed.emplace(std::string_view(record.key).substr(2), *record.value);
  std::vector<Delivery> deliveries;
  for (const BookRecord& record : records) {
    if (!record.key.starts_with("d ")) continue;
    const auto found = fixed.find(std::string_view(record.key).substr(2));
    if (found == fixed.end()) return fail(Code::degraded, "it has no text of " + record.key.substr(2));
    deliveries.push_back(read_delivery(*record.value, found->second));
    deliveries.back().ended_seq = record.order;
  }
  if (2 * deliveries.size() != records.size()) return fail(Code::degraded, "it has no deliveries");
  DeliveryBook book;
  book.seq_ = static_cast<std::uint64_t>(json::int_at(ending, "end").value_or(0));
  book.put_read(std::move(deliveries));
  book.unwritten_.start_clean();
  return book;
}

Result<DeliveryBook> DeliveryBook::from_json(std::string_view text) {
  const auto seq = json::int_at(text, "seq");
  if (!seq || !json::find(text, "unsent")) return fail(Code::degraded, "it has no deliveries");
  std::vector<Delivery> deliveries;
  for (const std::string_view list : {"unsent", "failed", "ended"}) {
    for (const std::string_view stored : json::elements(json::find(text, list).value_or("[]"))) {
      deliveries.push_back(read_delivery(stored, json::find(stored, "fixed").value_or("{}")));
      if (!deliveries.back().is_unsent()) deliveries.back().ended_seq = deliveries.size();
    }
  }
  DeliveryBook book;
  book.seq_ = static_cast<std::uint64_t>(*seq);
  book.put_read(std::move(deliveries));
  book.unwritten_ = {};
  book.list_records();
  return book;
}

}  // namespace sessiond::decide
