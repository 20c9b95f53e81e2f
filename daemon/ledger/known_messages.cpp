#include "daemon/ledger/known_messages.hpp"

#include <algorithm>

#include "daemon/decide/hooks.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/number.hpp"

namespace sessiond::ledger {
namespace {

std::string text_of_scope(const answers::Digest& scope) {
  return {reinterpret_cast<const char*>(scope.data()), scope.size()};
}

std::optional<answers::Answer> find_answer(const LedgerParts& parts, const answers::Digest& scope) {
  if (const answers::Answer* in_memory = parts.memory.find_answer(scope)) return *in_memory;
  return parts.commits.answers().find_message(scope, parts.commits.clock().now());
}

answers::Digest scope_of_session(const std::string& name, std::string_view key) {
  return answers::digest(name + "\n" + store::folded_key(key));
}
answers::Digest scope_of_token(const std::string& name, const std::string& actor) {
  return answers::digest(name + actor);
}

bool is_of_session(const answers::Answer& answer, std::string_view key) {
  return store::same_key(json::string_at(answer.body, "sessionKey").value_or(""), key);
}

// Returns whether a position, <epoch>-<seq>, is of this epoch and behind the event `after`.
bool came_after(std::string_view position, std::string_view epoch, std::uint64_t after) {
  if (!position.starts_with(epoch) || position.size() <= epoch.size() || position[epoch.size()] != '-') return false;
  const auto seq = store::parse_number<std::uint64_t>(position.substr(epoch.size() + 1));
  return seq && *seq > after;
}

// Tells the answer to a request from the one that names a message which went out (decide::place_json).
bool is_reply(const answers::Answer& answer) { return json::find(answer.body, "asOf").has_value(); }

}  // namespace

InFlight::~InFlight() {
  for (const std::string& scope : own_) table_.erase(scope);
}

bool InFlight::has(const answers::Digest& scope) const { return table_.contains(text_of_scope(scope)); }

void InFlight::add(const answers::Digest& scope) {
  if (table_.insert(text_of_scope(scope)).second) own_.push_back(text_of_scope(scope));
}

Result<KnownMessage> known_message(const LedgerParts& parts, const MessageName& wanted, InFlight& in_flight) {
  const answers::Digest shared = answers::digest(wanted.name);
  const answers::Digest of_session = scope_of_session(wanted.name, wanted.key);
  if (in_flight.has(of_session))
    return std::unexpected(Problem{.code = Code::idempotency_in_flight,
                                   .detail = "a request with this messageId is still running",
                                   .retry_after_s = 1});
  const auto is_here = [&wanted](const answers::Answer& answer) {
    return is_of_session(answer, wanted.key) || (!wanted.other_key.empty() && is_of_session(answer, wanted.other_key));
  };
  auto first = find_answer(parts, shared);
  const bool is_free = !first || is_here(*first);
  const auto known_as = [&](answers::Answer answer) {
    KnownMessage known{.own = !is_reply(answer)};
    if (const auto place = known.own ? decide::read_place(answer.body) : std::nullopt)
      answer.body = decide::own_message_json(*place);
    known.is_open = !known.own && wanted.addresses && json::find(answer.body, "activate") == "false";
    if (known.is_open) {
      known.scopes = {answer.scope};
      in_flight.add(of_session);
      in_flight.add(answer.scope);
    }
    known.answer = std::move(answer);
    return known;
  };
  if (first && is_free) return known_as(*std::move(first));
  for (const std::string& key : {wanted.key, wanted.other_key})
    if (auto own = find_answer(parts, scope_of_session(wanted.name, key)); own && is_here(*own))
      return known_as(*std::move(own));
  KnownMessage known;
  if (is_free && !in_flight.has(shared))
    known.scopes = {shared};
  else
    known.scopes = {of_session, scope_of_token(wanted.name, wanted.actor)};
  in_flight.add(of_session);
  in_flight.add(known.scopes.front());
  return known;
}

std::optional<decide::MessagePlace> find_echo(const LedgerParts& parts, const std::string& name, std::string_view key,
                                              std::uint64_t after) {
  for (const answers::Digest& scope : {answers::digest(name), scope_of_session(name, key)}) {
    const auto answer = find_answer(parts, scope);
    if (!answer || !is_of_session(*answer, key) || !is_reply(*answer)) continue;
    if (came_after(json::string_at(answer->body, "asOf").value_or(""), parts.commits.journal().epoch(), after))
      return decide::read_place(answer->body);
  }
  return {};
}

std::optional<decide::MessagePlace> find_message(const LedgerParts& parts, const MessageSearch& wanted) {
  std::vector<answers::Digest> scopes{scope_of_token(wanted.name, wanted.actor), answers::digest(wanted.name)};
  for (const std::string& key : wanted.keys) scopes.push_back(scope_of_session(wanted.name, key));
  for (const answers::Digest& scope : scopes) {
    const auto answer = find_answer(parts, scope);
    if (!answer || !wanted.sees(answer->body)) continue;
    if (auto place = decide::read_place(answer->body)) return place;
  }
  return {};
}

bool are_coming_in(const decide::Decision& decision, const InFlight& in_flight) {
  return std::ranges::any_of(decision.named, [&in_flight](const decide::NamedMessage& named) {
    return in_flight.has(scope_of_session(named.name, named.place.key));
  });
}

void keep_sent(const LedgerParts& parts, const decide::Decision& decision, const std::string& actor, KeptUnder& under,
               InFlight& in_flight) {
  for (const decide::NamedMessage& named : decision.named) {
    const std::string& key = named.place.key;
    const answers::Digest shared = answers::digest(named.name);
    const answers::Digest of_session = scope_of_session(named.name, key);
    if (in_flight.has(of_session)) continue;
    const auto first = find_answer(parts, shared);
    // A person's message keeps its name, unless it was no person's.
    const auto may_take = [&](const std::optional<answers::Answer>& there) {
      return !there || (is_of_session(*there, key) && (named.has_echo || !is_reply(*there)));
    };
    std::vector<answers::Digest> scopes{of_session, scope_of_token(named.name, actor)};
    if (first && is_of_session(*first, key) && !may_take(first)) continue;
    if (may_take(first) && !in_flight.has(shared)) scopes = {shared};
    for (const answers::Digest& scope : scopes) {
      if (in_flight.has(scope) || !may_take(find_answer(parts, scope))) continue;
      in_flight.add(scope);
      under.sent.emplace_back(scope, decide::place_json(named.place));
    }
    in_flight.add(of_session);  // its echo may come at once
  }
}

std::vector<answers::Answer> answers_of(const KeptUnder& under, const decide::Decision& decision,
                                        const journal::AgeClock& clock) {
  std::vector<answers::Answer> answers;
  // Nothing was done that must not be done twice: nothing at all, or handlers were called before the command itself.
  if (decision.status == 204 || decision.status == decide::asked) return answers;
  if (under.scopes.empty() && under.message.empty() && under.sent.empty()) return answers;
  const std::int64_t now = clock.now();
  for (const auto& [scope, place] : under.sent)
    answers.push_back({.scope = scope, .time = now, .status = 200, .headers = "{}", .body = place});
  for (const answers::Digest& scope : under.message)
    answers.push_back({.scope = scope, .time = now, .status = decision.status, .headers = "{}", .body = decision.body});
  std::string headers;
  json::ObjectWriter writer(headers);
  if (!decision.etag.empty()) writer.string("etag", decision.etag);
  if (!decision.location.empty()) writer.string("location", decision.location);
  writer.close();
  for (const answers::Digest& scope : under.scopes) {
    answers.push_back({.scope = scope,
                       .request = under.request,
                       .time = now,
                       .status = decision.status,
                       .headers = headers,
                       .body = decision.body});
  }
  return answers;
}

}  // namespace sessiond::ledger
