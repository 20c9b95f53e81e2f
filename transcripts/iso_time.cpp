// Writes times as JavaScript's toISOString does, and reads what foreign programs write: offsets, no zone, any fraction.
#include <algorithm>
#include <chrono>
#include <cstddef>

#include "transcripts/entry.hpp"

namespace sessiond::transcripts {
namespace {

void put_digits(char* at, std::int64_t number, std::size_t digits) {
  for (std::size_t i = digits; i-- > 0; number /= 10) at[i] = static_cast<char>('0' + number % 10);
}

class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}

  std::optional<int> number(std::size_t digits) {
    if (rest_.size() < digits) return {};
    int value = 0;
    for (const char c : rest_.substr(0, digits)) {
      if (c < '0' || c > '9') return {};
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(digits);
    return value;
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool at_digit() const { return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// Reads ms after "." or ",". Digits after the third are dropped.
std::optional<int> fraction(TimeReader& reader) {
  if (!reader.at_digit()) return {};
  int ms = 0;
  for (int weight = 100; reader.at_digit(); weight /= 10) ms += *reader.number(1) * weight;
  return ms;
}

// Reads "Z", "+02:00", "+0200", or nothing (UTC). Returns the minutes to subtract.
std::optional<int> zone(TimeReader& reader) {
  if (reader.done() || reader.take('Z') || reader.take('z')) return 0;
  const bool east = reader.take('+');
  if (!east && !reader.take('-')) return {};
  const auto hours = reader.number(2);
  reader.take(':');
  const auto minutes = reader.number(2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return {};
  return (east ? 1 : -1) * (*hours * 60 + *minutes);
}

}  // namespace

std::string iso_time(std::int64_t ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> time{milliseconds(std::clamp(ms, std::int64_t{0}, store::last_time_ms))};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  std::int64_t left = (time - day).count();
  std::string text = "0000-00-00T00:00:00.000Z";
  put_digits(&text[0], static_cast<int>(date.year()), 4);
  put_digits(&text[5], static_cast<unsigned>(date.month()), 2);
  put_digits(&text[8], static_cast<unsigned>(date.day()), 2);
  put_digits(&text[20], left % 1000, 3);
  left /= 1000;
  put_digits(&text[17], left % 60, 2);
  put_digits(&text[14], left / 60 % 60, 2);
  put_digits(&text[11], left / 3600, 2);
  return text;
}

std::optional<std::int64_t> parse_iso_time(std::string_view text) {
  using namespace std::chrono;
  TimeReader reader(text);
  const auto years = reader.number(4);
  if (!years || !reader.take('-')) return {};
  const auto months = reader.number(2);
  if (!months || !reader.take('-')) return {};
  const auto date_days = reader.number(2);
  if (!date_days || !(reader.take('T') || reader.take('t') || reader.take(' '))) return {};
  const auto hours = reader.number(2);
  if (!hours || !reader.take(':')) return {};
  const auto minutes_past = reader.number(2);
  std::optional<int> seconds_past = 0;
  std::optional<int> ms = 0;
  if (reader.take(':')) {
    seconds_past = reader.number(2);
    if (reader.take('.') || reader.take(',')) ms = fraction(reader);
  }
  if (!minutes_past || !seconds_past || !ms) return {};
  const auto offset = zone(reader);
  if (!offset || !reader.done()) return {};
  const year_month_day date{year(*years), month(static_cast<unsigned>(*months)),
                            day(static_cast<unsigned>(*date_days))};
  if (!date.ok() || *hours > 23 || *minutes_past > 59 || *seconds_past > 59) return {};
  const auto time = sys_days(date) + std::chrono::hours(*hours) + minutes(*minutes_past - *offset) +
                    seconds(*seconds_past) + milliseconds(*ms);
  return duration_cast<milliseconds>(time.time_since_epoch()).count();
}

}  // namespace sessiond::transcripts
