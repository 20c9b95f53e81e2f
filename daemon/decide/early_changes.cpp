#include "daemon/decide/early_changes.hpp"

#include <algorithm>

#include "daemon/decide/platform_message.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {
namespace {

std::string_view what(const EarlyChange& change) { return change.deletes ? "delete" : "edit"; }

void write_name(json::ObjectWriter& out, const EarlyChange& change) {
  out.string("changeId", change.id);
  out.string("channel", change.channel);
  if (!change.account_id.empty()) out.string("accountId", change.account_id);
  out.string("peer", change.peer);
  out.string("messageId", change.message_id);
  if (!change.author.empty()) out.string("from", change.author);
  out.string("what", what(change));
}

// One text for all messages of a conversation.
std::string conversation_of(const EarlyChange& change) {
  return platform_name("", change.channel, change.account_id, change.peer, "");
}

std::string name_of(const EarlyChange& change) {
  return platform_name("", change.channel, change.account_id, change.peer, change.message_id);
}

bool may_be_of(const std::string& author, const std::string& of) {
  return author.empty() || of.empty() || author == of;
}

}  // namespace

std::size_t EarlyChange::bytes() const {
  constexpr std::size_t fixed = 200;
  return fixed + channel.size() + account_id.size() + peer.size() + message_id.size() + author.size() + actor.size() +
         (text ? text->size() : 0) + content.size();
}

std::string early_name_json(const EarlyChange& change) {
  json::ObjectWriter out;
  write_name(out, change);
  return out.text();
}

std::string early_json(const EarlyChange& change) {
  json::ObjectWriter out;
  write_name(out, change);
  if (change.text) out.string("text", *change.text);
  if (!change.content.empty()) out.raw("content", json::compact(change.content));
  if (change.mentioned) out.boolean("mentioned", true);
  out.string("by", change.actor);
  if (change.is_limited) out.boolean("limited", true);
  out.integer("at", change.at);
  out.integer("until", change.until);
  out.integer("ageAt", change.age_at);
  return out.text();
}

EarlyChange read_early(std::string_view data) {
  const json::Index members(data);
  const auto text = [&members](std::string_view name) { return members.string_at(name).value_or(""); };
  return {.id = text("changeId"),
          .channel = text("channel"),
          .account_id = text("accountId"),
          .peer = text("peer"),
          .message_id = text("messageId"),
          .author = text("from"),
          .deletes = members.string_at("what") == "delete",
          .text = members.string_at("text"),
          .content = std::string(members.find("content").value_or("")),
          .mentioned = members.find("mentioned") == "true",
          .actor = text("by"),
          .is_limited = members.find("limited") == "true",
          .at = members.int_at("at").value_or(0),
          .until = members.int_at("until").value_or(0),
          .age_at = members.int_at("ageAt").value_or(0)};
}

const EarlyChange* EarlyChanges::find(std::string_view id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &by_order_.at(found->second).change;
}

std::vector<const EarlyChange*> EarlyChanges::of_message(const EarlyChange& message) const {
  std::vector<const EarlyChange*> found;
  if (empty()) return found;
  const auto named = by_name_.find(name_of(message));
  if (named == by_name_.end()) return found;
  for (const std::uint64_t order : named->second) {
    const EarlyChange& change = by_order_.at(order).change;
    if ((!change.is_limited || change.actor == message.actor) && may_be_of(change.author, message.author))
      found.push_back(&change);
  }
  return found;
}

const EarlyChange* EarlyChanges::same(const EarlyChange& change) const {
  const auto named = by_name_.find(name_of(change));
  if (named == by_name_.end()) return nullptr;
  for (const std::uint64_t order : named->second) {
    const EarlyChange& there = by_order_.at(order).change;
    if (there.owner() == change.owner() && there.author == change.author) return &there;
  }
  return nullptr;
}

