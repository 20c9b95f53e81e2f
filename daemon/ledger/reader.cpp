#include "daemon/ledger/reader.hpp"

#include "daemon/runtime/log.hpp"

namespace sessiond {

void Ledger::OpenTranscript::save() {
  if (auto saved = transcript.save_sidecars(); !saved)
    log::warn("index_not_saved", {{"error", saved.error().detail}, {"next", "the next start indexes it again"}});
}

}  // namespace sessiond
