#include "store/journal/scan.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <string_view>

#include "store/files.hpp"
#include "store/journal/line.hpp"
#include "store/line_reader.hpp"
#include "store/try.hpp"

namespace sessiond::journal {
namespace {

// Damage that follows the last one continues it.
void add_damage(std::vector<Damage>& damages, const Damage& damage) {
  if (damages.empty() || damages.back().end != damage.offset) return damages.push_back(damage);
  damages.back().end = damage.end;
  damages.back().one_line = false;
}

class Scanner {
 public:
  Scanner(std::uint64_t first, std::uint64_t until) : expected_(first), until_(until) {}

  bool done() const { return done_; }

  void line(std::uint64_t offset, std::string_view text, bool ended) {
    const auto good = ended ? parse_line(text) : std::nullopt;
    // A batch at `until` without events may be older than the overriding segment, so it is kept. It does no harm.
    if (expected_ >= until_ && !(good && good->first == until_ && good->next == until_)) {
      done_ = true;
      return;
    }
    if (good) return batch(offset, text.size() + 1, *good);
    const std::size_t lost_newline = line_start_within(text);
    if (lost_newline == std::string_view::npos) return damage(offset, text.size() + (ended ? 1 : 0), true);
    damage(offset, lost_newline, false);
    line(offset + lost_newline, text.substr(lost_newline), ended);
  }

  Scan take() { return std::move(scan_); }

 private:
  void batch(std::uint64_t offset, std::uint64_t length, const Line& line) {
    if (line.first >= until_ && expected_ < until_) {
      done_ = true;
      return;
    }
    const bool after_damage = !scan_.damages.empty() && scan_.damages.back().end == offset;
    if (line.first != expected_ && !(after_damage && line.first >= expected_)) return damage(offset, length, false);
    if (scan_.runs.empty() || after_damage) scan_.runs.push_back({.offset = offset, .first = line.first});
    Run& run = scan_.runs.back();
    run.index.add(line.first, offset - run.offset);
    run.end = offset + length;
    run.next = expected_ = line.next;
  }

  void damage(std::uint64_t offset, std::uint64_t length, bool one_line) {
    add_damage(scan_.damages, {.offset = offset, .end = offset + length, .one_line = one_line});
  }

  std::uint64_t expected_;
  std::uint64_t until_;
  bool done_ = false;
  Scan scan_{};
};

}  // namespace

std::string damaged_at(const std::filesystem::path& segment, std::uint64_t offset) {
  return fmt::format("{} is damaged at offset {}", segment.native(), offset);
}

Result<Scan> scan_segment(int fd, const std::string& name, std::uint64_t first, std::uint64_t until) {
  TRY(const auto status, store::status_of(fd, name));
  auto size = static_cast<std::uint64_t>(status.st_size);
  store::SequentialLines reader(fd, 0, size, name);
  Scanner scanner(first, until);
  while (!scanner.done()) {
    TRY(const auto raw, reader.next());
    if (!raw) break;
    if (raw->ended) {
      scanner.line(raw->offset, raw->text, true);
      continue;
    }
    // No line has a NUL byte: the zeros at the end were written for lines to come.
    const std::string_view text = raw->text.substr(0, raw->text.find_last_not_of('\0') + 1);
    size = raw->offset + text.size();
    if (!text.empty()) scanner.line(raw->offset, text, false);
  }
  Scan scan = scanner.take();
  scan.size = size;
  return scan;
}

Result<CheckedLines> check_lines(int fd, const std::string& name, std::uint64_t end, const std::atomic<bool>& stop) {
  store::SequentialLines reader(fd, 0, end, name);
  CheckedLines out;
  std::uint64_t least = 0;
  std::uint64_t at = 0;
  while (!stop) {
    TRY(const auto raw, reader.next());
    if (!raw) break;
    const auto [offset, text, ended] = *raw;
    at = offset + text.size() + (ended ? 1 : 0);
    const auto seq = ended ? seq_of_line(text) : std::nullopt;
    if (!seq || *seq < least) {
      add_damage(out.damages, {.offset = offset, .end = at, .one_line = false});
      continue;
    }
    least = *seq;
    out.index.add(*seq, offset);
  }
  if (!stop && at < end) add_damage(out.damages, {.offset = at, .end = end, .one_line = false});  // the file was cut
  return out;
}

}  // namespace sessiond::journal
