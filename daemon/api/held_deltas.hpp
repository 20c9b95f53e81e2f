// Keeps the ends of deltas that wait for the next ones, since they may be the beginnings of keys
// (policy::redact_piece). A delta without text ends the text: it is told what waited. What waits is forgotten after ten
// minutes; the message that the deltas announce has it. Thread: the loop.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "policy/redaction.hpp"

namespace sessiond::api {

class HeldDeltas {
 public:
  // Takes a delta of the text that `of` names, as it was sent. Returns what can be told now.
  std::string take(std::string of, std::string_view sent, std::int64_t now) {
    forget_old(now);
    const auto at = waiting_.find(of);
    std::string held = at == waiting_.end() ? std::string() : std::move(at->second.text);
    if (at != waiting_.end()) waiting_.erase(at);
    if (sent.empty()) return policy::redacted_text(held);
    policy::Piece piece = policy::redact_piece(std::move(held), sent);
    if (!piece.held.empty() && waiting_.size() < most)
      waiting_.emplace(std::move(of), Waiting{.text = std::move(piece.held), .since = now});
    else if (!piece.held.empty())
      piece.now += policy::redacted_text(piece.held);
    return std::move(piece.now);
  }

 private:
  static constexpr std::size_t most = 10'000;
  static constexpr std::int64_t longest_ms = 10LL * 60'000;
  struct Waiting {
    std::string text{};
    std::int64_t since = 0;
  };

  void forget_old(std::int64_t now) {
    if (now < look_at_) return;
    look_at_ = now + 60'000;
    std::erase_if(waiting_, [now](const auto& one) { return now - one.second.since > longest_ms; });
  }

  std::map<std::string, Waiting, std::less<>> waiting_{};
  std::int64_t look_at_ = 0;
};

}  // namespace sessiond::api
