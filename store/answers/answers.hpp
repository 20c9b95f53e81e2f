// Idempotency answers (FORMATS §1, API §1): what was replied to a key, kept `retention_ms` over restarts in
// journal/keys, at most max_bytes (then the oldest go). They are durable in the journal first; here they are projected
// to, so that the journal's segments may go. Memory does not grow with the number of answers: sealed segments carry a
// sorted index that is mapped, only the newest one is in memory.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

using Digest = std::array<std::uint8_t, 16>;  // the first 16 bytes of a SHA-256
Digest digest(std::string_view bytes);

struct Answer {
  Digest scope{};         // of principal, method, path and key, joined by NUL
  Digest request{};       // of the request's body, query and If-Match
  std::int64_t time = 0;  // by the clock of ages (age_clock.hpp), as is every `now` below
  int status = 0;         // HTTP status that was answered
  std::string headers{};  // raw JSON object of the headers that belong to the answer (ETag, Location)
  std::string body{};     // as sent
  friend bool operator==(const Answer&, const Answer&) = default;
};
// As it stands in a batch's `answers` and in journal/keys: {"k":"<32 hex>","b":"<32
// hex>","t":ms,"s":201,"h":{…},"r":"<body as JSON string>"}
std::string to_json(const Answer& answer);
Result<Answer> answer_from_json(std::string_view json);

class AnswerStore {
 public:
  struct Options {
    std::filesystem::path dir;  // <stateDir>/journal/keys
    std::int64_t retention_ms = 24LL * 3600 * 1000;
    std::uint64_t max_bytes = 1ULL << 30;
    std::uint64_t segment_bytes = 16ULL << 20;
  };
  static Result<std::unique_ptr<AnswerStore>> open(Options options);
  ~AnswerStore();
  AnswerStore(const AnswerStore&) = delete;
  AnswerStore& operator=(const AnswerStore&) = delete;

  // Any thread; find may read a page of a sealed segment. Answers older than the retention are not found.
  std::optional<Answer> find(const Digest& scope, std::int64_t now) const;
  // Keeps an answer (again is harmless: recovery replays). Seen by find at once; on disk after flush.
  void put(const Answer& answer);
  // Writes what was put; with sync, fsyncs it (before the journal's checkpoint may pass it). What could not be written
  // is kept for the next flush.
  Result<void> flush(bool sync);
  std::int64_t newest() const;    // time of an answer; 0: there is none
  void expire(std::int64_t now);  // drops segments past retention or above max_bytes
  // What was found damaged since the last call, one sentence each: which file, offset, what was done.
  std::vector<std::string> take_repairs();
  bool truncated() const;  // answers younger than the retention were dropped for max_bytes; /readyz says so

 private:
  struct Impl;
  explicit AnswerStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond
