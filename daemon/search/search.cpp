#include "daemon/search/search.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "daemon/search/feed.hpp"
#include "store/try.hpp"

namespace sessiond::search {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds idle{100};       // before the next look for new events, when all that were there are read
constexpr milliseconds trouble{1'000};  // before it is tried again
// Merging goes on in slices, here while events come in. The next merge waits so many times as long as the last one
// took.
constexpr milliseconds between_merges{1'000};
constexpr int merge_rests = 20;
constexpr std::chrono::minutes longest_rest{30};
constexpr std::size_t most_taken_away = 10'000;
constexpr std::size_t most_searches = 32;
const Problem unwritten{.code = Code::draining, .detail = "it cannot be written"};

bool takes_away(journal::EventType type) {
  using enum journal::EventType;
  switch (type) {
    case session_reset:
    case session_deleted:
    case context_cleared:
    case topic_deleted:
    case archive_destroyed:
    case store_external_change:
    case transcript_renumbered:
    case message_edited:
    case message_deleted:
      return true;
    default:
      return false;
  }
}

}  // namespace

Search::Search(ledger::Ledger& ledger, SearchOptions options)
    : ledger_(ledger), options_(std::move(options)), source_(ledger, stop_), file_(options_.path, options_.own_folder) {
  name_ = std::make_shared<const std::string>(options_.in_memory ? in_memory_name() : options_.path);
  status_.enabled = options_.enabled;
}

Search::~Search() {
  stop_ = true;
  wake_.notify_all();
  threads_.join();
}

void Search::start() {
  if (options_.in_memory) file_.remove();  // a file is of the time before the store was encrypted
  if (!options_.enabled) return;
  ended_ = false;
  thread_ = std::jthread([this] {
    run();
    ended_ = true;
  });
}

asio::awaitable<void> Search::stop() {
  stop_ = true;
  wake_.notify_all();
  asio::steady_timer timer(ledger_.parts().env.io);
  while (!ended_ || source_.is_busy()) {
    timer.expires_after(milliseconds(5));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

// Marks the sessions that have a copy of the message: hits in them are old until the index has read the change.
void Search::see_copies(const journal::Event& event) {
  const journal::Envelope& about = event.envelope;
  const decide::AgentState* state = ledger::loaded_state(ledger_.parts(), about.agent, about.key);
  const auto target = json::find(event.data, "target");
  if (state == nullptr || !target) return;
  for (const decide::Session* copy : state->copies(json::string_at(*target, "sessionId").value_or("")))
    taken_away_[{about.agent, copy->key()}] = about.seq;
}

void Search::see(const journal::Event& event) {
  const journal::Envelope& about = event.envelope;
  if (!options_.enabled || about.seq == 0 || !takes_away(about.type)) return;
  taken_away_[{about.agent, about.key}] = about.seq;
  if (about.type == journal::EventType::message_edited || about.type == journal::EventType::message_deleted)
    see_copies(event);
  if (taken_away_.size() <= most_taken_away) return;
  const std::uint64_t position = status().position;
  std::erase_if(taken_away_, [position](const auto& one) { return one.second <= position; });
  if (taken_away_.size() <= most_taken_away / 2) return;
  taken_away_.clear();
  distrusted_ = about.seq;
}

bool Search::is_current(const Hit& hit, std::uint64_t position) const {
  if (position < distrusted_) return false;
  for (const std::string& key : {hit.key, std::string()}) {  // an event without a key is about the whole agent
    const auto found = taken_away_.find({hit.agent, key});
    if (found != taken_away_.end() && found->second > position) return false;
  }
  return true;
}

Result<std::shared_ptr<void>> Search::begin_search() {
  if (*searches_ >= most_searches) return fail(Code::too_many_requests, "too many searches at once; try again");
  ++*searches_;
  return std::shared_ptr<void>(searches_.get(), [searches = searches_](void*) { --*searches; });
}

asio::awaitable<Found> Search::find(std::shared_ptr<const Asked> asked, std::optional<Place> from,
                                    std::chrono::steady_clock::time_point deadline) {
  co_return co_await runtime::run_on(threads_.get_executor(), [this, asked, from, deadline] {
    const auto name = name_for_look(deadline);  // held as long as it looks
    if (name == nullptr) return Found{.partial = true};
    Found looked = search::find(*name, grams_, *asked, from, deadline, stop_);
    if (looked.damaged) damaged_ = true;
    return looked;
  });
}

// Waits while an index is being opened. Null: for too long.
std::shared_ptr<const std::string> Search::name_for_look(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  wake_.wait_until(lock, deadline, [this] { return name_ != nullptr || stop_; });
  return name_;
}

SearchStatus Search::status() const {
  const std::scoped_lock lock(mutex_);
  return status_;
}

void Search::say(std::string problem) {
  const std::scoped_lock lock(mutex_);
  if (problem == status_.problem || stop_) return;  // stop() interrupts the work, which is no problem
  if (problem.empty())
    log::info("search_works", {{"path", options_.path}});
  else
    log::warn("search_is_behind", {{"path", options_.path}, {"error", problem}});
  status_.problem = std::move(problem);
}

void Search::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, time, [this] { return stop_.load(); });
}

void Search::discard(const std::string& why, std::int64_t floor) {
  {
    const std::scoped_lock lock(mutex_);
    status_.whole = false;
  }
  log::warn("search_index_discarded", {{"path", options_.path}, {"why", why}});
  floor_ = floor;
  if (!options_.in_memory) file_.remove();
}

// Lets no look begin until open_to_looks(), and waits for those under way. Who closes a file last removes SQLite's
// files beside it by their names, and by then these may belong to another index.
void Search::close_to_looks() {
  std::shared_ptr<const std::string> before;
  {
    const std::scoped_lock lock(mutex_);
    before = std::exchange(name_, nullptr);
  }
  while (before.use_count() > 1 && !stop_) pause(milliseconds(1));
  damaged_ = false;
}

void Search::open_to_looks(const std::string& name) {
  {
    const std::scoped_lock lock(mutex_);
    name_ = std::make_shared<const std::string>(name);
  }
  wake_.notify_all();
}

std::unique_ptr<Index> Search::open() {
  const std::string name = options_.in_memory ? in_memory_name() : options_.path;
  close_to_looks();
  auto index = open(name);
  open_to_looks(name);  // without an index there may be the file of one
  return index;
}

std::unique_ptr<Index> Search::open(const std::string& name) {
  const std::string epoch = source_.journal().epoch();
  bool empty = true;
  if (!options_.in_memory) {
    const auto prepared = file_.prepare();
    if (!prepared) {
      say(prepared.error().detail);
      return nullptr;
    }
    empty = *prepared == IndexFile::Content::none;
  }
  auto index =
      std::make_unique<Index>(Index::Options{.path = name, .text_bytes = options_.text_bytes, .stop = &stop_}, grams_);
  const bool current = index->is_current();
  const Position position = current ? index->position() : Position{};
  if (index->error() && !index->error()->is_damage()) {
    say(index->error()->text);
    return nullptr;
  }
  const bool ours = current && position.epoch == epoch && position.seq <= source_.journal().head();
  if (ours && !index->error()) return index;
  if (!empty) {
    index.reset();
    discard("it is damaged, of another version or of another journal");
    return nullptr;
  }
  index->create({.epoch = epoch, .seq = source_.journal().head()}, floor_);
  if (!index->is_current() || index->error()) {
    say(index->error() ? index->error()->text : "the index cannot be made");
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  ++status_.rebuilds;
  return index;
}

bool Search::lacks_room() {
  if (options_.in_memory || file_.has_room()) return false;
  say("its disk has little room left, which is for the sessions: make room, or set search.path");
  return true;
}

// Writes what is due into the file, and works for a while. False: the index is to be opened again.
bool Search::round(Index& index) {
  if (damaged_.exchange(false)) {
    discard("it is damaged");
    return false;
  }
  if (!options_.in_memory && !file_.is_untouched()) {
    discard("its files were removed or changed by another program");
    return false;
  }
  if (index.needs_checkpoint()) {
    index.checkpoint();
    file_.note();
    const auto bytes = index.file_bytes();
    if (bytes && !options_.in_memory && file_.noted_bytes() != *bytes) {
      discard("its file was cut by another program");
      return false;
    }
  }
  const Step step = index.error() ? undo(index, unwritten) : work(index);
  file_.note_wal();
  if (step.rest > milliseconds(0)) pause(step.rest);
  return step.goes_on;
}

// Takes back what is not committed, and says why.
Search::Step Search::undo(Index& index, const Problem& problem) {
  const auto error = index.error();
  index.rollback();
  if (stop_) return {.goes_on = false};
  reading_.at = index.position().seq;
  reading_.unread.clear();  // what was read of them may not be there
  if (error && error->is_damage()) {
    discard(error->text);
    return {.goes_on = false};
  }
  if (!error && problem.code == Code::bad_cursor) {
    discard(problem.detail);
    return {.goes_on = false};
  }
  say(error ? error->text : problem.detail);
  return {.goes_on = !error || !error->is_full(), .rest = trouble};  // to close it gives back what is written ahead
}

Search::Step Search::work(Index& index) {
  Feed feed(index, source_);
  const std::uint64_t head = source_.journal().head();
  const bool behind = reading_.at < head;
  const bool has_work = behind || !reading_.whole;
  if (has_work) {
    if (lacks_room()) return {.rest = trouble};
    if (behind) {
      auto last = feed.follow(reading_.at);
      if (!last) return undo(index, last.error());
      reading_.at = *last;
    } else if (auto read = read_on(feed, index); !read) {
      return undo(index, read.error());
    }
    if (!index.commit()) return undo(index, unwritten);
    if (!note_state(index)) return {.goes_on = false};
  }
  if (!tidy(index, behind)) return undo(index, unwritten);
  say("");
  // Messages that come meanwhile go in with one commit. Each commit makes a segment of FTS5, and merging those is dear.
  const bool goes_on = !reading_.whole || reading_.at < head || index.has_purged_texts();
  return {.rest = has_work && goes_on ? milliseconds(0) : idle};
}

// Removes grams that are left of purged texts, little by little. False: an error.
bool Search::tidy(Index& index, bool busy) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  if (!index.has_purged_grams() || begun < (busy ? merge_.busy_at : merge_.idle_at)) return true;
  const bool more = index.merge_some();
  const auto now = Clock::now();
  merge_.took += now - begun;
  merge_.busy_at = merge_.idle_at = now;
  if (more) {
    merge_.busy_at += between_merges;
  } else if (!index.error()) {
    merge_.idle_at += std::min<Clock::duration>(merge_.took * merge_rests, longest_rest);
    merge_.busy_at = merge_.idle_at;
    merge_.took = {};
  }
  return !index.error();
}

// Reads the transcripts of one agent that a new index does not have yet.
Result<void> Search::read_on(Feed& feed, Index& index) {
  if (reading_.unread.empty()) {
    TRY(reading_.unread, source_.agents());
  }
  if (!reading_.unread.empty()) {
    const auto read = feed.read_agent(reading_.unread.back());
    if (!read) {  // an agent that cannot be read is left out, as in lists
      if (index.error() || stop_) return read;
      log::warn("search_leaves_out", {{"agent", reading_.unread.back()}, {"error", read.error().detail}});
    }
    reading_.unread.pop_back();
  }
  if (reading_.unread.empty()) index.set_whole();
  return {};
}

// Tells what is in the index now. False: it has become too large, and must be made anew.
bool Search::note_state(Index& index) {
  const std::uint64_t bytes = index.bytes();
  reading_.whole = index.is_whole();
  {
    const std::scoped_lock lock(mutex_);
    status_.position = reading_.at;
    status_.rows = index.rows().count();
    status_.bytes = bytes;
    status_.whole = reading_.whole;
    status_.caught_up = reading_.at >= reading_.at_start;
  }
  if (!options_.max_bytes || bytes <= *options_.max_bytes) return true;
  const std::int64_t floor = index.rows().quarter();
  discard("it is larger than search.maxBytes: the oldest quarter is left out from now on", floor);
  return false;
}

void Search::run() {
  reading_.at_start = source_.journal().head();
  while (!stop_) {
    reading_.unread.clear();
    if (lacks_room()) {
      pause(trouble);
      continue;
    }
    const auto index = open();
    if (index == nullptr) {
      pause(idle);
      continue;
    }
    reading_.at = index->position().seq;
    file_.note_opened();
    if (!note_state(*index)) continue;
    while (!stop_ && round(*index)) {
    }
  }
}

}  // namespace sessiond::search
