#include "store/journal/log.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "store/fault_point.hpp"
#include "store/journal/line.hpp"
#include "store/seal/keys.hpp"
#include "store/try.hpp"

namespace sessiond::journal {
namespace {

constexpr std::size_t line_kept = 16ULL << 20;  // a longer line's memory is freed

SegmentWriter::Ops ops_of(const JournalOptions& options) {
  return options.file_ops ? options.file_ops : std::make_shared<const JournalFileOps>();
}

}  // namespace

Log::Log(const JournalOptions& options, Catalog& catalog, SegmentWriter::Ops ops)
    : dir_(options.dir), segment_bytes_(options.segment_bytes), ops_(std::move(ops)), catalog_(catalog) {}

Log::~Log() {
  if (writer_) writer_->cut_zeros();
}

Result<Segment> Log::create_first(const JournalOptions& options) {
  const SegmentName name{.first = std::max<std::uint64_t>(options.first_seq, 1), .turn = 0};
  Segment segment{
      .name = name, .path = options.dir / to_string(name), .next = name.first, .end = 0, .index = SparseIndex{}};
  TRY(const auto made, SegmentWriter::create(segment.path, "", ops_of(options)));
  return segment;
}

Result<std::unique_ptr<Log>> Log::open(const JournalOptions& options, const Recovered& recovered, Catalog& catalog) {
  std::unique_ptr<Log> log(new Log(options, catalog, ops_of(options)));
  const Segment& live = recovered.segments.back();
  TRY(log->writer_, SegmentWriter::reopen(live.path, live.end, log->ops_));
  return log;
}

BatchOutcome Log::write(std::span<const Commit> commits) {
  assert(writable() && commits.front().first_seq == catalog_.head() + 1);
  BatchOutcome outcome;
  if (auto reserved = seal::reserve(); !reserved) {
    outcome.kind = BatchOutcome::Kind::not_stored;
    outcome.problem = std::move(reserved.error());
    return outcome;
  }
  build_line(line_, commits);
  outcome.bytes = line_.size();
  const std::uint64_t first = commits.front().first_seq;
  const std::uint64_t next = commits.back().first_seq + commits.back().events.size();
  const auto started = std::chrono::steady_clock::now();
  if (auto written = write_line(first, next); !written) give_up(written.error(), outcome);
  outcome.sync_ns = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - started).count());
  if (line_.capacity() > line_kept) line_ = {};
  return outcome;
}

void Log::write_zeros() {
  if (writer_) writer_->write_zeros(segment_bytes_);
}

Result<void> Log::write_line(std::uint64_t first, std::uint64_t next) {
  // A segment without an event is not followed by another: that would have the same first seq and override it.
  const bool full = writer_->end() > 0 && writer_->end() + line_.size() > segment_bytes_;
  if (full && catalog_.head() >= catalog_.live().name.first)
    if (auto begun = begin_segment(false); !begun) {
      writer_.reset();  // a file of the new name may exist, and would override what is appended here
      return begun;
    }
  TRY(writer_->append(line_));
  catalog_.extend(first, next, line_.size());
  return {};
}

Result<void> Log::begin_segment(bool overrides) {
  const std::uint64_t first = catalog_.head() + 1;
  TRY(auto names, list_segments(dir_));
  SegmentName name{.first = first, .turn = 0};
  for (const SegmentName& taken : names)
    if (taken.first == first) name.turn = taken.turn + 1;  // they come in order
  const auto path = dir_ / to_string(name);
  TRY(const auto start, overrides ? override_start() : Result<std::string>{});
  if (writer_) writer_->cut_zeros();  // before the new segment is durable, so that a sealed one seldom keeps any
  TRY(auto writer, SegmentWriter::create(path, start, ops_));
  Segment segment{.name = name, .path = path, .next = first, .end = writer.end(), .index = SparseIndex{}};
  if (writer.end() > 0) segment.index->add(first, 0);
  writer_ = std::move(writer);
  store::fault_point("journal.segment_begun");
  catalog_.begin(std::move(segment));
  return {};
}

// The beginning of an overriding segment: its mark, then the durable batches that must stay although it overrides them.
// Those are batches without events, in a segment that has no others.
Result<std::string> Log::override_start() const {
  const std::uint64_t first = catalog_.head() + 1;
  const Segment live = catalog_.live();
  std::string start = override_line(first);
  if (live.name.first < first || live.end == 0) return start;
  TRY(const auto file, store::open_file(live.path, O_RDONLY));
  TRY(const auto kept, store::read_at(file.get(), 0, live.end, live.path.native()));
  return start + kept;
}

Result<void> Log::override_from_head() { return begin_segment(true); }

void Log::give_up(const Problem& cause, BatchOutcome& outcome) {
  const bool sound = writer_ && writer_->sound();
  if (writer_ && !sound) writer_->abandon();
  if (!sound) writer_.reset();
  store::fault_point("journal.abandoned");
  const auto overridden = sound ? Result<void>{} : override_from_head();
  if (overridden) {
    store::fault_point("journal.overridden");
    outcome.kind = BatchOutcome::Kind::not_stored;
    outcome.problem = {.code = cause.code == Code::storage_full ? Code::storage_full : Code::degraded,
                       .detail = cause.detail};
  } else {
    outcome.kind = BatchOutcome::Kind::outcome_unknown;
    outcome.problem = {.code = Code::outcome_unknown, .detail = cause.detail + "; then: " + overridden.error().detail};
  }
}

}  // namespace sessiond::journal
