#include "daemon/decide/takeover.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sessiond::decide {
namespace {

runs::Address address_at(const std::string& reply_to, const std::optional<std::string>& topic) {
  return {.reply_to = reply_to, .topic = topic ? std::string_view(*topic) : std::string_view()};
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

}  // namespace sessiond::decide
