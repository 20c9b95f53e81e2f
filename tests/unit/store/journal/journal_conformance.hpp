// Tests what any Journal must do, whatever it keeps its batches in (store/journal/journal.hpp). A new implementation
// passes when a test gives its Subject to TEST_CASE_TEMPLATE_INVOKE(any_journal, …):
//   Journal& journal();                        open, new and empty at first
//   void reopen();                             ends the journal as an orderly stop does and opens it again
//   std::unique_ptr<Journal> after_crash();    what opens after a power cut at this moment; the journal is not
//   disturbed void fail(Failure);                        how batches fail from now on void lose(std::uint64_t seq);
//   damages the durable event `seq`
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "store/journal/journal.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"

namespace sessiond::journal_test {

enum class Failure : std::uint8_t {
  none,
  not_stored,       // the next batch alone fails, and can be undone
  outcome_unknown,  // everything fails
};

// Keeps the outcomes that a journal tells, and waits for them.
class Outcomes {
 public:
  explicit Outcomes(journal::Journal& journal, std::function<void(const journal::BatchOutcome&)> also = {}) {
    journal.tail([this, also = std::move(also)](journal::BatchOutcome outcome) {
      if (also) also(outcome);
      const std::scoped_lock lock(mutex_);
      commits_ += outcome.commits.size();
      all_.push_back(std::move(outcome));
      told_.notify_all();
    });
  }
  // Of the first `commits` commits; fails the test when they do not come.
  std::vector<journal::BatchOutcome> wait(std::size_t commits) {
    std::unique_lock lock(mutex_);
    REQUIRE(told_.wait_for(lock, std::chrono::seconds(60), [&] { return commits_ >= commits; }));
    CHECK(commits_ == commits);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  std::vector<journal::BatchOutcome> all_;
  std::size_t commits_ = 0;
};

inline void check_follows(const std::vector<journal::BatchOutcome>& outcomes, std::uint64_t first) {
  for (const journal::BatchOutcome& outcome : outcomes) {
    CHECK(outcome.first == first);
    for (const journal::Commit& commit : outcome.commits) {
      CHECK(commit.first_seq == first);
      first += commit.events.size();
    }
    CHECK(outcome.last == first - 1);
  }
}

// Follows the events up to `last` as a stream does.
inline std::vector<std::uint64_t> follow(const journal::Journal& journal, std::uint64_t from, std::uint64_t last) {
  std::vector<std::uint64_t> seqs;
  while (from <= last) {
    const std::uint64_t head = journal.head();
    const auto read = journal.each_event(from, 2000, [&](std::uint64_t seq, std::string_view json) {
      CHECK(json == event_json(seq));
      seqs.push_back(seq);
    });
    REQUIRE(read);
    CHECK((read->next > from || from > head));
    from = read->next;
    if (from > journal.head()) std::this_thread::yield();
  }
  return seqs;
}

inline std::vector<std::uint64_t> up_to(std::uint64_t from, std::uint64_t last) {
  std::vector<std::uint64_t> seqs;
  for (; from <= last; ++from) seqs.push_back(from);
  return seqs;
}

inline std::vector<std::string> answers_from(journal::Journal& journal, std::uint64_t from) {
  std::vector<std::string> answers;
  for (;;) {
    const auto page = journal.read(from, 1);
    REQUIRE(page);
    for (const journal::StoredBatch& batch : page->batches)
      answers.insert(answers.end(), batch.answers.begin(), batch.answers.end());
    if (page->next == from || page->next > journal.head()) return answers;
    from = page->next;
  }
}

TEST_CASE_TEMPLATE_DEFINE("what any journal promises", Subject, any_journal) {
  Subject subject;
  auto outcomes = std::make_unique<Outcomes>(subject.journal());
  const auto put = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t seq = first; seq <= last; ++seq) subject.journal().append({commit(seq)});
  };

