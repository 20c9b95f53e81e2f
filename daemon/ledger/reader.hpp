// Transcripts kept open for reading: one call at a time each, on disk threads; those that wait hold no thread.
#pragma once

#include <filesystem>
#include <memory>

#include "daemon/ledger/ledger.hpp"
#include "daemon/runtime/hop.hpp"

namespace sessiond {

struct Ledger::OpenTranscript {
  static constexpr std::size_t most = 256;  // open at once, about

  static constexpr std::uint64_t slice = 64
                                         << 20;  // bytes indexed at a time: a first look keeps no disk thread for long

  OpenTranscript(asio::thread_pool& disk, std::filesystem::path path, std::filesystem::path sidecar)
      : turn(asio::make_strand(disk.get_executor())), transcript(std::move(path), std::move(sidecar)) {}

  // After a call, behind its answer: keeps what was indexed for the next start.
  void save();

  asio::strand<asio::thread_pool::executor_type> turn;
  Transcript transcript;
};

template <class Call>
asio::awaitable<std::invoke_result_t<Call&, Transcript&>> Ledger::read_transcript(std::string agent, std::string file,
                                                                                  Call call) {
  using Value = std::invoke_result_t<Call&, Transcript&>;  // a Result
  // A reader waits for no lock. Lines that wait for one now are not acknowledged yet, and the file has the others; but
  // of those that the start took from the journal some may have been acknowledged before, so without them it is
  // refused.
  if (auto flushed = co_await flush_transcript(agent, file);
      !flushed &&
      (flushed.error().code != Code::lock_timeout || recovered_.contains(paths_.sessions_dir(agent) + file)))
    co_return std::unexpected(std::move(flushed.error()));
  auto open = co_await reader(agent, file);
  for (;;) {
    auto value = co_await hop(open->turn, [open, call]() mutable -> std::optional<Value> {
      auto whole = open->transcript.refresh(OpenTranscript::slice);
      if (!whole) return Value(std::unexpected(std::move(whole.error())));
      return *whole ? std::optional<Value>(call(open->transcript)) : std::nullopt;
    });
    if (!value) continue;
    asio::post(open->turn, [open] { open->save(); });
    co_return std::move(*value);
  }
}

}  // namespace sessiond
