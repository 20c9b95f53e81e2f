#include "store/journal/age_clock.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <fstream>

#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::journal {
namespace {

constexpr std::int64_t marks_an_age = 64;
constexpr std::int64_t longest = 1LL << 50;  // ms; nothing that is read or added overflows

}  // namespace

AgeClock::Machine AgeClock::this_machine() {
  timespec since{};
  ::clock_gettime(CLOCK_BOOTTIME, &since);
  static const std::string boot = [] {
    std::string id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
    return id;
  }();
  return {.boot = boot,
          .since_boot_ms = static_cast<std::int64_t>(since.tv_sec) * 1000 + since.tv_nsec / 1'000'000,
          .wall_ms = store::unix_ms()};
}

std::unique_ptr<AgeClock> AgeClock::open(std::filesystem::path path, std::int64_t newest, std::uint64_t head,
                                         Look look) {
  std::unique_ptr<AgeClock> clock(new AgeClock(std::move(path), std::move(look)));
  const Machine machine = clock->look_();
  const auto text = store::read_file(clock->path_);
  if (!text ||
      !clock->read(*text, machine)) {  // no usable file: the time since `newest` counts as far as this boot is old
    const std::int64_t since = std::clamp<std::int64_t>(machine.wall_ms - newest, 0, machine.since_boot_ms);
    clock->ahead_ = (newest > 0 ? newest + since : std::max<std::int64_t>(machine.wall_ms, 0)) - machine.since_boot_ms;
  }
  clock->ahead_ = std::max(clock->ahead_, std::min(newest, longest) - machine.since_boot_ms);
  std::erase_if(clock->marks_,
                [&](const Mark& mark) { return mark.head > head; });  // of a journal that has lost its end
  static_cast<void>(clock->write());
  return clock;
}

Result<void> AgeClock::read(std::string_view text, const Machine& machine) {
  const auto bad = [] { return fail(Code::degraded, "not a clock"); };
  if (!json::check(text)) return bad();
  const auto time = json::int_at(text, "time");
  const auto since = json::int_at(text, "sinceBoot");
  const auto in_range = [](const std::optional<std::int64_t>& value) {
    return value && *value >= 0 && *value < longest;
  };
  if (!in_range(time) || !in_range(since)) return bad();
  const bool same_boot = json::string_at(text, "boot") == machine.boot && *since <= machine.since_boot_ms;
  ahead_ = *time - (same_boot ? *since : 0);
  for (const auto element : json::elements(json::find(text, "marks").value_or("[]"))) {
    const auto at = json::int_at(element, "time");
    const auto head = json::int_at(element, "head");
    if (!in_range(at) || !head || *head < 0 || *at > *time || (!marks_.empty() && *at < marks_.back().time)) continue;
    marks_.push_back({*at, static_cast<std::uint64_t>(*head)});
  }
  return {};
}

std::int64_t AgeClock::now() const { return look_().since_boot_ms + ahead_; }

std::int64_t AgeClock::rest_of(std::int64_t length_ms, std::int64_t wall, std::int64_t age) const {
  const std::int64_t passed = std::min(look_().wall_ms - wall, age == 0 ? longest : now() - age);
  return std::clamp<std::int64_t>(length_ms - passed, 0, length_ms);
}

std::uint64_t AgeClock::older_than(std::int64_t age_ms, std::uint64_t head) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t time = now();
  if (marks_.empty() || time - marks_.back().time >= age_ms / marks_an_age) {
    marks_.push_back({time, head});
    static_cast<void>(write());
  }
  while (marks_.size() > 1 && marks_[1].time <= time - age_ms) marks_.pop_front();
  return marks_.front().time <= time - age_ms ? marks_.front().head : 0;
}

Result<void> AgeClock::write() const {
  const Machine machine = look_();
  std::string marks = "[";
  for (const Mark& mark : marks_)
    marks += fmt::format(R"({}{{"time":{},"head":{}}})", marks.size() > 1 ? "," : "", mark.time, mark.head);
  std::string text;
  json::ObjectWriter writer(text);
  writer.string("boot", machine.boot);
  writer.integer("sinceBoot", machine.since_boot_ms);
  writer.integer("time", machine.since_boot_ms + ahead_);
  writer.raw("marks", marks + "]");
  writer.close();
  return store::replace_file(path_, text + "\n");
}

}  // namespace sessiond::journal
