#include "store/answers/answers.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "store/answers/live.hpp"
#include "store/answers/sealed.hpp"
#include "store/files.hpp"
#include "store/try.hpp"

namespace sessiond::answers {

using SealedList = std::vector<std::shared_ptr<const SealedAnswers>>;  // oldest first

struct AnswerStore::Impl {
  explicit Impl(Options given) : options(std::move(given)) {}

  Result<void> load();
  std::shared_ptr<const Answer> find_newest(const Digest& scope) const;
  Result<void> flush_oldest(bool sync, std::size_t position, bool& sealed_one);
  void report(std::vector<std::string> found) const;
  void begin_segment(std::int64_t time) {
    last_name = std::max(time, last_name + 1);
    lives.push_back(std::make_shared<LiveAnswers>(segment_path(options.dir, last_name)));
  }

  const Options options;
  std::mutex disk_mutex;     // one flush or expire at a time; locked before `mutex`
  mutable std::mutex mutex;  // never held during disk I/O
  // Full segments wait at the front for the flush that seals them; the last one is put to.
  std::vector<std::shared_ptr<LiveAnswers>> lives;
  std::shared_ptr<const SealedList> sealed = std::make_shared<const SealedList>();
  std::int64_t last_name = -1;
  std::int64_t now = 0;            // of the last expire
  std::int64_t dropped_up_to = 0;  // time of the newest answer that was removed for max_bytes
  mutable std::vector<std::string> repairs;
};

void AnswerStore::Impl::report(std::vector<std::string> found) const {
  constexpr std::size_t most = 100;  // in case take_repairs() is not called
  const std::scoped_lock lock(mutex);
  for (std::string& text : found)
    if (repairs.size() < most) repairs.push_back(std::move(text));
}

Result<void> AnswerStore::Impl::load() {
  TRY(store::make_dirs(options.dir));
  TRY(const auto names, list_segments(options.dir));
  SealedList list;
  std::vector<std::string> found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    last_name = names[i];
    const auto path = segment_path(options.dir, last_name);
    if (i + 1 == names.size()) {
      TRY(auto live, LiveAnswers::load(path, found));
      lives.push_back(std::move(live));
    } else {
      TRY(auto segment, SealedAnswers::open(path, found));
      list.push_back(std::move(segment));
    }
  }
  sealed = std::make_shared<const SealedList>(std::move(list));
  report(std::move(found));
  return {};
}

std::shared_ptr<const Answer> AnswerStore::Impl::find_newest(const Digest& scope) const {
  std::shared_ptr<const SealedList> list;
  {
    const std::scoped_lock lock(mutex);
    for (auto live = lives.rbegin(); live != lives.rend(); ++live)
      if (auto answer = (*live)->find(scope)) return answer;
    list = sealed;
  }
  for (auto segment = list->rbegin(); segment != list->rend(); ++segment) {
    auto answer = (*segment)->find(scope);
    if (!answer) report({answer.error().detail});
    if (answer && *answer) return std::make_shared<const Answer>(std::move(**answer));
  }
  return nullptr;
}

// Writes the lines of one segment that wait. Seals the segment when it is full: then there is another behind it.
Result<void> AnswerStore::Impl::flush_oldest(bool sync, std::size_t position, bool& sealed_one) {
  std::shared_ptr<LiveAnswers> live;
  bool full = false;
  {
    const std::scoped_lock lock(mutex);
    live = lives[position];
    full = position + 1 < lives.size();
  }
  TRY(live->write(mutex, sync || full));
  if (!full) return {};
  TRY(auto segment, SealedAnswers::seal(live->path(), live->index_entries()));
  const std::scoped_lock lock(mutex);
  SealedList list = *sealed;
  list.push_back(std::move(segment));
  sealed = std::make_shared<const SealedList>(std::move(list));
  lives.erase(lives.begin() + static_cast<std::ptrdiff_t>(position));
  sealed_one = true;
  return {};
}

Result<std::unique_ptr<AnswerStore>> AnswerStore::open(Options options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  TRY(impl->load());
  return std::unique_ptr<AnswerStore>(new AnswerStore(std::move(impl)));
}

AnswerStore::AnswerStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AnswerStore::~AnswerStore() = default;

std::optional<Answer> AnswerStore::find(const Digest& scope, std::int64_t now) const {
  const auto answer = impl_->find_newest(scope);
  if (!answer || now - answer->time > impl_->options.retention_ms) return std::nullopt;
  return *answer;
}

void AnswerStore::put(Answer answer, std::string json) {
  if (const auto known = impl_->find_newest(answer.scope))
    if (known->time > answer.time || *known == answer) return;
  std::string line = stored_line(std::move(json));
  auto kept = std::make_shared<const Answer>(std::move(answer));
  const std::scoped_lock lock(impl_->mutex);
  auto& lives = impl_->lives;
  if (lives.empty() || lives.back()->size() >= impl_->options.segment_bytes) impl_->begin_segment(kept->time);
  lives.back()->put(std::move(kept), line);
}

Result<void> AnswerStore::flush(bool sync) {
  const std::scoped_lock disk(impl_->disk_mutex);
  for (;;) {
    {
      const std::scoped_lock lock(impl_->mutex);
      if (impl_->lives.empty()) return {};
    }
    bool sealed_one = false;
    TRY(impl_->flush_oldest(sync, 0, sealed_one));
    if (!sealed_one) return {};
  }
}

void AnswerStore::expire(std::int64_t now) {
  const std::scoped_lock disk(impl_->disk_mutex);
  const std::int64_t cutoff = now - impl_->options.retention_ms;
  SealedList gone;
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->now = now;
    auto& lives = impl_->lives;
    // Ends a live segment that is old, so that a daemon without requests removes it too.
    if (!lives.empty() && lives.back()->size() > 0 && lives.back()->newest() < cutoff) impl_->begin_segment(now);
    std::uint64_t bytes = 0;
    for (const auto& live : lives) bytes += live->size();
    for (const auto& segment : *impl_->sealed) bytes += segment->bytes();
    SealedList kept;
    for (const auto& segment : *impl_->sealed) {
      const bool old = segment->newest() < cutoff;
      if (!old && (bytes <= impl_->options.max_bytes || !kept.empty())) {
        kept.push_back(segment);
        continue;
      }
      if (!old) impl_->dropped_up_to = std::max(impl_->dropped_up_to, segment->newest());
      bytes -= segment->bytes();
      gone.push_back(segment);
    }
    impl_->sealed = std::make_shared<const SealedList>(std::move(kept));
  }
  for (const auto& segment : gone) segment->remove();
}

std::int64_t AnswerStore::newest() const {
  const std::scoped_lock lock(impl_->mutex);
  std::int64_t newest = 0;
  for (const auto& live : impl_->lives) newest = std::max(newest, live->newest());
  for (const auto& segment : *impl_->sealed) newest = std::max(newest, segment->newest());
  return newest;
}

bool AnswerStore::truncated() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->dropped_up_to > 0 && impl_->dropped_up_to >= impl_->now - impl_->options.retention_ms;
}

std::vector<std::string> AnswerStore::take_repairs() {
  const std::scoped_lock lock(impl_->mutex);
  return std::exchange(impl_->repairs, {});
}

}  // namespace sessiond::answers
