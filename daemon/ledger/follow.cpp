// The part of the ledger that follows other programs: what they do to sessions.json, and the lines that they append to
// transcripts. inotify says where to look; every TTL all is looked at, one stat a file.

#include <algorithm>

#include "daemon/decide/foreign.hpp"
#include "daemon/ledger/agent.hpp"
#include "daemon/ledger/reader.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"

namespace sessiond {
namespace {

constexpr std::chrono::milliseconds settle_delay{20};   // one look for all that is appended meanwhile, by us as well
constexpr std::chrono::milliseconds damage_delay{300};  // a program that writes a store in place is done by then
constexpr std::size_t looked_at_once = 512;             // transcripts: about a millisecond
constexpr std::size_t page_bytes = 1U << 20;            // of another program's lines in one commit

bool is_transcript(std::string_view name) { return name.ends_with(".jsonl"); }

}  // namespace

// What happened in a folder before it was watched, nobody was told.
void Ledger::watch(Agent& agent) {
  if (agent.watched) return;
  agent.watched = watches(watch_.add(agent.id, paths_.state_dir() / paths_.sessions_dir(agent.id)));
  if (agent.watched) in_background(look_at(agent.id, {}), "look_at");
}

// Not to be watched is not fatal: everything is looked at when the TTL is over.
bool Ledger::watches(const Result<bool>& added) {
  if (added) return *added;
  if (unwatched_.empty())
    log::warn("not_watched",
              {{"error", added.error().detail}, {"next", "looking at every file when store.cacheTtlMs is over"}});
  unwatched_ = still_unwatched_ = added.error().detail;
  return false;
}

// Somebody wrote into agents' folders, maybe we ourselves: what lies on disk will tell.
void Ledger::seen(Watch::Seen seen) {
  if (stopping_) return;
  if (seen.lost) {
    log::warn("inotify_overflow", {{"next", "looking at every file"}});
    std::string data;
    json::ObjectWriter writer(data);
    writer.string("reason", "inotify dropped events: every file is looked at instead");
    writer.close();
    tell(EventType::store_degraded, std::move(data));
  }
  for (const std::string& id : seen.gone) {
    slot(id).watched = false;
    seen.touched[id].insert(paths_.store_file(id).filename().string());
  }
  for (auto& [id, names] : seen.touched) {
    const bool store = names.contains(paths_.store_file(id).filename().string());
    std::erase_if(names, [](const std::string& name) { return !is_transcript(name); });
    if (!slot(id).state) {
      if (store || !names.empty()) in_background(look_at(id, std::move(names)), "look_at");
      continue;
    }
    if (store) touched(id);
    for (const std::string& name : names) follow(id, name);
  }
  if (seen.lost || seen.agents) in_background(look_everywhere(), "look_everywhere");
}

void Ledger::touched(const std::string& id) {
  Agent& agent = slot(id);
  if (!agent.state || agent.suspect) return;
  agent.suspect = true;
  in_background(look_once_more(id), "look_again");
}

asio::awaitable<void> Ledger::look_once_more(std::string id) {
  auto looked = co_await look_again(id);
  if (looked && slot(id).damaged && !stopping_) {  // looked at again, and written again if nobody was about to
    asio::steady_timer pause(io_, damage_delay);
    co_await pause.async_wait(asio::use_awaitable);
    looked = co_await look_again(id);
  }
  if (!looked) not_read(id, looked.error());
}

void Ledger::not_read(const std::string& id, const Problem& why) const {
  if (stopping_) return;
  log::warn("store_not_read", {{"agent", id}, {"error", why.detail}, {"next", "looking again when it is used"}});
}

void Ledger::follow(const std::string& id, const std::string& file) {
  if (stopping_) return;
  to_follow_[id].insert(file);
  if (std::exchange(follow_scheduled_, true)) return;
  follow_timer_.expires_after(settle_delay);
  follow_timer_.async_wait([this](const boost::system::error_code&) {
    follow_scheduled_ = false;
    for (auto& [agent, files] : std::exchange(to_follow_, {}))
      in_background(look_at_lines(agent, std::move(files)), "look_at_lines");
  });
}

// All agents, whether they are in memory or not, and the folders in which agents are made.
asio::awaitable<void> Ledger::look_everywhere() {
  everywhere_wanted_ = true;
  if (std::exchange(looking_everywhere_, true)) co_return;
  while (!stopping_ && std::exchange(everywhere_wanted_, false)) {
    still_unwatched_.clear();
    for (const auto& dir : co_await hop(disk_.get_executor(), [this] { return paths_.agent_parent_dirs(); }))
      watches(watch_.add_nursery(dir));
    tell_databases(co_await hop(disk_.get_executor(), [this] { return paths_.databases(); }));
    for (const std::string& id : co_await agent_ids()) co_await look_at(id, {});
    unwatched_ = still_unwatched_;
  }
  adopting_ = false;
  looking_everywhere_ = false;
}

// Another program has begun to keep sessions where they are not seen: told once for each.
void Ledger::tell_databases(const std::vector<std::filesystem::path>& found) {
  for (const auto& path : found) {
    if (!databases_.insert(path.native()).second) continue;
    log::warn("sqlite_state",
              {{"path", path.native()}, {"why", "OpenClaw 2026.8 or later keeps sessions there: they are not served"}});
    std::string data;
    json::ObjectWriter writer(data);
    writer.string("reason", path.native() + ": sessions that OpenClaw 2026.8 or later keeps there are not served");
    writer.close();
    tell(EventType::store_degraded, std::move(data));
  }
  std::erase_if(databases_, [&](const std::string& path) {
    return std::ranges::find(found, std::filesystem::path(path)) == found.end();
  });
}

// Both the store and the transcripts. An agent that is not in memory is only brought there when something changed.
asio::awaitable<void> Ledger::look_at(std::string id, std::set<std::string> files) {
  if (stopping_) co_return;
  // Again, for the folder may be another one by now.
  slot(id).watched = watches(watch_.add(id, paths_.state_dir() / paths_.sessions_dir(id)));
  Result<void> looked;
  if (slot(id).state) {
    looked = co_await look_again(id);
  } else {
    const bool untouched = co_await hop(slot(id).turn, [options = store_options(id), first = adopting_.load()] {
      if (first)
        remove_left_lock_names(options.path.parent_path());  // loading does it, but this agent may not be loaded
      return SessionsFile::untouched(options);
    });
    hand_over();
    const auto edit = co_await foreign_lines(id, files);
    if (untouched && edit && edit->empty()) {
      if (!slot(id).state) asio::post(files_, [this, id] { projection_.unload_agent(id); });  // else it came meanwhile
      co_return;
    }
    looked = co_await ensure_loaded(id, false);
    if (!looked && looked.error().code == Code::agent_not_found) co_return;  // a folder without a store
  }
  if (!looked) not_read(id, looked.error());
  co_await look_at_lines(id, std::move(files));
}

// Finds what other programs did to these transcripts (none named: to all). Looks at a few files at a time, because all
// agents share this strand.
asio::awaitable<Result<std::vector<ForeignEdit>>> Ledger::foreign_lines(std::string id, std::set<std::string> files) {
  std::vector<ForeignEdit> found;
  if (files.empty()) {
    auto names = co_await hop(files_, [this, id] { return projection_.names(id); });
    if (!names) co_return std::unexpected(std::move(names.error()));
    files.insert(names->begin(), names->end());
  }
  while (!files.empty() && !stopping_) {
    std::set<std::string> some;
    while (!files.empty() && some.size() < looked_at_once) some.insert(files.extract(files.begin()));
    auto edit = co_await hop(files_, [this, id, some = std::move(some)] { return projection_.foreign(id, some); });
    if (!edit) co_return std::unexpected(std::move(edit.error()));
    std::ranges::move(*edit, std::back_inserter(found));
  }
  co_return found;
}

// Publishes what other programs put into these transcripts of the agent (no name: into any).
asio::awaitable<void> Ledger::look_at_lines(std::string id, std::set<std::string> files) {
  slot(id);
  const auto agent = agents_.at(id);
  while (agent->following) co_await agent->waiting.wait(0);
  if (stopping_ || !agent->state) co_return;
  agent->following = true;
  hand_over();  // what has been published is known to the files' strand
  const auto found = co_await foreign_lines(id, files);
  Result<void> outcome;
  if (!found) {
    outcome = std::unexpected(found.error());
  } else {
    for (const ForeignEdit& edit : *found) {
      outcome = co_await publish(id, edit.file);
      if (!outcome) break;
    }
  }
  if (!outcome && !stopping_) {
    log::warn(
        "transcripts_not_followed",
        {{"agent", id}, {"error", outcome.error().detail}, {"next", "looking again when store.cacheTtlMs is over"}});
  }
  agent->following = false;
  agent->waiting.release(0);
}

// One at a time for each file: two who find the same lines would publish them twice.
asio::awaitable<Result<void>> Ledger::publish(std::string id, std::string file) {
  slot(id);
  const auto agent = agents_.at(id);
  while (agent->publishing.contains(file)) co_await agent->waiting.wait(0);
  agent->publishing.insert(file);
  auto outcome = co_await publish_lines(id, file);
  agent->publishing.erase(file);
  agent->waiting.release(0);
  co_return outcome;
}

// Until all that stands in the file is ours or published. Lines of nobody's session wait until there is one.
asio::awaitable<Result<void>> Ledger::publish_lines(std::string id, std::string file) {
  const Requester intent{.actor = "external"};
  for (;;) {
    if (stopping_ || failed_ || !slot(id).state) co_return Result<void>{};
    if (!slot(id).state->owner_of(file))
      co_return co_await hop(files_, [this, id, file] { return projection_.forget_deleted(id, file); });
    // Nobody appends until the end is read again; what was decided on the old one finds its place behind theirs.
    slot(id).state->transcripts.forget(file);
    if (auto fine = co_await settled(next_seq_ - 1); !fine) co_return fine;
    if (auto flushed = co_await flush_transcript(id, file); !flushed) co_return flushed;
    const auto found = co_await hop(files_, [this, id, file] { return projection_.foreign(id, {file}); });
    if (!found) co_return std::unexpected(found.error());
    if (found->empty()) co_return Result<void>{};
    const ForeignEdit& edit = found->front();
    ForeignLines theirs{.file = file, .inode = edit.inode, .size = edit.size};
    if (edit.kind == ForeignEdit::Kind::appended) {
      auto lines = co_await first_lines(id, edit);
      if (!lines) co_return std::unexpected(std::move(lines.error()));
      if (lines->lines.empty()) co_return Result<void>{};  // a torn line, or a header alone
      theirs = std::move(*lines);
    }
    if (failed_ || !slot(id).state) co_return Result<void>{};
    AgentState& state = *slot(id).state;
    const auto owner = state.owner_of(file);
    if (!owner) co_return Result<void>{};
    // A transcript that the record has lost: its entries were counted when they were told.
    const bool whole = edit.kind == ForeignEdit::Kind::appended && edit.unknown.front() == ByteRange{0, edit.size};
    const bool counted =
        !theirs.lines.empty() && !owner->topic &&
        owner->session->message_count.value_or(-1) > static_cast<std::int64_t>(theirs.lines.back().stored.seq);
    if (whole && counted)
      co_return co_await hop(files_, [this, id, edit] { return projection_.take_as_known(id, edit); });
    Decision decision = decide_foreign_lines(state, *owner, theirs, context(intent, "external"));
    auto last = stage(state, decision);
    if (!last) co_return std::unexpected(std::move(last.error()));
    if (theirs.lines.empty())
      log::info("transcript_rewritten", {{"agent", id}, {"file", file}, {"bytes", theirs.size}});
    if (auto fine = co_await settled(*last); !fine) co_return fine;
  }
}

asio::awaitable<Result<ForeignLines>> Ledger::first_lines(std::string id, ForeignEdit edit) {
  ForeignLines theirs{.file = edit.file, .inode = edit.inode, .size = edit.size};
  for (const ByteRange& stretch : edit.unknown) {
    auto lines = co_await read_transcript(id, edit.file, [stretch](Transcript& transcript) {
      return transcript.whole_lines(stretch.begin, stretch.end, page_bytes);
    });
    if (!lines) co_return std::unexpected(std::move(lines.error()));
    if (lines->empty()) continue;
    theirs.begin = stretch.begin;
    theirs.lines = std::move(*lines);
    break;
  }
  co_return theirs;
}

}  // namespace sessiond