std::vector<const EarlyChange*> EarlyChanges::without_room(const EarlyChange& next) const {
  std::vector<const EarlyChange*> go;
  const EarlyChange* replaced = same(next);
  if (replaced == nullptr) {
    const auto conversation = by_conversation_.find(next.owner() + "\n" + conversation_of(next));
    if (conversation != by_conversation_.end() && conversation->second.size() >= most_of_conversation)
      go.push_back(&by_order_.at(*conversation->second.begin()).change);
  }
  std::size_t count = by_order_.size() - go.size() + (replaced == nullptr ? 1 : 0);
  std::size_t bytes = bytes_ + next.bytes() - (replaced == nullptr ? 0 : replaced->bytes());
  for (const EarlyChange* one : go) bytes -= one->bytes();
  if (count <= most && bytes <= most_bytes) return go;
  auto rooms = by_owner_;
  for (const EarlyChange* one : go) {
    Room& room = rooms.at(one->owner());
    room.orders.erase(by_id_.find(one->id)->second);
    room.bytes -= one->bytes();
  }
  while (count > most || bytes > most_bytes) {
    const bool by_count = count > most;
    const auto greatest = std::ranges::max_element(rooms, {}, [by_count](const auto& room) {
      return room.second.orders.empty() ? std::size_t{0} : by_count ? room.second.orders.size() : room.second.bytes + 1;
    });
    if (greatest == rooms.end() || greatest->second.orders.empty()) break;
    const std::uint64_t oldest = *greatest->second.orders.begin();
    greatest->second.orders.erase(oldest);
    const EarlyChange& change = by_order_.at(oldest).change;
    greatest->second.bytes -= change.bytes();
    if (&change == replaced) continue;
    go.push_back(&change);
    bytes -= change.bytes();
    --count;
  }
  return go;
}

std::vector<const EarlyChange*> EarlyChanges::all() const {
  std::vector<const EarlyChange*> list;
  for (const auto& [order, kept] : by_order_) list.push_back(&kept.change);
  return list;
}

void EarlyChanges::put(EarlyChange change) {
  forget(change.id);
  const std::uint64_t order = next_++;
  Kept kept{.name = name_of(change), .conversation = change.owner() + "\n" + conversation_of(change)};
  by_id_[change.id] = order;
  by_name_[kept.name].insert(order);
  by_conversation_[kept.conversation].insert(order);
  Room& room = by_owner_[change.owner()];
  room.orders.insert(order);
  room.bytes += change.bytes();
  bytes_ += change.bytes();
  kept.change = std::move(change);
  by_order_.emplace(order, std::move(kept));
}

void EarlyChanges::erase(std::uint64_t order) {
  const Kept kept = std::move(by_order_.at(order));
  by_order_.erase(order);
  by_id_.erase(kept.change.id);
  const auto leave = [order](auto& lists, const std::string& name) {
    const auto list = lists.find(name);
    list->second.erase(order);
    if (list->second.empty()) lists.erase(list);
  };
  leave(by_name_, kept.name);
  leave(by_conversation_, kept.conversation);
  const auto room = by_owner_.find(kept.change.owner());
  room->second.orders.erase(order);
  room->second.bytes -= kept.change.bytes();
  if (room->second.orders.empty()) by_owner_.erase(room);
  bytes_ -= kept.change.bytes();
}

void EarlyChanges::forget(std::string_view id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  erase(found->second);
  dirty_ = true;
}

void EarlyChanges::apply(const journal::Event& event) {
  if (event.envelope.seq <= seq_) return;
  seq_ = event.envelope.seq;
  if (event.envelope.type == journal::EventType::message_change_early) {
    put(read_early(event.data));
    dirty_ = true;
  } else if (event.envelope.type == journal::EventType::message_change_taken ||
             event.envelope.type == journal::EventType::message_change_lost) {
    forget(json::string_at(event.data, "changeId").value_or(""));
  }
}

std::string EarlyChanges::to_json() {
  dirty_ = false;
  std::string list = "[";
  for (const auto& [order, kept] : by_order_) {
    if (list.size() > 1) list += ",";
    list += early_json(kept.change);
  }
  json::ObjectWriter out;
  out.integer("seq", static_cast<std::int64_t>(seq_));
  out.raw("changes", list + "]");
  return out.text();
}

Result<EarlyChanges> EarlyChanges::from_json(std::string_view text) {
  const auto seq = json::int_at(text, "seq");
  const auto changes = json::find(text, "changes");
  if (!seq || !changes || json::kind(*changes) != json::Kind::array) return fail(Code::degraded, "it has no changes");
  EarlyChanges book;
  for (const std::string_view change : json::elements(*changes)) book.put(read_early(change));
  book.seq_ = static_cast<std::uint64_t>(*seq);
  book.dirty_ = false;
  return book;
}

}  // namespace sessiond::decide
