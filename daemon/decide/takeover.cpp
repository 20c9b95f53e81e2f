#include "daemon/decide/takeover.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sessiond::decide {
namespace {

runs::Address address_at(const std::string& reply_to, const std::optional<std::string>& topic) {
  return {.reply_to = reply_to, .topic = topic ? std::string_view(*topic) : std::string_view()};
}

void put_takeover(json::ObjectWriter& out, const Takeover& takeover) {
  out.string("name", takeover.name);
  out.string("by", takeover.token);
  out.integer("since", takeover.since);
  out.integer("until", takeover.until);
  out.integer("forMs", takeover.for_ms);
  out.integer("ageUntil", takeover.age_until);
  out.integer("ageBegun", takeover.age_begun);
  if (takeover.policy_before)
    out.raw("sendPolicyBefore", takeover.policy_before->empty() ? "null" : *takeover.policy_before);
}

template <class List, class ToJson>
std::string array_with_topics(const List& list, ToJson to_json) {
  std::string out = "[";
  for (const auto& each : list) {
    json::Edit topic;
    if (each.topic) topic.put_string("topic", *each.topic);
    out.append(out.size() > 1 ? "," : "").append(json::apply(to_json(each), topic));
  }
  return out + "]";
}

}  // namespace

runs::Address address_of(const HeldMessage& message) { return address_at(message.reply_to, message.topic); }

bool Takeover::is_answered(const runs::Address& address, std::uint64_t seq) const {
  return std::ranges::any_of(words, [&](const PersonsWord& word) {
    return seq < word.seen_seq && runs::is_same(address, address_at(word.reply_to, word.topic));
  });
}

void Takeover::hold(HeldMessage message) {
  if (waiting.size() >= most_waiting) {
    const auto last = std::ranges::find_if(waiting.rbegin(), waiting.rend(), [&message](const HeldMessage& each) {
      return runs::is_same(address_of(each), address_of(message));
    });
    if (last != waiting.rend())
      waiting.erase(std::next(last).base());
    else if (waiting.size() >= 2 * most_waiting)
      return;
  }
  waiting.push_back(std::move(message));
}

void Takeover::say(PersonsWord word) {
  const runs::Address address = address_at(word.reply_to, word.topic);
  if (waiting.size() >= most_waiting)  // those that are answered make room
    std::erase_if(waiting, [&](const HeldMessage& each) {
      return each.seq < word.seen_seq && runs::is_same(address_of(each), address);
    });
  const auto same = std::ranges::find_if(
      words, [&](const PersonsWord& each) { return runs::is_same(address_at(each.reply_to, each.topic), address); });
  if (same != words.end()) {
    same->seen_seq = std::max(same->seen_seq, word.seen_seq);
    return;
  }
  if (words.size() == most_words) words.erase(words.begin());
  words.push_back(std::move(word));
}

void Takeover::forget(std::string_view entry_id, const std::optional<std::string>& topic) {
  std::erase_if(waiting, [&](const HeldMessage& each) { return each.entry_id == entry_id && each.topic == topic; });
}

void Takeover::edit(std::string_view entry_id, const std::optional<std::string>& topic, std::string_view text) {
  for (HeldMessage& each : waiting)
    if (each.entry_id == entry_id && each.topic == topic) each.text = text;
}

void Takeover::forget_transcripts(const std::optional<std::string>& topic) {
  const auto is_gone = [&topic](const auto& each) { return !topic || each.topic == topic; };
  std::erase_if(waiting, is_gone);
  std::erase_if(words, is_gone);
}

std::string takeover_json(const Takeover& takeover) {
  json::ObjectWriter out;
  out.string("name", takeover.name);
  if (!takeover.token.empty()) out.string("by", takeover.token);
  out.integer("since", takeover.since);
  out.integer("until", takeover.until);
  return out.text();
}

std::string told_takeover(const Takeover& takeover, std::string_view how) {
  json::ObjectWriter out;
  put_takeover(out, takeover);
  if (!how.empty()) out.boolean(how, true);
  return out.text();
}

std::string stored_takeover(const Takeover& takeover) {
  json::ObjectWriter out;
  put_takeover(out, takeover);
  if (!takeover.waiting.empty()) out.raw("waiting", array_with_topics(takeover.waiting, held_json));
  if (!takeover.words.empty()) out.raw("words", array_with_topics(takeover.words, word_json));
  return out.text();
}

Takeover read_takeover(std::string_view stored) {
  const json::Index members(stored);
  const auto number = [&members](std::string_view name) { return members.int_at(name).value_or(0); };
  Takeover takeover{.token = members.string_at("by").value_or(""),
                    .name = members.string_at("name").value_or(""),
                    .since = number("since"),
                    .until = number("until"),
                    .age_begun = number("ageBegun"),
                    .age_until = number("ageUntil"),
                    .for_ms = number("forMs")};
  if (const auto before = members.find("sendPolicyBefore"))
    takeover.policy_before = *before == "null" ? "" : std::string(*before);
  for (const std::string_view each : json::elements(members.find("waiting").value_or("[]")))
    takeover.waiting.push_back(read_held(each, json::string_at(each, "topic")));
  for (const std::string_view each : json::elements(members.find("words").value_or("[]")))
    takeover.words.push_back(read_word(each, json::string_at(each, "topic")));
  return takeover;
}

std::string held_json(const HeldMessage& message) {
  json::ObjectWriter out;
  out.string("entryId", message.entry_id);
  out.integer("seq", static_cast<std::int64_t>(message.seq));
  out.raw("replyTo", message.reply_to.empty() ? "null" : message.reply_to);
  out.integer("since", message.since);
  out.string("text", message.text);
  return out.text();
}

HeldMessage read_held(std::string_view stored, std::optional<std::string> topic) {
  const json::Index members(stored);
  const std::string_view reply_to = members.find("replyTo").value_or("null");
  return {.entry_id = members.string_at("entryId").value_or(""),
          .seq = static_cast<std::uint64_t>(members.int_at("seq").value_or(0)),
          .topic = std::move(topic),
          .reply_to = reply_to == "null" ? "" : std::string(reply_to),
          .since = members.int_at("since").value_or(0),
          .text = members.string_at("text").value_or("")};
}

std::string word_json(const PersonsWord& word) {
  json::ObjectWriter out;
  out.raw("replyTo", word.reply_to.empty() ? "null" : word.reply_to);
  out.integer("seenSeq", static_cast<std::int64_t>(word.seen_seq));
  return out.text();
}

PersonsWord read_word(std::string_view stored, std::optional<std::string> topic) {
  const std::string_view reply_to = json::find(stored, "replyTo").value_or("null");
  return {.reply_to = reply_to == "null" ? "" : std::string(reply_to),
          .topic = std::move(topic),
          .seen_seq = static_cast<std::uint64_t>(json::int_at(stored, "seenSeq").value_or(0))};
}

}  // namespace sessiond::decide
