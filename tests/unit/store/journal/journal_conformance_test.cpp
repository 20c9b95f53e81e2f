#include "tests/unit/store/journal/journal_conformance.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>

#include "store/journal/file_journal.hpp"

namespace sessiond::journal {
namespace {

using namespace journal_test;

// Journals in files. Knows how many bytes of each file were synced: after a power cut there are no others.
class Files {
 public:
  Files() { reopen(); }

  Journal& journal() { return *journal_; }
  void reopen() {
    journal_.reset();
    journal_ = open(dir_.path());
  }
  std::unique_ptr<Journal> after_crash() {
    copy_.emplace();
    fs::copy(dir_.path(), copy_->path(), fs::copy_options::recursive);
    for (const auto& [name, bytes] : synced_)
      if (fs::exists(copy_->path() / name)) fs::resize_file(copy_->path() / name, bytes);
    return open(copy_->path());
  }
  void fail(Failure how) { failure_ = how; }
  void lose(std::uint64_t seq) {
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      std::string text = *store::read_file(entry.path());
      const std::size_t at = text.find(event_json(seq));
      if (at == std::string::npos || entry.path().extension() != ".jsonl") continue;
      text[at + 1] = '#';
      write_file(entry.path(), text);
    }
  }

 private:
  std::unique_ptr<Journal> open(const fs::path& dir) {
    auto ops = std::make_shared<JournalFileOps>();
    ops->write = [this](int fd, const void* bytes, std::size_t length, off_t at) -> ssize_t {
      Failure once = Failure::not_stored;
      if (!failure_.compare_exchange_strong(once, Failure::none) && failure_ == Failure::none)
        return ::pwrite(fd, bytes, length, at);
      errno = EIO;
      return -1;
    };
    ops->sync = [this, ours = dir == dir_.path()](int fd) {
      struct stat status{};
      if (ours && ::fstat(fd, &status) == 0)
        synced_[fs::read_symlink(fmt::format("/proc/self/fd/{}", fd)).filename()] =
            static_cast<std::uintmax_t>(status.st_size);
      return ::fdatasync(fd);
    };
    auto opened = FileJournal::open({.dir = dir, .segment_bytes = 700, .file_ops = ops});
    REQUIRE_MESSAGE(opened.has_value(), opened.error().detail);
    return std::move(*opened);
  }

  TempDir dir_;
  std::optional<TempDir> copy_;
  std::atomic<Failure> failure_ = Failure::none;
  std::map<fs::path, std::uintmax_t> synced_;  // on the journal's thread
  std::unique_ptr<Journal> journal_;
};

// The remains of a MemoryJournal.
struct Stored {
  std::mutex mutex{};
  std::deque<StoredBatch> batches{};
  std::uint64_t oldest = 1;
  std::uint64_t head = 0;
  std::optional<std::uint64_t> lost{};
};

// The smallest journal that keeps the promises: a batch is one commit.
class MemoryJournal final : public Journal {
 public:
  MemoryJournal(std::shared_ptr<Stored> stored, std::atomic<Failure>& failure)
      : stored_(std::move(stored)), failure_(failure), thread_([this] { run(); }) {}
  ~MemoryJournal() override {
    append({{.first_seq = stop, .events = {}, .answers = {}, .line_positions = {}}});
    thread_.join();
  }

  void append(std::vector<Commit> commits) override {
    const std::scoped_lock lock(queue_mutex_);
    for (Commit& commit : commits) queue_.emplace_back(generation_, std::move(commit));
    filled_.notify_one();
  }
  void tail(OnBatch on_batch) override {
    const std::scoped_lock lock(queue_mutex_);
    on_batch_ = std::move(on_batch);
  }
  Result<void> resume() override {
    const std::scoped_lock lock(queue_mutex_);
    if (failure_ == Failure::outcome_unknown) return sessiond::fail(Code::degraded, "the storage fails");
    if (failed_ && failed_->first == generation_) ++generation_;
    return {};
  }

  Result<JournalPage> read(std::uint64_t from, std::size_t max_bytes) const override {
    JournalPage page;
    auto read = each_batch(from, max_bytes, [&](const StoredBatch& batch) {
      page.batches.push_back(batch);
      StoredBatch& last = page.batches.back();
      if (last.first < from) {
        last.events.erase(last.events.begin(), last.events.begin() + static_cast<std::ptrdiff_t>(from - last.first));
        last.first = from;
      }
    });
    if (!read) return std::unexpected(read.error());
    if (read->lost) return fail(Code::degraded, "the event is lost");
    page.next = read->next;
    return page;
  }
  Result<EventsRead> each_event(std::uint64_t from, std::size_t max_bytes, const OnEvent& take) const override {
    return each_batch(from, max_bytes, [&](const StoredBatch& batch) {
      std::uint64_t seq = batch.first;
      for (const Bytes& event : batch.events)
        if (seq++ >= from) take(seq - 1, *event);
    });
  }
  std::uint64_t head() const override {
    const std::scoped_lock lock(stored_->mutex);
    return stored_->head;
  }
  std::uint64_t oldest() const override {
    const std::scoped_lock lock(stored_->mutex);
    return stored_->oldest;
  }
  const std::string& epoch() const override {
    static const std::string always = "00000000";
    return always;
  }
  std::uint64_t bytes_after(std::uint64_t seq) const override { return head() > seq ? head() - seq : 0; }
  void release(std::uint64_t seq, std::uint64_t old) override {
    const std::scoped_lock lock(stored_->mutex);
    auto& batches = stored_->batches;
    const auto next = [](const StoredBatch& batch) { return batch.first + batch.events.size(); };
    while (!batches.empty() && next(batches.front()) <= std::min(seq, old) + 1) {
      stored_->oldest = next(batches.front());
      batches.pop_front();
    }
  }

