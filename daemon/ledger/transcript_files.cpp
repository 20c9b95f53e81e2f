#include "daemon/ledger/transcript_files.hpp"

#include <algorithm>
#include <utility>

#include "daemon/runtime/log.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::size_t most_pending_bytes = 1U << 20;

}  // namespace

TranscriptFiles::TranscriptFiles(const Paths& paths, std::optional<lock::LockOptions> locks,
                                 const std::atomic<bool>& adopting, std::shared_ptr<TranscriptFacts> facts,
                                 std::function<void(std::string)> on_repair)
    : facts_(std::move(facts)),
      paths_(paths),
      projection_(paths, locks, adopting, facts_->sizes, std::move(on_repair)) {}

void TranscriptFiles::take(std::vector<journal::Commit> commits) {
  std::ranges::move(commits, std::back_inserter(commits_));
  if (auto done = pass_on(); !done) facts_->failing = true;
  if (projection_.writer().pending_bytes() > most_pending_bytes) {
    if (auto done = projection_.writer().flush(); !done) facts_->failing = true;
  }
}

// Passes commits on in order. A commit that renames a file under a foreign lock waits, and so do later commits that
// touch its files; the others go on.
Result<void> TranscriptFiles::pass_on() {
  blocked_.clear();
  const auto waits = [this](const journal::Commit& commit) {
    return !blocked_.empty() && std::ranges::any_of(transcripts_of(paths_, commit), [this](const std::string& file) {
      return blocked_.contains(file);
    });
  };
  for (auto at = commits_.begin(); at != commits_.end();) {
    auto done = waits(*at) ? fail(Code::lock_timeout, "behind a commit that waits")
                           : projection_.add(at->first_seq, at->events, at->line_positions);
    if (done) {
      at = commits_.erase(at);
    } else if (done.error().code == Code::lock_timeout || done.error().code == Code::degraded) {
      const std::string why = done.error().code == Code::degraded ? done.error().detail : "";
      for (const std::string& file : transcripts_of(paths_, *at++)) blocked_.try_emplace(file, why);
    } else {
      if (!facts_->failing) log::error("files_lag", {{"error", done.error().detail}, {"next", "trying again"}});
      return fail(Code::degraded, "files lag behind the journal (see the log)");
    }
  }
  return {};
}

Result<void> TranscriptFiles::flush(const std::string& file) {
  auto done = pass_on();
  auto flushed = file.empty() ? projection_.writer().flush() : projection_.writer().flush(file);
  if (const auto blocked = blocked_.find(file); flushed && blocked != blocked_.end())
    flushed = blocked->second.empty() ? fail(Code::lock_timeout, file + " is held by a foreign program")
                                      : fail(Code::degraded, std::string(blocked->second));
  const bool waits = !flushed && (flushed.error().code == Code::lock_timeout || flushed.error().code == Code::degraded);
  const bool unwritable = !flushed && !waits;
  if (unwritable && !facts_->failing)
    log::error("transcripts_unwritable", {{"error", flushed.error().detail}, {"next", "trying again"}});
  facts_->failing = unwritable || !done;
  return done ? flushed : done;
}

Result<void> TranscriptFiles::flush(const std::string& file, const std::string& folder) {
  auto done = flush(file);
  return done ? projection_.writer().flush_below(folder) : done;
}

LockedTranscripts TranscriptFiles::locked() const {
  LockedTranscripts locked = projection_.writer().stuck();
  for (const std::string& file : projection_.writer().waiting()) locked.try_emplace(file);
  locked.insert(blocked_.begin(), blocked_.end());
  return locked;
}

TranscriptNews TranscriptFiles::take_news() {
  return {.displaced = projection_.writer().take_displaced(),
          .renumbered = projection_.writer().take_renumbered(),
          .doubled = projection_.writer().take_duplicate_ids(),
          .evictions = projection_.writer().take_evictions()};
}

Result<bool> TranscriptFiles::hold(const std::string& agent, const std::string& file) {
  const std::string path = paths_.transcript(agent, file);
  TRY(projection_.writer().hold(path));
  auto flushed = flush(path);
  auto foreign = flushed ? projection_.foreign(agent, {file}) : std::unexpected(std::move(flushed.error()));
  if (foreign) return !foreign->empty();
  projection_.writer().release(path);
  return std::unexpected(std::move(foreign.error()));
}

}  // namespace sessiond::ledger
