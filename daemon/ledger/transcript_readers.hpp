// Transcripts kept open for reading. Each has a strand of its own: one call at a time, on a disk thread, and calls that
// wait hold no thread. A call that parses much of its transcript is one of LedgerEnv::long_passes. Thread: the loop.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include "daemon/ledger/last_use.hpp"
#include "daemon/ledger/transcript_flusher.hpp"
#include "daemon/runtime/on_strand.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::ledger {

class TranscriptReaders {
 public:
  TranscriptReaders(LedgerEnv& env, TranscriptFlusher& flusher) : env_(env), flusher_(flusher) {}

  // Runs call(Transcript&), which returns a Result, on a disk thread, when the file holds all acknowledged lines. A
  // call that turns out to be a long pass begins again. lock_timeout when a foreign lock keeps lines of the last
  // recovery out of it.
  template <class Call>
  asio::awaitable<std::invoke_result_t<Call&, transcripts::Transcript&>> read(std::string agent, std::string file,
                                                                              Call call);
  // Closes the transcripts of an agent that leaves memory (of one that stays: this one), except those that are being
  // read.
  void unload(const std::string& agent, std::string_view file = {});
  // Notes that a transcript is refused until a person has changed something (Problem::lasting), or that it is not.
  void note_refusal(const std::string& path, const Problem* why);
  // Those that were refused at the last try, and why. At most some.
  const std::map<std::string, std::string>& refused() const { return refused_; }
  // Notes that a transcript was used just now. read() does that itself.
  void touch(const std::string& agent, const std::string& file) { uses_.touch(agent, file, store::steady_ms()); }
  // Takes out those that were not used after `before`: LastUse::take_idle.
  std::vector<std::pair<std::string, std::string>> take_idle(std::int64_t before, std::size_t most) {
    return uses_.take_idle(before, most);
  }

 private:
  using OpenTranscript = runtime::OnStrand<transcripts::Transcript>;
  static constexpr std::uint64_t slice = 64 << 20;  // bytes that a long pass indexes before another one has its turn
  std::shared_ptr<OpenTranscript> open(const std::string& agent, const std::string& file);
  static void save(transcripts::Transcript& transcript);

  LedgerEnv& env_;
  TranscriptFlusher& flusher_;
  std::map<std::string, std::shared_ptr<OpenTranscript>> open_{};  // by path; bounded
  LastUse uses_{};
  std::map<std::string, std::string> refused_{};  // by path
};

template <class Call>
asio::awaitable<std::invoke_result_t<Call&, transcripts::Transcript&>> TranscriptReaders::read(std::string agent,
                                                                                               std::string file,
                                                                                               Call call) {
  using Value = std::invoke_result_t<Call&, transcripts::Transcript&>;
  // A reader waits for no lock. Lines that wait for one now are not acknowledged yet, and the file has the others; but
  // of those that the start took from the journal some may have been acknowledged before, so without them it is
  // refused.
  if (auto flushed = co_await flusher_.flush(agent, file);
      !flushed && (flushed.error().code != Code::lock_timeout ||
                   flusher_.recovering().contains(file_path(env_.paths, agent, file))))
    co_return std::unexpected(std::move(flushed.error()));
  const auto opened = open(agent, file);
  const auto pass = [&](std::uint64_t index, std::uint64_t parse) {
    return runtime::on(*opened,
                       [call, index, parse](transcripts::Transcript& transcript) mutable -> std::optional<Value> {
                         transcript.allow(parse);
                         auto whole = transcript.refresh(index);
                         if (!whole) return Value(std::unexpected(std::move(whole.error())));
                         if (!*whole) return std::nullopt;
                         Value value = call(transcript);
                         return transcript.was_stopped() ? std::nullopt : std::optional(std::move(value));
                       });
  };
  auto value = co_await pass(short_pass, short_pass);
  while (!value) value = co_await env_.long_passes.run(pass(slice, transcripts::Transcript::whole));
  note_refusal(file_path(env_.paths, agent, file), value->has_value() ? nullptr : &value->error());
  runtime::post(*opened, save);  // behind the answer
  co_return std::move(*value);
}

}  // namespace sessiond::ledger
