// Says which deliveries are kept for bridges to claim. Where no bridge collects, nothing is kept: a delivery is stored
// only if a bridge has claimed from where it lies. The filter of such a claim is an adoption. It holds for agents and
// channels that do not exist yet, and it ends when that claim has not come again for deliveries.adoptMs. Pure values;
// times are those of journal::AgeClock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::decide {

// A part of all deliveries, as a claim names it.
struct Adoption {
  std::string token{};                      // that claims
  std::vector<std::string> agents{};        // empty: all
  std::string channel{};                    // empty: all
  std::optional<std::string> account_id{};  // nothing: all
  std::string key_prefix{};                 // empty: all
  std::int64_t claimed_at = 0;

  bool covers(std::string_view agent, std::string_view key, std::string_view of_channel,
              std::string_view of_account) const;
  bool is_same_part(const Adoption& other) const;  // asked for by the same token
};

class Adoptions {
 public:
  static constexpr std::size_t most_of_token = 100;

  bool covers(std::string_view agent, std::string_view key, std::string_view channel, std::string_view account) const;
  // Tells that a claim came. Returns whether the list must be stored: it is new, or what is stored is `stale_ms` old.
  // One more than a token may have takes the place of the one that it has claimed least recently.
  bool renew(Adoption adoption, std::int64_t stale_ms);
  // It was not stored after all: the next claim of this part tries again.
  void mark_unstored(const Adoption& adoption);
  // Drops those that were claimed before this time. Returns whether there were any.
  bool drop_older(std::int64_t time);
  // Drops those of a token that was revoked. Returns whether there were any.
  bool drop_token(std::string_view token);

  std::int64_t newest() const;  // the last claim's time; 0: there was none

  // The text of journal/adoptions, without a checksum, and back. degraded.
  std::string to_json() const;
  static Result<Adoptions> from_json(std::string_view text);

 private:
  struct Kept {
    Adoption adoption{};
    std::int64_t stored_at = 0;
  };
  std::vector<Kept> kept_{};
};

}  // namespace sessiond::decide
