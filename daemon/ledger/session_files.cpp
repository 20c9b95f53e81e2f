// Requests about the transcripts of one session: migrate() writes old ones as version 3, release() lets them leave
// memory.
#include "daemon/ledger/ledger.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {

// No append may come between: one that was decided on the old file's end would be placed by it. So the end is forgotten
// in the step of the loop in which the migration is handed to the strand that writes transcripts. An append then reads
// the end again, behind the migration.
asio::awaitable<Result<std::optional<transcripts::Migration>>> Ledger::migrate(std::string agent, std::string file,
                                                                               std::string session_id) {
  CO_TRY(co_await parts_.agents.load(agent, false));
  std::shared_ptr<TranscriptHold> hold;
  if (parts_.env.rules.shared) {
    CO_TRY(hold, co_await parts_.locks.take(agent, file));
  }
  CO_TRY(co_await parts_.follower.publish(agent, file));
  for (;;) {
    if (parts_.env.stopping) co_return fail(Code::draining, "the daemon is shutting down");
    CO_TRY(co_await parts_.commits.wait_until_durable(parts_.commits.last()));
    const auto state = parts_.agents.find_or_add(agent).state;
    const decide::TranscriptEnd* end = state ? state->transcripts.find(file) : nullptr;
    if (end != nullptr && end->last_seq > parts_.commits.durable()) continue;
    if (state) {
      state->transcripts.find_or_add(file);  // forgets an end, too, that is being read at the moment
      state->transcripts.forget(file);
    }
    break;
  }
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
