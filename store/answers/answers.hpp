// Idempotency answers. A client that repeats a request with the same Idempotency-Key gets the reply of the first
// request, and nothing is done twice. So the reply to each key is kept for `retention_ms`, over restarts too, in
// journal/keys.
//
// An answer is durable in the journal together with its commit. It is copied to here, so that retention may remove the
// journal's segments. Memory does not grow with the number of answers: the newest segment is in memory, older ones have
// a sorted index in a file that is mapped. Beyond `max_bytes` the oldest answers are removed.
//
// Any thread may call it.
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

namespace sessiond::answers {

using Digest = std::array<std::uint8_t, 16>;  // the first 16 bytes of a SHA-256
Digest digest(std::string_view bytes);

struct Answer {
  Digest scope{};  // of token, method, path and Idempotency-Key, joined by NUL
  // Of the request's body, query and If-Match: another request with the same key is refused. Zeros: the answer is to a
  // message that its platform has named, whatever else the request says.
  Digest request{};
  std::int64_t time = 0;  // of the AgeClock (store/journal/age_clock.hpp), as is every `now` below
  int status = 0;         // of the HTTP reply
  std::string headers{};  // JSON object of the reply's headers (ETag, Location); of a message, see known_messages.hpp
  std::string body{};     // as sent
  bool of_message() const { return request == Digest{}; }
  friend bool operator==(const Answer&, const Answer&) = default;
};
// As in a batch's `answers` and in journal/keys:
//   {"k":"<32 hex>","b":"<32 hex>","t":ms,"s":201,"h":{…},"r":"<body as JSON string>"}
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

  // Finds an answer that is not older than the retention. May read from the disk.
  std::optional<Answer> find(const Digest& scope, std::int64_t now) const;
  // Keeps an answer: find() has it at once, the disk after flush(). Recovery may put the same answer again. `json` must
  // be to_json(answer).
  void put(Answer answer, std::string json);
  void put(const Answer& answer) { put(answer, to_json(answer)); }
  // Writes what was put; with `sync`, fsyncs it. The journal must not release a commit before its answer is synced
  // here. What could not be written is kept for the next flush. Blocks.
  Result<void> flush(bool sync);
  std::int64_t newest() const;    // the latest time of an answer; 0: there is none
  void expire(std::int64_t now);  // removes segments that are too old or beyond max_bytes; blocks
  // Damage found since the last call. Each is one sentence that names the file and offset.
  std::vector<std::string> take_repairs();
  bool truncated() const;  // whether answers within the retention were removed for max_bytes; /readyz tells it

 private:
  struct Impl;
  explicit AnswerStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond::answers
