#include "policy/context/call_book.hpp"

#include <iterator>
#include <span>
#include <utility>

namespace sessiond::context {

std::int64_t Taken::tokens(const Entry& entry) const {
  if (owners.empty() || whole) return entry.tokens;
  std::int64_t sum = entry.role == Role::tool ? 0 : entry.word_tokens;
  for (std::size_t at = 0; at < owners.size(); ++at)
    if (owners[at].is_shown()) sum += entry.results[at].tokens;
  return sum;
}

Owner CallBook::give(const ToolResult& result, bool made) {
  const auto found = calls_.find(result.call_id);
  if (found == calls_.end()) return {};
  Calls& calls = found->second;
  const bool answers = !calls.open.empty();
  if (!answers && (made || calls.made.empty())) return {.fate = Fate::duplicate};
  std::list<KeptCall>& from = answers ? calls.open : calls.made;
  KeptCall& call = from.front();
  const Owner owner{.fate = answers ? Fate::answers : Fate::replaces,
                    .message = call.message,
                    .place = call.place,
                    .counted = call.counted};
  if (made) {
    call.answered = true;
    call.counted = result.tokens;
    calls.made.splice(calls.made.end(), from, from.begin());
  } else {
    from.pop_front();
  }
  return owner;
}

Taken CallBook::take(const Entry& entry) {
  Taken taken;
  // A result that was made may be replaced, so it stands alone.
  const bool alone = entry.role == Role::tool && entry.results.size() == 1;
  taken.whole = follows_ && !entry.results.empty() && (!entry.synthetic || alone);
  for (const ToolResult& result : entry.results) {
    Owner owner = give(result, entry.synthetic);
    owner.behind = follows_ && owner.is_shown() && owner.message + 1 == messages_;
    taken.whole = taken.whole && owner.fate == Fate::answers && owner.behind;
    taken.owners.push_back(owner);
  }
  if (entry.calls.empty()) {
    if (entry.role != Role::tool) follows_ = false;  // its words are the last thing behind the calls
    return taken;
  }
  const std::size_t skipped = entry.calls.size() > limits_.most ? entry.calls.size() - limits_.most : 0;
  if (skipped != 0) forgot_ = messages_ + 1;
  for (std::size_t place = skipped; place < entry.calls.size(); ++place) {
    const ToolCall& call = entry.calls[place];
    if (call.id.size() > limits_.longest || call.name.size() > limits_.longest) {
      forgot_ = messages_ + 1;
      continue;
    }
    Calls& calls = calls_[call.id];
    if (calls.message != messages_) calls = {.message = messages_};
    calls.open.push_back(
        {.id = call.id, .name = call.name, .spelling = call.spelling, .message = messages_, .place = place});
  }
  ++messages_;
  follows_ = true;
  if (limits_.most != Limits().most) forget();
  return taken;
}

void CallBook::forget() {
  std::size_t size = 0;
  std::erase_if(calls_, [&size](const auto& group) {
    size += group.second.open.size() + group.second.made.size();
    return group.second.open.empty() && group.second.made.empty();
  });
  if (size <= limits_.most) return;
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  each([&order](const KeptCall& call) { order.emplace_back(call.message, call.place); });
  const auto first = order.end() - static_cast<std::ptrdiff_t>(limits_.most);
  std::ranges::nth_element(order, first);
  const auto is_old = [&first](const KeptCall& call) { return std::pair(call.message, call.place) < *first; };
  for (const auto& old : std::span(order).first(order.size() - limits_.most))
    forgot_ = std::max(forgot_, old.first + 1);
  for (auto& [id, calls] : calls_) {
    calls.open.remove_if(is_old);
    calls.made.remove_if(is_old);
  }
}

std::vector<KeptCall> CallBook::open(bool answered) const {
  std::vector<KeptCall> out;
  for (const auto& [id, calls] : calls_) {
    std::ranges::copy(calls.open, std::back_inserter(out));
    if (answered) std::ranges::copy(calls.made, std::back_inserter(out));
  }
  std::ranges::sort(out, {}, [](const KeptCall& call) { return std::pair(call.message, call.place); });
  return out;
}

bool CallBook::has_open(std::uint64_t since) const {
  return std::ranges::any_of(
      calls_, [since](const auto& group) { return group.second.message >= since && !group.second.open.empty(); });
}

void CallBook::resume(const std::vector<KeptCall>& open, std::uint64_t messages, bool follows, std::uint64_t forgot) {
  for (const KeptCall& call : open) {
    Calls& calls = calls_[call.id];
    calls.message = call.message;
    (call.answered ? calls.made : calls.open).push_back(call);
  }
  messages_ = messages;
  follows_ = follows;
  forgot_ = forgot;
}

}  // namespace sessiond::context