 private:
  static constexpr std::uint64_t stop = 0;

  Result<EventsRead> each_batch(std::uint64_t from, std::size_t max_bytes,
                                const std::function<void(const StoredBatch&)>& take) const {
    const std::scoped_lock lock(stored_->mutex);
    if (from < stored_->oldest) return fail(Code::bad_cursor, "too old");
    EventsRead read{.next = from};
    std::size_t bytes = 0;
    for (const StoredBatch& batch : stored_->batches) {
      const std::uint64_t next = batch.first + batch.events.size();
      if (batch.events.empty() ? batch.first < from : next <= from) continue;
      if (stored_->lost == batch.first && !batch.events.empty()) {
        if (read.next > from) break;
        return EventsRead{.next = next, .lost = true};
      }
      take(batch);
      read.next = std::max(read.next, next);
      if ((bytes += 100) >= max_bytes && read.next > from && read.next <= stored_->head) break;
    }
    return read;
  }

  void run() {
    for (;;) {
      std::unique_lock lock(queue_mutex_);
      filled_.wait(lock, [&] { return !queue_.empty(); });
      auto [generation, commit] = std::move(queue_.front());
      queue_.pop_front();
      if (commit.first_seq == stop) return;
      BatchOutcome outcome = store(generation, commit);
      outcome.first = commit.first_seq;
      outcome.last = commit.first_seq + commit.events.size() - 1;
      outcome.generation = generation;
      outcome.commits.push_back(std::move(commit));
      lock.unlock();
      if (on_batch_) on_batch_(std::move(outcome));
    }
  }

  BatchOutcome store(std::uint64_t generation, const Commit& commit) {
    BatchOutcome outcome;
    const std::scoped_lock lock(stored_->mutex);
    if (!failed_ || generation > failed_->first) {
      if (failure_ == Failure::outcome_unknown) {
        failed_.emplace(generation, BatchOutcome::Kind::outcome_unknown);
      } else if (failure_.exchange(Failure::none) == Failure::not_stored || commit.first_seq != stored_->head + 1) {
        failed_.emplace(generation, BatchOutcome::Kind::not_stored);
      } else {
        stored_->batches.push_back({.first = commit.first_seq,
                                    .events = commit.events,
                                    .answers = commit.answers,
                                    .line_positions = commit.line_positions});
        stored_->head += commit.events.size();
        return outcome;
      }
    }
    outcome.kind = failed_->second;
    outcome.problem = {.code = Code::degraded, .detail = "the batch failed"};
    return outcome;
  }

  std::shared_ptr<Stored> stored_;
  std::atomic<Failure>& failure_;
  std::mutex queue_mutex_;
  std::condition_variable filled_;
  std::deque<std::pair<std::uint64_t, Commit>> queue_;
  std::uint64_t generation_ = 0;
  std::optional<std::pair<std::uint64_t, BatchOutcome::Kind>> failed_;
  OnBatch on_batch_;
  std::thread thread_;
};

class Memory {
 public:
  Memory() { reopen(); }
  Journal& journal() { return *journal_; }
  void reopen() {
    journal_.reset();
    journal_ = std::make_unique<MemoryJournal>(stored_, failure_);
  }
  std::unique_ptr<Journal> after_crash() {
    const std::scoped_lock lock(stored_->mutex);
    auto copy = std::make_shared<Stored>();
    copy->batches = stored_->batches;
    copy->head = stored_->head;
    return std::make_unique<MemoryJournal>(std::move(copy), failure_);
  }
  void fail(Failure how) { failure_ = how; }
  void lose(std::uint64_t seq) {
    const std::scoped_lock lock(stored_->mutex);
    stored_->lost = seq;
  }

 private:
  std::shared_ptr<Stored> stored_ = std::make_shared<Stored>();
  std::atomic<Failure> failure_ = Failure::none;
  std::unique_ptr<Journal> journal_;
};

TEST_CASE_TEMPLATE_INVOKE(any_journal, Files, Memory);
TEST_CASE_TEMPLATE_INVOKE(durable_journal, Files, Memory);
TEST_CASE_TEMPLATE_INVOKE(followed_journal, Files, Memory);

}  // namespace
}  // namespace sessiond::journal