  SUBCASE("a new one is empty") {
    journal::Journal& journal = subject.journal();
    CHECK(journal.head() == 0);
    CHECK(journal.oldest() == 1);
    CHECK(journal.bytes_after(0) == 0);
    CHECK(journal.epoch().size() == 8);
    const auto page = journal.read(1, 1000);
    REQUIRE(page);
    CHECK(page->batches.empty());
    CHECK(page->next == 1);
  }

  SUBCASE("order: outcomes come as the commits were appended, events are read as they were committed") {
    journal::Journal& journal = subject.journal();
    std::uint64_t next = 1;
    for (std::size_t events : {1U, 3U, 2U, 1U, 5U}) {
      journal.append({commit(next, events)});
      next += events;
    }
    const auto told = outcomes->wait(5);
    check_follows(told, 1);
    for (const journal::BatchOutcome& outcome : told) CHECK(outcome.kind == journal::BatchOutcome::Kind::durable);
    CHECK(journal.head() == 12);
    const auto all = read_all(journal, 1);
    REQUIRE(all.size() == 12);
    for (const auto& [seq, event] : all) CHECK(event == event_json(seq));
    CHECK(follow(journal, 3, 12) == up_to(3, 12));
    CHECK(journal.read(13, 100)->batches.empty());
    CHECK(journal.read(99, 100)->next == 99);
    std::uint64_t before = journal.bytes_after(0);
    CHECK(before > 0);
    for (std::uint64_t seq = 1; seq <= 12; ++seq) {
      CHECK(journal.bytes_after(seq) <= before);
      before = journal.bytes_after(seq);
    }
    CHECK(before == 0);
  }

  SUBCASE("a page begins with the asked event and ends with a whole batch") {
    journal::Journal& journal = subject.journal();
    journal.append({commit(1, 5)});
    outcomes->wait(1);
    journal.append({commit(6, 3)});
    outcomes->wait(2);
    const auto page = journal.read(4, 1);
    REQUIRE(page);
    REQUIRE(page->batches.size() == 1);
    CHECK(page->batches[0].first == 4);
    CHECK(page->batches[0].events.size() == 2);
    CHECK(page->next == 6);
    CHECK(journal.read(0, 100).error().code == Code::bad_cursor);
  }

  SUBCASE("what clients never see is kept with its batch, and read once") {
    const journal::LinePosition position{.file = "f.jsonl", .agent = "main", .at = 7, .seq = 1};
    const auto answer = [](std::uint64_t seq, std::string text) {
      return journal::Commit{.first_seq = seq, .events = {}, .answers = {std::move(text)}, .line_positions = {}};
    };
    journal::Journal& journal = subject.journal();
    std::size_t count = 0;
    const auto one = [&](journal::Commit commit) {
      journal.append({std::move(commit)});
      outcomes->wait(++count);
    };
    one(answer(1, "1"));
    journal::Commit with = commit(1);
    with.answers = {"2"};
    with.line_positions = {position};
    one(std::move(with));
    one(answer(2, "3"));
    one(answer(2, "4"));
    one(commit(2));
    one(answer(3, "5"));
    CHECK(journal.head() == 2);
    for (int round = 0; round < 2; ++round) {
      CHECK(answers_from(subject.journal(), 1) == std::vector<std::string>{"1", "2", "3", "4", "5"});
      CHECK(answers_from(subject.journal(), 3) == std::vector<std::string>{"5"});
      const auto page = subject.journal().read(1, 1 << 20);
      REQUIRE(page);
      std::vector<journal::LinePosition> positions;
      for (const journal::StoredBatch& batch : page->batches)
        positions.insert(positions.end(), batch.line_positions.begin(), batch.line_positions.end());
      CHECK(positions == std::vector{position});
      subject.reopen();
    }
  }

