// Requests about the transcripts of one session: migrate() writes old ones as version 3, release() lets them leave
// memory.
#include <boost/asio/post.hpp>

#include "daemon/ledger/fetch.hpp"
#include "daemon/ledger/ledger.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

// While it lives, appends to a transcript that need its end read wait (fetch.cpp). The end is forgotten as soon as it
// is made, so no append is decided on the file as it is now.
class EndKeptUnread {
 public:
  EndKeptUnread(asio::io_context& loop, std::shared_ptr<Agent> agent, std::string file)
      : loop_(loop), agent_(std::move(agent)), file_(std::move(file)) {
    agent_->following.migrating.insert(file_);
  }
  EndKeptUnread(const EndKeptUnread&) = delete;
  EndKeptUnread& operator=(const EndKeptUnread&) = delete;
  // NOLINTNEXTLINE(bugprone-exception-escape): throws when memory is out, and the daemon ends
  ~EndKeptUnread() {
    agent_->following.migrating.erase(file_);
    asio::post(loop_, [agent = agent_] { agent->waiting.release(0); });
  }

 private:
  asio::io_context& loop_;
  std::shared_ptr<Agent> agent_;
  std::string file_;
};

}  // namespace

// No append may come between: one that was decided on the old file's end would be placed by it. So the end is kept
// unread until the file is written: appends that were decided before are in the file then, and the others wait. However
// many come, the wait is for those before.
asio::awaitable<Result<std::optional<transcripts::Migration>>> Ledger::migrate(std::string agent, std::string file,
                                                                               std::string session_id) {
  CO_TRY(co_await parts_.agents.load(agent, false));
  std::shared_ptr<TranscriptHold> hold;
  if (parts_.env.rules.shared) {
    CO_TRY(hold, co_await parts_.locks.take(agent, file));
  }
  const auto there = parts_.agents.find_or_add(agent).shared_from_this();
  while (there->following.migrating.contains(file)) co_await there->waiting.wait(0);
  if (parts_.env.stopping) co_return fail(Code::draining, "the daemon is shutting down");
  const EndKeptUnread unread(parts_.env.io, there, file);
  if (there->state) {
    there->state->transcripts.find_or_add(file);  // forgets an end, too, that is being read at the moment
    there->state->transcripts.forget(file);
  }
  CO_TRY(co_await parts_.commits.wait_until_durable(parts_.commits.last()));
  CO_TRY(co_await mend_transcript(parts_, agent, file,
                                  hold ? transcripts::TornLine::keep : transcripts::TornLine::move_aside));
  CO_TRY(co_await parts_.follower.publish(agent, file));
  auto done = co_await parts_.flusher.on_files([agent, file, session_id](TranscriptFiles& files) {
    auto flushed = files.flush();
    if (!flushed) return Result<std::optional<transcripts::Migration>>(std::unexpected(std::move(flushed.error())));
    return files.projection().migrate(agent, file, session_id);
  });
  if (hold) co_await parts_.locks.release(std::move(hold));
  co_return done;
}

asio::awaitable<Result<void>> Ledger::release(std::string agent, decide::Session session,
                                              std::vector<std::string> files) {
  const auto before = parts_.agents.find_or_add(agent).state;
  std::string lineage = before ? parts_.env.lineage.of(*before, session) : std::string();
  const std::uint64_t seq = parts_.commits.last();
  CO_TRY(co_await parts_.commits.wait_until_durable(seq));
  CO_TRY(co_await parts_.checkpointer.write_until(agent, seq));
  for (const std::string& file : files) {
    CO_TRY(co_await parts_.flusher.flush(agent, file));
    if (const auto state = parts_.agents.find_or_add(agent).state) state->transcripts.forget(file);
    parts_.readers.unload(agent, file);
  }
  parts_.notices.released(agent, session, std::move(lineage));
  co_return Result<void>{};
}

}  // namespace sessiond::ledger
