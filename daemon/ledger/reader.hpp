// Transcripts kept open for reading: one at a time each, on disk threads.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "daemon/http/hop.hpp"
#include "daemon/ledger/ledger.hpp"

namespace sessiond {

struct Ledger::Reader {
  static constexpr std::size_t most = 256;  // open at once, about

  Reader(std::filesystem::path where, std::filesystem::path index)
      : path(std::move(where)), sidecar(std::move(index)) {}

  // The transcript as the file is now.
  Result<Transcript*> fresh();

  std::filesystem::path path;
  std::filesystem::path sidecar;
  std::mutex mutex;
  std::unique_ptr<Transcript> transcript;
};

template <class Call>
asio::awaitable<std::invoke_result_t<Call&, Transcript&>> Ledger::read_transcript(std::string agent, std::string file,
                                                                                  Call call) {
  using Value = std::invoke_result_t<Call&, Transcript&>;  // a Result
  if (auto flushed = co_await flush_transcript(agent, file); !flushed)
    co_return std::unexpected(std::move(flushed.error()));
  auto open = co_await reader(agent, file);
  co_return co_await hop(disk_.get_executor(), [open = std::move(open), call = std::move(call)]() mutable -> Value {
    const std::scoped_lock one(open->mutex);
    auto transcript = open->fresh();
    if (!transcript) return std::unexpected(std::move(transcript.error()));
    return call(**transcript);
  });
}

// The hashes of all entry ids of a transcript.
struct EntryIds {
  std::uint64_t lines = 0;
  std::unordered_set<std::uint64_t> hashes;
};
Result<EntryIds> read_ids(Transcript& transcript);

}  // namespace sessiond