  SUBCASE("resume after a stop: the same events under the same epoch, and appends continue") {
    put(1, 20);
    outcomes->wait(20);
    const std::string epoch = subject.journal().epoch();
    subject.reopen();
    outcomes = std::make_unique<Outcomes>(subject.journal());
    CHECK(subject.journal().epoch() == epoch);
    CHECK(subject.journal().head() == 20);
    CHECK(follow(subject.journal(), 1, 20) == up_to(1, 20));
    put(21, 22);
    CHECK(outcomes->wait(2).front().kind == journal::BatchOutcome::Kind::durable);
    CHECK(read_all(subject.journal(), 1).size() == 22);
  }

  SUBCASE("a stop stores what waits and tells it") {
    put(1, 500);
    subject.reopen();
    check_follows(outcomes->wait(500), 1);
    CHECK(subject.journal().head() == 500);
  }

  SUBCASE("a hole: a commit that does not follow is not stored, nor what comes behind it") {
    journal::Journal& journal = subject.journal();
    put(1, 1);
    outcomes->wait(1);
    put(3, 3);
    outcomes->wait(2);
    put(2, 2);
    const auto told = outcomes->wait(3);
    CHECK(told[1].kind == journal::BatchOutcome::Kind::not_stored);
    CHECK(told[2].kind == journal::BatchOutcome::Kind::not_stored);
    CHECK(journal.head() == 1);
    REQUIRE(journal.resume());
    REQUIRE(journal.resume());  // and again changes nothing
    put(2, 2);
    const auto last = outcomes->wait(4).back();
    CHECK(last.kind == journal::BatchOutcome::Kind::durable);
    CHECK(last.generation == told[2].generation + 1);
    CHECK(read_all(journal, 1).size() == 2);
  }

  SUBCASE("a failed batch is given back with all behind it, and its seqs are assigned again") {
    journal::Journal& journal = subject.journal();
    put(1, 3);
    outcomes->wait(3);
    const auto failed = [&](journal::BatchOutcome::Kind kind) {
      std::uint64_t next = 4;
      for (const journal::BatchOutcome& outcome : outcomes->wait(3 + 200)) {
        CHECK(outcome.kind == (outcome.first < 4 ? journal::BatchOutcome::Kind::durable : kind));
        if (outcome.first < 4) continue;
        CHECK(outcome.first == next);
        next = outcome.last + 1;
      }
      CHECK(next == 204);
      CHECK(journal.head() == 3);
      CHECK(read_all(journal, 1).size() == 3);
    };
    SUBCASE("not stored") {
      subject.fail(Failure::not_stored);
      put(4, 203);
      failed(journal::BatchOutcome::Kind::not_stored);
    }
    SUBCASE("outcome unknown: nothing can be stored until the storage works again") {
      subject.fail(Failure::outcome_unknown);
      put(4, 203);
      failed(journal::BatchOutcome::Kind::outcome_unknown);
      CHECK_FALSE(journal.resume());
      subject.fail(Failure::none);
    }
    REQUIRE(journal.resume());
    journal.append({commit(4, 1, "another")});
    CHECK(outcomes->wait(204).back().kind == journal::BatchOutcome::Kind::durable);
    subject.reopen();
    const auto all = read_all(subject.journal(), 1);
    CHECK(all.size() == 4);
    CHECK(all.at(4) == event_json(4, "another"));
  }

  SUBCASE("a lost event is told: nothing is passed over, and what is behind it is given") {
    journal::Journal& journal = subject.journal();
    for (std::uint64_t seq = 1; seq <= 9; ++seq) {  // a batch each
      put(seq, seq);
      outcomes->wait(seq);
    }
    subject.lose(5);
    std::vector<std::uint64_t> seqs;
    const auto take = [&](std::uint64_t seq, std::string_view) { seqs.push_back(seq); };
    auto read = journal.each_event(1, 1 << 20, take);
    REQUIRE(read);
    CHECK_FALSE(read->lost);
    CHECK(read->next == 5);
    read = journal.each_event(5, 1 << 20, take);
    REQUIRE(read);
    CHECK(read->lost);
    CHECK(read->next == 6);
    CHECK(seqs == up_to(1, 4));
    CHECK(journal.read(5, 100).error().code == Code::degraded);
    CHECK(journal.read(4, 1 << 20)->next == 5);
    CHECK(follow(journal, 6, 9) == up_to(6, 9));
  }

