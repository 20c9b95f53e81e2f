#include "store/journal/file_journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "store/journal/catalog.hpp"
#include "store/journal/check.hpp"
#include "store/journal/log.hpp"
#include "store/journal/page.hpp"
#include "store/journal/recovery.hpp"
#include "store/try.hpp"

namespace sessiond::journal {
namespace {

// Bounds of one batch: the first commit in it waits until the last is written.
constexpr std::size_t batch_bytes = 8ULL << 20;
constexpr std::size_t batch_commits = 4096;
constexpr std::size_t position_bytes = 128;  // of a line position without its line, about

std::size_t size_of(const Commit& commit) {
  std::size_t bytes = 0;
  for (const Bytes& event : commit.events) bytes += event->size() + 1;
  for (const std::string& answer : commit.answers) bytes += answer.size() + 1;
  for (const LinePosition& position : commit.line_positions) bytes += position_bytes + position.line.size();
  return bytes;
}

std::uint64_t next_of(const Commit& commit) { return commit.first_seq + commit.events.size(); }

}  // namespace

struct FileJournal::Impl {
  // Commits of one generation: appended between two resume()s.
  struct Waiting {
    std::uint64_t generation = 0;
    std::vector<Commit> commits{};
  };

  Impl(JournalOptions given, Recovered found)
      : options(std::move(given)), recovered(std::move(found)), catalog(recovered.segments) {
    for (const std::string& what : recovered.report.damage) catalog.note_damage({}, what);
  }

  void run();
  void write_zeros();
  void write_all(Waiting waiting);
  BatchOutcome write(std::uint64_t generation, std::span<const Commit> commits);
  void deliver(BatchOutcome outcome, std::span<Commit> commits, std::uint64_t generation);

  JournalOptions options;
  Recovered recovered;
  Catalog catalog;

  std::mutex log_mutex;  // held during disk writes, never during on_batch
  std::unique_ptr<Log> log;
  // The last batch that failed. Commits of its generation and older ones fail like it.
  struct Failure {
    std::uint64_t generation = 0;
    BatchOutcome::Kind kind = BatchOutcome::Kind::not_stored;
    Problem problem{};
  };
  std::optional<Failure> failure;

  std::mutex queue_mutex;
  std::condition_variable filled;
  OnBatch on_batch{};  // set before the first append, so the thread sees it
  std::vector<Waiting> queue;
  std::uint64_t generation = 0;
  bool sleeping = false;
  bool stopping = false;

