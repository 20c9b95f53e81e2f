#include "daemon/ledger/transcript_readers.hpp"

#include <cassert>

#include "daemon/runtime/log.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::size_t most_open = 256;  // about

}  // namespace

std::shared_ptr<TranscriptReaders::OpenTranscript> TranscriptReaders::open(const std::string& agent,
                                                                           const std::string& file) {
  assert(env_.loop.is_current());
  touch(agent, file);
  const std::string path = file_path(env_.paths, agent, file);
  auto& opened = open_[path];
  if (!opened) {
    if (open_.size() > most_open)
      std::erase_if(open_, [&](const auto& pair) { return pair.first != path && pair.second.use_count() == 1; });
    opened =
        std::make_shared<OpenTranscript>(env_.disk, env_.paths.root() / path, env_.paths.sidecar(agent, file),
                                         env_.paths.root().native() + "/" + dir_beside(env_.paths, agent, "changes"));
  }
  return opened;
}

void TranscriptReaders::note_refusal(const std::string& path, const Problem* why) {
  constexpr std::size_t most = 100;
  if (why == nullptr || !why->lasting) {
    if (!refused_.empty()) refused_.erase(path);
    return;
  }
  if (refused_.size() < most && refused_.insert_or_assign(path, why->detail).second)
    log::error("transcript_refused", {{"file", path}, {"error", why->detail}, {"next", "put the file itself there"}});
}

// Keeps what was indexed for the next start.
void TranscriptReaders::save(transcripts::Transcript& transcript) {
  if (auto saved = transcript.save_sidecars(); !saved)
    log::warn("index_not_saved", {{"error", saved.error().detail}, {"next", "the next start indexes it again"}});
}

void TranscriptReaders::unload(const std::string& agent, std::string_view file) {
  const std::string path = file_path(env_.paths, agent, file);
  std::erase_if(open_, [&](const auto& open) {
    return (file.empty() ? open.first.starts_with(path) : open.first == path) && open.second.use_count() == 1;
  });
}

}  // namespace sessiond::ledger
