// The two kinds of answers that are kept: to an Idempotency-Key, in journal/keys, and to a message that a chat platform
// has named, in journal/messages. The latter are kept as long as the journal, and a message is found by them.
//
// Any thread may call it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/answers/answers.hpp"
#include "store/try.hpp"

namespace sessiond::answers {

class KeptAnswers {
 public:
  struct Options {
    std::filesystem::path dir;  // <stateDir>/journal
    std::int64_t key_retention_ms = 0;
    std::int64_t message_retention_ms = 0;
    std::uint64_t max_bytes = 1ULL << 30;  // of each kind
  };
  static Result<std::unique_ptr<KeptAnswers>> open(const Options& options) {
    AnswerStore::Options keys{.dir = options.dir / "keys",
                              .retention_ms = options.key_retention_ms,
                              .max_bytes = options.max_bytes,
                              .segment_bytes = std::min<std::uint64_t>(16ULL << 20, options.max_bytes / 16)};
    AnswerStore::Options messages = keys;
    messages.dir = options.dir / "messages";
    messages.retention_ms = options.message_retention_ms;
    std::unique_ptr<KeptAnswers> out(new KeptAnswers);
    TRY(out->keys_, AnswerStore::open(std::move(keys)));
    TRY(out->messages_, AnswerStore::open(std::move(messages)));
    return out;
  }

  // As in AnswerStore, of both kinds or of the one that the answer is.
  std::optional<Answer> find(const Digest& scope, std::int64_t now) const { return keys_->find(scope, now); }
  std::optional<Answer> find_message(const Digest& scope, std::int64_t now) const {
    return messages_->find(scope, now);
  }
  void put(Answer answer, std::string json) {
    AnswerStore& store = answer.of_message() ? *messages_ : *keys_;
    store.put(std::move(answer), std::move(json));
  }
  void put(const Answer& answer) { put(answer, to_json(answer)); }
  Result<void> flush(bool sync) {
    TRY(keys_->flush(sync));
    return messages_->flush(sync);
  }
  std::int64_t newest() const { return std::max(keys_->newest(), messages_->newest()); }
  void expire(std::int64_t now) {
    keys_->expire(now);
    messages_->expire(now);
  }
  std::vector<std::string> take_repairs() {
    std::vector<std::string> found = keys_->take_repairs();
    std::ranges::move(messages_->take_repairs(), std::back_inserter(found));
    return found;
  }
  bool truncated() const { return keys_->truncated() || messages_->truncated(); }

 private:
  KeptAnswers() = default;

  std::unique_ptr<AnswerStore> keys_{};
  std::unique_ptr<AnswerStore> messages_{};
};

}  // namespace sessiond::answers