  SUBCASE("release removes old events that are released, and no other") {
    journal::Journal& journal = subject.journal();
    for (std::uint64_t seq = 1; seq <= 60; ++seq) {
      put(seq, seq);
      outcomes->wait(seq);
    }
    journal.release(0, 60);
    CHECK(journal.oldest() == 1);
    journal.release(60, 0);
    CHECK(journal.oldest() == 1);
    journal.release(20, 60);
    CHECK(journal.oldest() <= 21);
    journal.release(60, 40);
    const std::uint64_t oldest = journal.oldest();
    CHECK(oldest > 1);
    CHECK(oldest <= 41);
    CHECK(journal.read(oldest - 1, 100).error().code == Code::bad_cursor);
    CHECK(journal.each_event(1, 100, [](std::uint64_t, std::string_view) {}).error().code == Code::bad_cursor);
    CHECK(follow(journal, oldest, 60) == up_to(oldest, 60));
    subject.reopen();
    CHECK(subject.journal().oldest() == oldest);
    CHECK(subject.journal().head() == 60);
  }
}

TEST_CASE_TEMPLATE_DEFINE("a batch is durable and can be read before its outcome is told", Subject, durable_journal) {
  Subject subject;
  Outcomes outcomes(subject.journal(), [&](const journal::BatchOutcome& outcome) {
    journal::Journal& journal = subject.journal();
    CHECK(journal.head() >= outcome.last);
    CHECK(follow(journal, outcome.first, outcome.last) == up_to(outcome.first, outcome.last));
    const auto crashed = subject.after_crash();
    REQUIRE(crashed);
    CHECK(crashed->head() >= outcome.last);
    CHECK(crashed->epoch() == journal.epoch());
    CHECK(follow(*crashed, 1, outcome.last) == up_to(1, outcome.last));
  });
  for (std::uint64_t seq = 1; seq <= 20; ++seq) {
    subject.journal().append({commit(seq)});
    if (seq % 3 == 0) outcomes.wait(seq);
  }
  outcomes.wait(20);
}

TEST_CASE_TEMPLATE_DEFINE("tail wakes who waits, and readers see each event once meanwhile", Subject,
                          followed_journal) {
  constexpr std::uint64_t last = 2000;
  Subject subject;
  journal::Journal& journal = subject.journal();
  std::mutex mutex;
  std::condition_variable told;
  std::uint64_t durable = 0;
  Outcomes outcomes(journal, [&](const journal::BatchOutcome& outcome) {
    const std::scoped_lock lock(mutex);
    durable = outcome.last;
    told.notify_all();
  });
  std::vector<std::uint64_t> waited;
  std::vector<std::uint64_t> polled;
  std::thread waiter([&] {
    for (std::uint64_t from = 1; from <= last;) {
      std::unique_lock lock(mutex);
      if (!told.wait_for(lock, std::chrono::seconds(60), [&] { return durable >= from; })) return;
      const std::uint64_t until = durable;
      lock.unlock();
      for (const std::uint64_t seq : follow(journal, from, until)) waited.push_back(seq);
      from = waited.back() + 1;
    }
  });
  std::thread poller([&] { polled = follow(journal, 1, last); });
  for (std::uint64_t seq = 1; seq <= last; ++seq) {
    journal.append({commit(seq)});
    if (seq % 100 == 0) std::this_thread::yield();
  }
  outcomes.wait(last);
  waiter.join();
  poller.join();
  CHECK(waited == up_to(1, last));
  CHECK(polled == up_to(1, last));
}

}  // namespace sessiond::journal_test
