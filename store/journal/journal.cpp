#include "store/journal/journal.hpp"

#include <fmt/format.h>

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

namespace sessiond {
namespace {

// Bounds of one batch: how long those who wait for the first commit in it wait for the last.
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

struct Journal::Impl {
  // Commits of one generation: those appended between two resume()s.
  struct Waiting {
    std::uint64_t generation = 0;
    std::vector<Commit> commits{};
  };

  Impl(JournalOptions given, OnBatch call, journal::Recovered found)
      : options(std::move(given)), on_batch(std::move(call)), recovered(std::move(found)), catalog(recovered.segments) {
    for (const std::string& what : recovered.report.damage) catalog.note_damage({}, what);
  }

  void run();
  void write_all(Waiting waiting);
  BatchOutcome write(std::uint64_t generation, std::span<const Commit> commits);
  void deliver(BatchOutcome outcome, std::span<Commit> commits, std::uint64_t generation);

  JournalOptions options;
  OnBatch on_batch;
  journal::Recovered recovered;
  journal::Catalog catalog;

  std::mutex log_mutex;  // held while the disk is written; never while on_batch runs
  std::unique_ptr<journal::Log> log;
  // The last batch that was not stored: commits of its generation and older ones are given back as it was.
  struct Failure {
    std::uint64_t generation = 0;
    BatchOutcome::Kind kind = BatchOutcome::Kind::not_stored;
    Problem problem{};
  };
  std::optional<Failure> failure;

  std::mutex queue_mutex;
  std::condition_variable filled;
  std::condition_variable drained;
  std::vector<Waiting> queue;
  std::uint64_t generation = 0;
  std::uint64_t appended = 0;
  std::uint64_t finished = 0;
  bool sleeping = false;
  bool stopping = false;

  std::thread thread;
  std::optional<journal::Checker> checker;  // last: it ends first
};

void Journal::Impl::run() {
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
  }
}

void Journal::Impl::write_all(Waiting waiting) {
  std::span<Commit> rest = waiting.commits;
  while (!rest.empty()) {
    std::size_t count = 0;
    std::size_t bytes = 0;
    while (count < rest.size() && count < batch_commits && (count == 0 || bytes < batch_bytes)) {
      if (count > 0 && rest[count].first_seq != next_of(rest[count - 1])) break;
      bytes += size_of(rest[count++]);
    }
    BatchOutcome outcome = write(waiting.generation, rest.first(count));
    // Everything behind a failure is given back with it.
    if (outcome.kind != BatchOutcome::Kind::durable) count = rest.size();
    deliver(std::move(outcome), rest.first(count), waiting.generation);
    rest = rest.subspan(count);
  }
}

BatchOutcome Journal::Impl::write(std::uint64_t of_generation, std::span<const Commit> commits) {
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
    outcome.problem = {
        .code = Code::internal,
        .detail = fmt::format("the journal was given seq {} where {} follows", commits.front().first_seq, expected)};
  }
  if (outcome.kind != BatchOutcome::Kind::durable)
    failure = Failure{.generation = of_generation, .kind = outcome.kind, .problem = outcome.problem};
  return outcome;
}

void Journal::Impl::deliver(BatchOutcome outcome, std::span<Commit> commits, std::uint64_t of_generation) {
  outcome.first = commits.front().first_seq;
  outcome.last = next_of(commits.back()) - 1;
  outcome.generation = of_generation;
  outcome.commits.assign(std::move_iterator(commits.begin()), std::move_iterator(commits.end()));
  on_batch(std::move(outcome));
  const std::scoped_lock lock(queue_mutex);
  finished += commits.size();
  drained.notify_all();
}

Result<std::unique_ptr<Journal>> Journal::open(JournalOptions options, OnBatch on_batch) {
  auto recovered = journal::recover(options);
  if (!recovered) return std::unexpected(recovered.error());
  if (recovered->segments.empty()) {
    auto first = journal::Log::create_first(options);
    if (!first) return std::unexpected(first.error());
    recovered->segments.push_back(std::move(*first));
  }
  auto impl = std::make_unique<Impl>(std::move(options), std::move(on_batch), std::move(*recovered));
  auto log = journal::Log::open(impl->options, impl->recovered, impl->catalog);
  if (!log) return std::unexpected(log.error());
  impl->log = std::move(*log);
  impl->recovered.segments.clear();
  impl->thread = std::thread([running = impl.get()] { running->run(); });
  impl->checker.emplace(impl->catalog, impl->options.on_check);
  return std::unique_ptr<Journal>(new Journal(std::move(impl)));
}

Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Journal::~Journal() {
  {
    const std::scoped_lock lock(impl_->queue_mutex);
    impl_->stopping = true;
  }
  impl_->filled.notify_one();
  impl_->thread.join();
  impl_->checker.reset();
}

const JournalReport& Journal::report() const { return impl_->recovered.report; }
const std::string& Journal::epoch() const { return impl_->recovered.epoch; }
std::uint64_t Journal::head() const { return impl_->catalog.head(); }
std::uint64_t Journal::oldest() const { return impl_->catalog.oldest(); }
std::uint64_t Journal::bytes_after(std::uint64_t seq) const { return impl_->catalog.bytes_after(seq); }

std::vector<std::string> Journal::damage() const { return impl_->catalog.damage(); }
JournalCheck Journal::check() const { return impl_->checker->progress(); }

void Journal::append(Commit commit) {
  bool wake = false;
  {
    const std::scoped_lock lock(impl_->queue_mutex);
    auto& queue = impl_->queue;
    if (queue.empty() || queue.back().generation != impl_->generation)
      queue.push_back({.generation = impl_->generation});
    queue.back().commits.push_back(std::move(commit));
    ++impl_->appended;
    wake = std::exchange(impl_->sleeping, false);
  }
  if (wake) impl_->filled.notify_one();
}

Result<void> Journal::resume() {
  const std::scoped_lock lock(impl_->log_mutex);
  if (!impl_->failure) return {};
  if (!impl_->log->writable())
    if (auto probed = impl_->log->override_from_head(); !probed) return probed;
  const std::scoped_lock queue_lock(impl_->queue_mutex);
  if (impl_->failure->generation == impl_->generation) ++impl_->generation;
  return {};
}

Result<EventsRead> Journal::each_event(
    std::uint64_t from, std::size_t max_bytes,
    const std::function<void(std::uint64_t seq, std::string_view json)>& take) const {
  return journal::read_events(impl_->catalog, from, max_bytes, take);
}

Result<JournalPage> Journal::read(std::uint64_t from, std::size_t max_bytes) const {
  return journal::read_page(impl_->catalog, impl_->recovered.lost, from, max_bytes);
}

Result<std::uint64_t> Journal::each_segment(
    const std::function<Result<void>(const std::filesystem::path&, std::uint64_t)>& call) const {
  return impl_->catalog.each(call);
}

void Journal::release(std::uint64_t seq, std::uint64_t old) {
  impl_->catalog.retain(seq, old, impl_->options.max_bytes);
}

void Journal::drain() {
  std::unique_lock lock(impl_->queue_mutex);
  const std::uint64_t all = impl_->appended;
  impl_->drained.wait(lock, [&] { return impl_->finished >= all; });
}

}  // namespace sessiond
