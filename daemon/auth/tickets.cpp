#include "daemon/auth/tickets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "daemon/auth/ticket.hpp"
#include "store/files.hpp"
#include "store/hex.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::auth {
namespace {

std::unexpected<Problem> refused() {
  return fail(
      Code::unauthorized,
      "the ticket is not valid: it is forged, was not used in time, or its token was revoked, has expired or was "
      "changed; make a new one");
}

}  // namespace

Result<void> Tickets::load() {
  const auto text = store::read_file(path_);
  if (!text) return text.error().code == Code::not_found ? Result<void>{} : std::unexpected(text.error());
  std::size_t damaged = 0;
  const std::lock_guard lock(mutex_);
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!json::check(line)) {
      ++damaged;
      continue;
    }
    const auto hash = hash_from_hex(json::string_at(line, "hash").value_or(""));
    const auto token = json::string_at(line, "token");
    const auto last = json::int_at(line, "lastUsed");
    if (hash && token && last) used_.insert_or_assign(*hash, std::make_shared<Used>(*token, *last));
  }
  if (damaged == 0) return {};
  return fail(Code::degraded, fmt::format("{} has {} damaged lines; streams that were opened with those tickets need "
                                          "new ones",
                                          path_.native(), damaged));
}

Result<CreatedTicket> Tickets::create(const Principal& principal, std::string_view filters, std::int64_t now) const {
  if (!valid_token_id(principal.id))
    return fail(Code::forbidden, "a ticket is made from a token: send one in the Authorization header");
  const TicketClaims claims{.token = principal.id, .first_use_by = now + first_use_ms, .filters = std::string(filters)};
  return CreatedTicket{.ticket = write_ticket(claims, principal, secret_), .expires_at = claims.first_use_by};
}

Result<Ticket> Tickets::find(std::string_view ticket, std::int64_t now) const {
  const auto text = read_ticket(ticket);
  if (!text) return refused();
  auto principal = tokens_.principal(text->claims.token, now);
  // The check also runs when the token does not exist, so that both cases take the same time.
  const bool proved = text->proves(principal ? *principal : Principal{}, secret_);
  if (!principal || !proved) return refused();
  if (now >= text->claims.first_use_by) {
    const std::lock_guard lock(mutex_);
    if (!used_.contains(hash_token(ticket))) return refused();
  }
  return Ticket{.principal = std::move(*principal), .filters = text->claims.filters};
}

Tickets::Handle Tickets::use(std::string_view ticket, std::int64_t now) {
  const auto text = read_ticket(ticket);
  if (!text) return {};
  const std::lock_guard lock(mutex_);
  auto& used = used_[hash_token(ticket)];
  if (used) {
    used->last = std::max(used->last, now);
    return used;
  }
  used = std::make_shared<Used>(text->claims.token, now);
  ++changes_;
  Handle handle = used;  // keeps it from being forgotten by make_room
  if (used_.size() > most_) make_room(now);
  return handle;
}

void Tickets::tidy(std::int64_t now) {
  std::map<std::string, bool, std::less<>> lives;
  std::erase_if(used_, [&](const auto& entry) {
    const auto [token, first] = lives.try_emplace(entry.second->token, false);
    if (first) token->second = tokens_.principal(token->first, now).has_value();
    return !token->second;
  });
  for (auto& [hash, used] : used_) {
    if (used.use_count() > 1) used->last = now;
  }
}

// Looks at all tickets, so it forgets a sixteenth of them at once.
void Tickets::make_room(std::int64_t now) {
  tidy(now);
  if (used_.size() <= most_) return;
  std::map<std::string, std::vector<decltype(used_)::iterator>, std::less<>>
      closed;  // by token, the least recently used last
  for (auto it = used_.begin(); it != used_.end(); ++it) {
    if (it->second.use_count() == 1) closed[it->second->token].push_back(it);
  }
  for (auto& [token, tickets] : closed)
    std::ranges::sort(tickets, std::ranges::greater(), [](const auto& it) { return it->second->last; });
  while (used_.size() > most_ - most_ / 16) {
    const auto most = std::ranges::max_element(closed, {}, [](const auto& one) { return one.second.size(); });
    if (most == closed.end() || most->second.empty()) return;
    used_.erase(most->second.back());
    most->second.pop_back();
  }
}

std::string Tickets::text() const {
  std::string text;
  for (const auto& [hash, used] : used_) {
    json::ObjectWriter out(text);
    out.string("hash", store::to_hex(hash));
    out.string("token", used->token);
    out.integer("lastUsed", used->last);
    out.close();
    text += '\n';
  }
  return text;
}

bool Tickets::unsaved() const {
  const std::lock_guard lock(mutex_);
  return changes_ != saved_;
}

Result<void> Tickets::save(std::int64_t now) {
  const std::lock_guard file_lock(file_mutex_);
  std::unique_lock lock(mutex_);
  if (changes_ == saved_) return {};
  tidy(now);
  const std::string written = text();
  const std::uint64_t included = changes_;
  lock.unlock();
  if (auto done = store::replace_file(path_, written); !done) return done;
  lock.lock();
  saved_ = included;
  return {};
}

}  // namespace sessiond::auth
