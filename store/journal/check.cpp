#include "store/journal/check.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "store/files.hpp"
#include "store/journal/index.hpp"
#include "store/journal/scan.hpp"

namespace sessiond::journal {

Checker::Checker(const Catalog& catalog, std::function<void(const JournalCheck&)> on_check)
    : catalog_(catalog), on_check_(std::move(on_check)) {
  std::vector<Segment> segments = catalog.sealed();
  progress_.of_segments = segments.size();
  for (const Segment& segment : segments) progress_.of_bytes += segment.end;
  if (segments.empty()) return;
  thread_ = std::thread([this, segments = std::move(segments)] { run(segments); });
}

Checker::~Checker() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

JournalCheck Checker::progress() const {
  const std::scoped_lock lock(mutex_);
  return progress_;
}

void Checker::run(const std::vector<Segment>& segments) {
  constexpr int nice = 10;
  static_cast<void>(
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), nice));  // of this thread; failing does no harm
  for (const Segment& segment : segments) {
    JournalCheck now = progress();
    now.damage.clear();
    check_segment(segment, now);
    if (stopping_) return;
    ++now.segments;
    now.bytes += segment.end;
    {
      const std::scoped_lock lock(mutex_);
      progress_ = now;
    }
    if (on_check_) on_check_(now);
  }
}

// A segment that cannot be opened or read is skipped: retention may have just removed it, and a reader would report it.
void Checker::check_segment(const Segment& segment, JournalCheck& now) {
  const auto file = store::open_file(segment.path, O_RDONLY | O_NONBLOCK);
  if (!file) return;
  auto read = check_lines(file->get(), segment.path.native(), segment.end, stopping_);
  if (!read || stopping_ || !catalog_.holds(segment.serial)) return;
  for (const Damage& damage : read->damages) {
    now.damage = damaged_at(segment.path, damage.offset);
    catalog_.note_damage(segment.path, now.damage);
  }
  if (!read->damages.empty()) return;
  const auto index = load_index(segment.path);
  if (index && index->first == segment.name.first && index->next == segment.next) return;
  const SealedIndex made{
      .first = segment.name.first, .next = segment.next, .end = segment.end, .index = std::move(read->index)};
  if (save_index(segment.path, made)) ++now.indexes_made;
}

}  // namespace sessiond::journal
