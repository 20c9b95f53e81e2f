// The text of a stream ticket, opaque to clients: `sdt_`, then in base64url 32 random bytes, an HMAC-SHA-256, the id of
// the token it was made from, the time by which it must open its first stream, and the filters it is bound to. The
// HMAC's key is <stateDir>/journal/cursor.key. The HMAC also covers the token's scope when the ticket was made: once
// that scope has changed, the ticket is invalid. So a ticket is valid without being stored, also after a restart or a
// power cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/auth/principal.hpp"
#include "daemon/auth/secret.hpp"

namespace sessiond::auth {

struct TicketClaims {
  std::string token{};            // id
  std::int64_t first_use_by = 0;  // ms since the epoch
  std::string filters{};          // a JSON object of strings
};

// A ticket taken apart. Its claims count only after proves().
struct TicketText {
  TicketClaims claims{};
  std::string random{};
  TokenHash mac{};

  // Says whether the ticket was made with `secret`, from a token with the scope of `principal`. Takes constant time.
  bool proves(const Principal& principal, std::string_view secret) const;
};

std::string write_ticket(const TicketClaims& claims, const Principal& principal, std::string_view secret);
// Returns nothing when the text does not have the shape of a ticket.
std::optional<TicketText> read_ticket(std::string_view ticket);

}  // namespace sessiond::auth