  std::thread thread;
  std::optional<Checker> checker;  // last: destroyed first
};

void FileJournal::Impl::run() {
  for (;;) {
    std::vector<Waiting> taken;
    {
      std::unique_lock lock(queue_mutex);
      sleeping = true;
      filled.wait(lock, [&] { return stopping || !queue.empty(); });
      sleeping = false;
      if (queue.empty()) return;
      taken.swap(queue);
    }
    for (Waiting& waiting : taken) write_all(std::move(waiting));
    write_zeros();
  }
}

void FileJournal::Impl::write_zeros() {
  {
    const std::scoped_lock lock(queue_mutex);
    if (stopping || !queue.empty()) return;
  }
  const std::scoped_lock lock(log_mutex);
  log->write_zeros();
}

void FileJournal::Impl::write_all(Waiting waiting) {
  std::span<Commit> rest = waiting.commits;
  while (!rest.empty()) {
    std::size_t count = 0;
    std::size_t bytes = 0;
    while (count < rest.size() && count < batch_commits && (count == 0 || bytes < batch_bytes)) {
      if (count > 0 && rest[count].first_seq != next_of(rest[count - 1])) break;
      bytes += size_of(rest[count++]);
    }
    BatchOutcome outcome = write(waiting.generation, rest.first(count));
    // Everything behind a failure fails with it.
    if (outcome.kind != BatchOutcome::Kind::durable) count = rest.size();
    deliver(std::move(outcome), rest.first(count), waiting.generation);
    rest = rest.subspan(count);
  }
}

BatchOutcome FileJournal::Impl::write(std::uint64_t of_generation, std::span<const Commit> commits) {
  const std::scoped_lock lock(log_mutex);
  BatchOutcome outcome;
  if (failure && of_generation <= failure->generation) {
    outcome.kind = failure->kind;
    outcome.problem = failure->problem;
    return outcome;
  }
  const std::uint64_t expected = catalog.head() + 1;
  if (commits.front().first_seq == expected) {
    outcome = log->write(commits);
  } else {
    outcome.kind = BatchOutcome::Kind::not_stored;
    outcome.problem = {.code = Code::internal,
                       .detail = fmt::format("a commit begins at seq {}, but the next seq is {}",
                                             commits.front().first_seq, expected)};
  }
  if (outcome.kind != BatchOutcome::Kind::durable)
    failure = Failure{.generation = of_generation, .kind = outcome.kind, .problem = outcome.problem};
  return outcome;
}

void FileJournal::Impl::deliver(BatchOutcome outcome, std::span<Commit> commits, std::uint64_t of_generation) {
  outcome.first = commits.front().first_seq;
  outcome.last = next_of(commits.back()) - 1;
  outcome.generation = of_generation;
  outcome.commits.assign(std::move_iterator(commits.begin()), std::move_iterator(commits.end()));
  if (on_batch) on_batch(std::move(outcome));
}

Result<std::unique_ptr<FileJournal>> FileJournal::open(JournalOptions options) {
  TRY(auto recovered, recover(options));
  if (recovered.segments.empty()) {
    TRY(auto first, Log::create_first(options));
    recovered.segments.push_back(std::move(first));
  }
  auto impl = std::make_unique<Impl>(std::move(options), std::move(recovered));
  TRY(impl->log, Log::open(impl->options, impl->recovered, impl->catalog));
  impl->recovered.segments.clear();
  impl->thread = std::thread([running = impl.get()] { running->run(); });
  impl->checker.emplace(impl->catalog, impl->options.on_check);
  return std::unique_ptr<FileJournal>(new FileJournal(std::move(impl)));
}

FileJournal::FileJournal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FileJournal::~FileJournal() {
  {
    const std::scoped_lock lock(impl_->queue_mutex);
    impl_->stopping = true;
  }
  impl_->filled.notify_one();
  impl_->thread.join();
  impl_->checker.reset();
}

const JournalReport& FileJournal::report() const { return impl_->recovered.report; }
const std::string& FileJournal::epoch() const { return impl_->recovered.epoch; }
std::uint64_t FileJournal::head() const { return impl_->catalog.head(); }
std::uint64_t FileJournal::oldest() const { return impl_->catalog.oldest(); }
std::uint64_t FileJournal::bytes_after(std::uint64_t seq) const { return impl_->catalog.bytes_after(seq); }

std::vector<std::string> FileJournal::damage() const { return impl_->catalog.damage(); }
JournalCheck FileJournal::check() const { return impl_->checker->progress(); }

void FileJournal::tail(OnBatch on_batch) {
  const std::scoped_lock lock(impl_->queue_mutex);
  assert(!impl_->on_batch && impl_->queue.empty());
  impl_->on_batch = std::move(on_batch);
}

void FileJournal::append(std::vector<Commit> commits) {
  bool wake = false;
  {
    const std::scoped_lock lock(impl_->queue_mutex);
    auto& queue = impl_->queue;
    if (queue.empty() || queue.back().generation != impl_->generation)
      queue.push_back({.generation = impl_->generation});
    std::ranges::move(commits, std::back_inserter(queue.back().commits));
    wake = std::exchange(impl_->sleeping, false);
  }
  if (wake) impl_->filled.notify_one();
}

Result<void> FileJournal::resume() {
  const std::scoped_lock lock(impl_->log_mutex);
  if (!impl_->failure) return {};
  if (!impl_->log->writable()) TRY(impl_->log->override_from_head());
  const std::scoped_lock queue_lock(impl_->queue_mutex);
  if (impl_->failure->generation == impl_->generation) ++impl_->generation;
  return {};
}

Result<EventsRead> FileJournal::each_event(std::uint64_t from, std::size_t max_bytes, const OnEvent& take) const {
  return read_events(impl_->catalog, from, max_bytes, take);
}

Result<JournalPage> FileJournal::read(std::uint64_t from, std::size_t max_bytes) const {
  return read_page(impl_->catalog, impl_->recovered.lost, from, max_bytes);
}

Result<std::uint64_t> FileJournal::each_segment(const OnSegment& call) const { return impl_->catalog.each(call); }

void FileJournal::release(std::uint64_t seq, std::uint64_t old) {
  impl_->catalog.retain(seq, old, impl_->options.max_bytes);
}

}  // namespace sessiond::journal
