// Stream tickets: what a browser's EventSource, which cannot send a token, puts into the URL of an event stream (API
// §6). A ticket opens its first stream within 60 s of being made, and from then on that stream's reconnects, by the
// same URL, as long as its token lives and may see exactly what it might see then.
//
// A ticket proves itself (ticket.hpp), so those not used yet are nowhere, need no bound, and outlive a restart. Only
// that one was used in time has to be remembered, else EventSource would be given 401 by the next daemon, and give up
// for good. It cannot be told from the request: whoever finds an old unused ticket can send a Last-Event-ID too. So
// <stateDir>/journal/tickets keeps the SHA-256 of each used ticket, one JSON object a line, 0600. When there are too
// many, those of revoked and expired tokens go, then of the token that has most those that were used longest ago, but
// never one whose stream is open: so no token's tickets push out another's, and no page that is open loses its stream.
//
// Any thread may call anything; only load and save block on the disk. Times are ms since the epoch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "daemon/auth/principal.hpp"
#include "daemon/auth/secret.hpp"
#include "daemon/auth/tokens.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct CreatedTicket {
  std::string ticket;
  std::int64_t expires_at = 0;  // unless it has been used by then
};

struct Ticket {
  Principal principal;  // its token's, as it is now
  std::string filters;  // as given when it was made
};

class Tickets {
 public:
  static constexpr std::int64_t first_use_ms = 60'000;
  static constexpr std::size_t most_used = 10'000;

  // `secret` signs them; `tokens` outlives this.
  Tickets(std::filesystem::path path, std::string secret, const Tokens& tokens, std::size_t most = most_used)
      : path_(std::move(path)), secret_(std::move(secret)), tokens_(tokens), most_(most) {}

  // Reads which tickets were used before. No file is none. Leaves damaged lines out, and then fails, saying how many.
  Result<void> load();

  // Of a token's principal; forbidden for the unix socket's, which no revoking ends. `filters`: a JSON object of
  // strings, kept as it is.
  Result<CreatedTicket> create(const Principal& principal, std::string_view filters, std::int64_t now) const;
  // unauthorized, with one text for every reason: whoever guesses learns nothing.
  Result<Ticket> find(std::string_view ticket, std::int64_t now) const;

  // A ticket that find() has just returned opens a stream: from now on it is remembered; while the handle lives its
  // stream is open. save() before the stream is answered.
  using Handle = std::shared_ptr<const void>;
  Handle use(std::string_view ticket, std::int64_t now);

  bool unsaved() const;  // a ticket was used that the file does not know
  // Atomic: the old file or the new one. Who waits while another writes finds its own written, mostly.
  Result<void> save(std::int64_t now);

 private:
  struct Used {
    std::string token{};    // id
    std::int64_t last = 0;  // when it last opened a stream, or had one open
  };
  void tidy(std::int64_t now);       // with mutex_: those of dead tokens go, those with an open stream are used now
  void make_room(std::int64_t now);  // with mutex_
  std::string text() const;          // with mutex_

  const std::filesystem::path path_;
  const std::string secret_;
  const Tokens& tokens_;
  const std::size_t most_;
  std::mutex file_mutex_;  // taken before mutex_, held while the disk works

  mutable std::mutex mutex_;  // what follows
  std::map<TokenHash, std::shared_ptr<Used>> used_;
  std::uint64_t changes_ = 0;
  std::uint64_t saved_ = 0;
};

}  // namespace sessiond
