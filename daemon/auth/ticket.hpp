// The text of a stream ticket (API §6), opaque to who holds it: `sdt_`, then in base64url 32 random bytes, an
// HMAC-SHA-256, the id of the token it was made from, the time until which it must have opened its first stream, and
// the filters it is bound to. The HMAC, by <stateDir>/journal/cursor.key, also covers what the token might see when the
// ticket was made: of a token that was narrowed or widened since, no ticket is good. So a ticket needs no memory of
// ours, and outlives a restart, a kill and a power cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/auth/principal.hpp"
#include "daemon/auth/secret.hpp"

namespace sessiond {

struct TicketClaims {
  std::string token{};            // id
  std::int64_t first_use_by = 0;  // ms since the epoch
  std::string filters{};          // a JSON object of strings
};

// Claims that nobody has proved yet.
struct TicketText {
  TicketClaims claims{};
  std::string random{};
  TokenHash mac{};

  // By who has `secret`, of a token that then might see what `principal` may see now. Takes the same time either way.
  bool proves(const Principal& principal, std::string_view secret) const;
};

std::string write_ticket(const TicketClaims& claims, const Principal& principal, std::string_view secret);
// Nothing when it has not the shape of a ticket.
std::optional<TicketText> read_ticket(std::string_view ticket);

}  // namespace sessiond
