// Stream tickets. A browser's EventSource cannot send a token, so it puts a ticket into the URL of an event stream. A
// ticket must open its first stream within 60 s. From then on it also opens that stream's reconnects, as long as its
// token is valid and its scope has not changed.
//
// A ticket proves itself (ticket.hpp), so unused tickets are not stored. Used ones are: a reconnect after the 60 s is
// accepted only if the ticket was used in time, and an EventSource that gets a 401 never reconnects. The request itself
// does not tell, since the finder of an old unused ticket can send a Last-Event-ID too. So <stateDir>/journal/tickets
// holds the SHA-256 of each used ticket, one JSON object a line, mode 0600. When there are too many, tickets of revoked
// and expired tokens are forgotten first, then the least recently used ones of the token that has the most; never one
// whose stream is open. So one token's tickets do not displace another's, and no open page loses its stream.
//
// Any thread may call it; only load and save block on the disk. Times are ms since the epoch.
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

namespace sessiond::auth {

struct CreatedTicket {
  std::string ticket;
  std::int64_t expires_at = 0;  // unless it is used before
};

struct Ticket {
  Principal principal;  // the token, as it is now
  std::string filters;  // as given to create()
};

class Tickets {
 public:
  static constexpr std::int64_t first_use_ms = 60'000;
  static constexpr std::size_t most_used = 10'000;

  // `secret` signs the tickets; `tokens` outlives this object.
  Tickets(std::filesystem::path path, std::string secret, const Tokens& tokens, std::size_t most = most_used)
      : path_(std::move(path)), secret_(std::move(secret)), tokens_(tokens), most_(most) {}

  // Reads which tickets were used. Damaged lines are left out, and reported as a problem with their number; the others
  // count all the same.
  Result<void> load();

  // Makes a ticket. forbidden for the unix socket, whose tickets could not be revoked. `filters` is a JSON object of
  // strings.
  Result<CreatedTicket> create(const Principal& principal, std::string_view filters, std::int64_t now) const;
  // Checks a ticket. unauthorized, with the same text for every reason, so that guessing reveals nothing.
  Result<Ticket> find(std::string_view ticket, std::int64_t now) const;

  // Records that a ticket, which find() has accepted, opens a stream. The stream counts as open while the handle lives.
  // Call save() before the stream is answered.
  using Handle = std::shared_ptr<const void>;
  Handle use(std::string_view ticket, std::int64_t now);

  bool unsaved() const;  // a ticket was used that is not in the file yet
  // Writes the file atomically. A caller that waits for another one's write usually finds its own change written too.
  Result<void> save(std::int64_t now);

 private:
  struct Used {
    std::string token{};    // id
    std::int64_t last = 0;  // when it last opened a stream, or had one open
  };
  // These need mutex_.
  void tidy(std::int64_t now);  // forgets tickets of invalid tokens; those with an open stream count as used now
  void make_room(std::int64_t now);
  std::string text() const;

  const std::filesystem::path path_;
  const std::string secret_;
  const Tokens& tokens_;
  const std::size_t most_;
  std::mutex file_mutex_;  // taken before mutex_, held during disk I/O

  mutable std::mutex mutex_;  // guards the following members
  std::map<TokenHash, std::shared_ptr<Used>> used_;
  std::uint64_t changes_ = 0;
  std::uint64_t saved_ = 0;
};

}  // namespace sessiond::auth
