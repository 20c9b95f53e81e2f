// Shared by the journal's tests: a directory that goes away, a journal whose outcomes are kept, commits that say which
// they are.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/journal/file_journal.hpp"
#include "store/journal/file_ops.hpp"
#include "store/journal/segment.hpp"
#include "tests/unit/temp_dir.hpp"

namespace sessiond::journal_test {

namespace fs = std::filesystem;
using testing::TempDir;

inline std::string event_json(std::uint64_t seq, std::string_view text = "x") {
  return fmt::format(R"({{"seq":{},"text":"{}"}})", seq, text);
}

inline journal::Commit commit(std::uint64_t first, std::size_t events = 1, std::string_view text = "x") {
  journal::Commit made{.first_seq = first, .events = {}, .answers = {}, .line_positions = {}};
  for (std::size_t i = 0; i < events; ++i)
    made.events.push_back(std::make_shared<const std::string>(event_json(first + i, text)));
  return made;
}

class TestJournal {
 public:
  explicit TestJournal(journal::JournalOptions options) : opened_(open(std::move(options))) {}

  bool ok() const { return opened_.has_value(); }
  const Problem& problem() const { return opened_.error(); }
  journal::FileJournal& operator*() { return **opened_; }
  journal::FileJournal* operator->() { return opened_->get(); }

  void append(journal::Commit one) {
    {
      const std::scoped_lock lock(mutex_);
      ++appended_;
    }
    (*opened_)->append({std::move(one)});
  }
  // Waits until everything appended so far has had its outcome.
  void drain() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return finished_ == appended_; });
  }
  // Appends and waits for what became of it.
  journal::BatchOutcome put(journal::Commit one) {
    append(std::move(one));
    drain();
    const std::scoped_lock lock(mutex_);
    return outcomes_.back();
  }
  std::vector<journal::BatchOutcome> outcomes() const {
    const std::scoped_lock lock(mutex_);
    return outcomes_;
  }

 private:
  Result<std::unique_ptr<journal::FileJournal>> open(journal::JournalOptions options) {
    auto opened = journal::FileJournal::open(std::move(options));
    if (opened)
      (*opened)->tail([this](journal::BatchOutcome outcome) {
        const std::scoped_lock lock(mutex_);
        finished_ += outcome.commits.size();
        outcomes_.push_back(std::move(outcome));
        told_.notify_all();
      });
    return opened;
  }

  mutable std::mutex mutex_;
  std::condition_variable told_;
  std::size_t appended_ = 0;  // commits
  std::size_t finished_ = 0;
  std::vector<journal::BatchOutcome> outcomes_;
  Result<std::unique_ptr<journal::FileJournal>> opened_;
};

// Everything there is from `from` on, by small pages: seq -> event. Each seq at most once, in order.
inline std::map<std::uint64_t, std::string> read_all(journal::Journal& journal, std::uint64_t from,
                                                     std::size_t page_bytes = 300) {
  std::map<std::uint64_t, std::string> all;
  while (from <= journal.head()) {
    const auto page = journal.read(from, page_bytes);
    REQUIRE_MESSAGE(page.has_value(), page.error().detail);
    REQUIRE(page->next > from);
    for (const journal::StoredBatch& batch : page->batches) {
      REQUIRE((all.empty() || batch.first > all.rbegin()->first || batch.events.empty()));
      std::uint64_t seq = batch.first;
      for (const journal::Bytes& event : batch.events) all.emplace(seq++, *event);
    }
    from = page->next;
  }
  return all;
}

inline std::vector<std::string> segments(const fs::path& dir) {
  std::vector<std::string> names;
  for (const auto& name : *journal::list_segments(dir)) names.push_back(journal::to_string(name));
  return names;
}

inline std::size_t count_files(const fs::path& dir, std::string_view part) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(dir))
    count += entry.path().filename().native().contains(part) ? 1 : 0;
  return count;
}

inline void write_file(const fs::path& path, std::string_view bytes) {
  const auto file = store::open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  REQUIRE(file.has_value());
  REQUIRE(store::write_all(file->get(), bytes, path.native()).has_value());
}

}  // namespace sessiond::journal_test
