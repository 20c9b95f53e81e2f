// Keeps the ends of deltas that wait for the next ones, since they may be the beginnings of keys
// (policy::PieceRedactor). A delta without text ends the text: it is told what waited. What waits is forgotten after
// ten minutes; the message that the deltas announce has it. Thread: the loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/redaction.hpp"

namespace sessiond::api {

class HeldDeltas {
 public:
  struct Delta {
    std::string text{};  // what can be told now
    std::vector<policy::SecretIn> found{};
  };
  // Takes a delta of the text that `of` names, as it was sent. `rejects`: not one in which a secret ends.
  Delta take(std::string of, std::string_view sent, std::int64_t now, bool rejects) {
    forget_old(now);
    const auto at = waiting_.find(of);
    policy::PieceRedactor text;
    if (at != waiting_.end()) {
      text = std::move(at->second.text);
      waiting_.erase(at);
    }
    policy::PieceRedactor before = rejects ? text : policy::PieceRedactor();
    policy::PieceRedactor::Piece piece = text.take(sent);
    Delta out{.text = sent.empty() ? text.tell_rest() : std::move(piece.text)};
    for (const std::string_view kind : piece.kinds) out.found.push_back({.pointer = "/text", .kind = kind});
    if (rejects && !text.held_kind().empty()) out.found.push_back({.pointer = "/text", .kind = text.held_kind()});
    if (rejects && !out.found.empty()) text = std::move(before);
    if (text.is_idle()) return out;
    // The oldest makes room: its end is told with the message alone.
    if (waiting_.size() >= most)
      waiting_.erase(std::ranges::min_element(waiting_, {}, [](const auto& one) { return one.second.since; }));
    waiting_.emplace(std::move(of), Waiting{.text = std::move(text), .since = now});
    return out;
  }

 private:
  static constexpr std::size_t most = 10'000;
  static constexpr std::int64_t longest_ms = 10LL * 60'000;
  struct Waiting {
    policy::PieceRedactor text{};
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
