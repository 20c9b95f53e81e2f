#include "policy/runs/queue.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "policy/overflow.hpp"
#include "policy/usage.hpp"

namespace sessiond::runs {
namespace {

template <class Value, std::size_t N>
using Spellings = std::array<std::pair<std::string_view, Value>, N>;

constexpr Spellings<QueueMode, 7> queue_modes{{{"collect", QueueMode::collect},
                                               {"followup", QueueMode::followup},
                                               {"queue", QueueMode::followup},
                                               {"steer", QueueMode::steer},
                                               {"steer-backlog", QueueMode::steer_backlog},
                                               {"steer+backlog", QueueMode::steer_backlog},
                                               {"interrupt", QueueMode::interrupt}}};
constexpr Spellings<QueueMode, 4> request_modes{{{"reject", QueueMode::reject},
                                                 {"queue", QueueMode::followup},
                                                 {"steer", QueueMode::steer},
                                                 {"interrupt", QueueMode::interrupt}}};
constexpr Spellings<QueueDrop, 3> drops{
    {{"summarize", QueueDrop::summarize}, {"old", QueueDrop::oldest}, {"new", QueueDrop::newest}}};

template <class Value, std::size_t N>
std::optional<Value> value_of(const Spellings<Value, N>& spellings, std::string_view text) {
  const auto found = std::ranges::find(spellings, text, &std::pair<std::string_view, Value>::first);
  return found != spellings.end() ? std::optional(found->second) : std::nullopt;
}

// Returns a member that is an integer from 0 on, at most `most`.
std::optional<std::int64_t> count_at(const json::Index& entry, std::string_view name, std::int64_t most) {
  const auto raw = entry.find(name);
  const auto number = raw ? json::as_int(*raw) : std::nullopt;
  if (!number || *number < 0) return {};
  return std::min(*number, most);
}

std::string_view without_null(std::string_view raw) { return raw == "null" ? std::string_view{} : raw; }

}  // namespace

QueueRules queue_rules(const json::Index& entry) {
  QueueRules rules;
  rules.mode = value_of(queue_modes, entry.string_at("queueMode").value_or("")).value_or(rules.mode);
  rules.debounce_ms = count_at(entry, "queueDebounceMs", longest_debounce_ms).value_or(rules.debounce_ms);
  rules.cap = count_at(entry, "queueCap", most_waiting).value_or(rules.cap);
  rules.drop = value_of(drops, entry.string_at("queueDrop").value_or("")).value_or(rules.drop);
  return rules;
}

std::optional<QueueMode> mode_when_busy(std::string_view when_busy) { return value_of(request_modes, when_busy); }

bool is_same(const Address& a, const Address& b) {
  const std::string_view to_a = without_null(a.reply_to);
  const std::string_view to_b = without_null(b.reply_to);
  if (a.topic != b.topic || to_a.empty() != to_b.empty()) return false;
  return to_a == to_b || json::same(to_a, to_b);
}

BusyStep when_busy(QueueMode mode, bool same_address) {
  switch (mode) {
    case QueueMode::collect:
      return BusyStep::collect;
    case QueueMode::followup:
      return BusyStep::wait;
    case QueueMode::steer:
      return same_address ? BusyStep::steer : BusyStep::wait;
    case QueueMode::steer_backlog:
      return same_address ? BusyStep::steer_and_wait : BusyStep::wait;
    case QueueMode::interrupt:
      return BusyStep::interrupt;
    case QueueMode::reject:
      break;
  }
  return BusyStep::refuse;
}

std::int64_t debounce_of(const QueueRules& rules, QueueMode mode) {
  return mode == QueueMode::collect ? rules.debounce_ms : 0;
}

bool joins(const WaitingRun& waiting, QueueMode mode, const Address& address) {
  return mode == QueueMode::collect && waiting.mode == QueueMode::collect && waiting.origin == Origin::queued &&
         is_same(waiting.address, address);
}

std::size_t place_in_queue(std::span<const Origin> waiting, Origin made) {
  const auto behind = std::ranges::find_if(waiting, [made](Origin origin) { return origin > made; });
  return static_cast<std::size_t>(behind - waiting.begin());
}

Admission admit(const QueueRules& rules, std::int64_t waiting, std::int64_t arriving) {
  const std::int64_t beyond = waiting + arriving - rules.cap;
  if (beyond <= 0) return {};
  if (arriving > rules.cap || rules.drop == QueueDrop::newest) return {.refused = true};
  return {.dropped = std::min(beyond, waiting), .counted = rules.drop == QueueDrop::summarize};
}

void Overflow::add(std::string_view text, std::string entry_id) {
  dropped = policy::add_counted(dropped, 1);
  if (lines.size() == most_lines) lines.pop_front();
  lines.push_back({.text = policy::overflow_line(text), .entry_id = std::move(entry_id)});
}

void Overflow::edit(std::string_view entry_id, std::string_view text) {
  if (const auto line = std::ranges::find(lines, entry_id, &Line::entry_id); line != lines.end())
    line->text = policy::overflow_line(text);
}

void Overflow::forget(std::string_view entry_id) {
  dropped -= static_cast<std::int64_t>(
      std::erase_if(lines, [entry_id](const Line& line) { return line.entry_id == entry_id; }));
}

std::string Overflow::text() const {
  policy::OverflowText told{.dropped = dropped};
  for (const Line& line : lines) told.lines.push_back(line.text);
  return told.text();
}

std::vector<std::string> Overflow::entry_ids() const {
  std::vector<std::string> ids;
  for (const Line& line : lines) ids.push_back(line.entry_id);
  return ids;
}

bool Overflow::is_for(const Address& address) const { return !of || is_same({of->reply_to, of->topic}, address); }

}  // namespace sessiond::runs
