// Takes a snapshot of the state directory while the daemon writes it (snapshot.hpp).
#include "daemon/ledger/checkpointer.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {

asio::awaitable<Result<std::shared_ptr<StateSnapshot>>> Checkpointer::take_snapshot() {
  // Only shortens the replay of the snapshot's journal: a snapshot without it is as good.
  if (auto done = co_await write_all(); !done)
    log::warn("backup_without_checkpoint", {{"error", done.error().detail}, {"next", "the journal in it has it all"}});
  ++snapshots_;
  const auto snapshot = std::make_shared<StateSnapshot>();
  const auto taken = co_await snapshot_turn_.run(take_parts(snapshot));  // one at a time: Renames::note_placed
  --snapshots_;
  if (taken) co_return snapshot;
  co_await flusher_.on_files([](TranscriptFiles& files) { return files.projection().renames().take_placed(); });
  co_await runtime::run_on(env_.disk.get_executor(), [snapshot] {
    snapshot->links.reset();
    return true;
  });
  co_return std::unexpected(taken.error());
}

asio::awaitable<Result<void>> Checkpointer::take_parts(std::shared_ptr<StateSnapshot> snapshot) {
  CO_TRY(co_await runtime::run_on(strand_, [this, snapshot]() -> Result<void> {
    TRY(snapshot->links, LinkDir::make(env_.paths.journal_dir()));
    return take_stores(*snapshot, env_.paths);
  }));
  co_await flusher_.on_files([](TranscriptFiles& files) { return files.projection().renames().note_placed(), true; });
  for (const std::string& agent : co_await agents_.ids())
    CO_TRY(co_await flusher_.on_files(
        [this, snapshot, agent](TranscriptFiles&) { return take_transcripts(*snapshot, env_.paths, agent); }));
  CO_TRY(co_await runtime::run_on(env_.disk.get_executor(),
                                  [this, snapshot] { return take_journal(*snapshot, journal_files_); }));
  CO_TRY(co_await commits_.wait_until_durable(commits_.last()));  // the loop knows all of this journal then
  CO_TRY(co_await flusher_.on_files([this, snapshot](TranscriptFiles& files) {
    return take_placed(*snapshot, env_.paths, files.projection().renames().take_placed());
  }));
  co_return co_await runtime::run_on(env_.disk.get_executor(),
                                     [this, snapshot] { return take_blobs(*snapshot, env_.paths); });
}

}  // namespace sessiond::ledger
