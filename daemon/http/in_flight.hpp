// Counts how many bytes of requests and replies each token has in memory: bodies that are being received, and replies
// that their client has not read yet. Without a limit on them, one client that sends much and reads nothing would fill
// the daemon's memory. Belongs to the network thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "store/problem.hpp"

namespace sessiond::http {

class InFlight {
 public:
  // Bytes of one token, subtracted again when the share is destroyed. The InFlight outlives its shares.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)),
          who_(std::move(other.who_)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(all_, other.all_);
      std::swap(who_, other.who_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() { resize(0); }

    void resize(std::uint64_t bytes) {
      if (all_ == nullptr || bytes == bytes_) return;
      all_->add(who_, bytes, bytes_);
      bytes_ = bytes;
    }
    std::uint64_t bytes() const { return bytes_; }

   private:
    friend class InFlight;
    Share(InFlight& all, std::string_view who) : all_(&all), who_(who) {}
    InFlight* all_ = nullptr;
    std::string who_;
    std::uint64_t bytes_ = 0;
  };

  // Requests without a token ("") are not counted: the routes that are open to them accept small bodies only.
  Share take(std::string_view who, std::uint64_t bytes) {
    if (who.empty()) return {};
    Share share(*this, who);
    share.resize(bytes);
    return share;
  }

  std::uint64_t of(std::string_view who) const {
    const auto found = by_token_.find(who);
    return found == by_token_.end() ? 0 : found->second;
  }
  // Says whether the token has more than `most` with `share` (0: no limit). A single request or reply is never too
  // much: the limits on one request apply to it.
  bool too_much(std::string_view who, const Share& share, std::uint64_t most) const {
    const std::uint64_t all = of(who);
    return most != 0 && all > most && all > share.bytes();
  }

  // The same for a share of `bytes` that is not taken.
  bool too_much_with(std::string_view who, std::uint64_t bytes, std::uint64_t most) const {
    const std::uint64_t others = of(who);
    return most != 0 && !who.empty() && others != 0 && others + bytes > most;
  }

 private:
  void add(const std::string& who, std::uint64_t now, std::uint64_t before) {
    const auto found = by_token_.try_emplace(who, 0).first;
    found->second += now - before;  // modulo 2^64: the sum is never negative
    if (found->second == 0) by_token_.erase(found);
  }

  std::map<std::string, std::uint64_t, std::less<>> by_token_;
};

inline Problem bytes_per_token_reached(std::string_view token) {
  return {.code = Code::too_many_requests,
          .detail = fmt::format("token {} has as many bytes of requests and unread replies under way as "
                                "limits.bytesPerToken allows",
                                token),
          .retry_after_s = 1};
}

}  // namespace sessiond::http
