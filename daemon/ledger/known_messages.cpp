#include "daemon/ledger/known_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "daemon/decide/hooks.hpp"
#include "store/crc32.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/number.hpp"

namespace sessiond::ledger {
namespace {

constexpr std::size_t most_others = 64;  // authors of other messages that the first one of a name tells

std::string text_of_scope(const answers::Digest& scope) {
  return {reinterpret_cast<const char*>(scope.data()), scope.size()};
}

// Returns whether a position, <epoch>-<seq>, is of this epoch and behind the event `after`.
bool came_after(std::string_view position, std::string_view epoch, std::uint64_t after) {
  if (!position.starts_with(epoch) || position.size() <= epoch.size() || position[epoch.size()] != '-') return false;
  const auto seq = store::parse_number<std::uint64_t>(position.substr(epoch.size() + 1));
  return seq && *seq > after;
}

std::optional<answers::Answer> find_answer(const LedgerParts& parts, const answers::Digest& scope) {
  if (const answers::Answer* in_memory = parts.memory.find_answer(scope)) return *in_memory;
  auto answer = parts.commits.answers().find_message(scope, parts.commits.clock().now());
  if (!answer) return {};
  const std::string key = json::string_at(answer->body, "sessionKey").value_or("");
  if (is_of_purged(parts, store::parse_key(key).agent, *answer)) return {};
  return answer;
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

// Returns whether an answer is that to a request, and not one that names a message which went out (decide::place_json).
bool is_reply(const answers::Answer& answer) { return json::find(answer.body, "asOf").has_value(); }

// Who said a message, and what, as its answer's headers tell.
struct Said {
  std::string from{}, words{};
  std::vector<std::string> others{};  // who else said something under its name

  explicit Said(const answers::Answer& answer) {
    const json::Index headers(answer.headers.empty() ? std::string_view("{}") : std::string_view(answer.headers));
    from = headers.string_at("from").value_or("");
    words = headers.string_at("said").value_or("");
    for (const std::string_view other : json::elements(headers.find("others").value_or("[]")))
      others.push_back(json::as_string(other).value_or(""));
  }
  Said(std::string author, std::string digest) : from(std::move(author)), words(std::move(digest)) {}

  bool has_other(const std::string& author) const { return std::ranges::find(others, author) != others.end(); }
  std::string headers() const {
    json::ObjectWriter out;
    if (!from.empty()) out.string("from", from);
    if (!words.empty()) out.string("said", words);
    if (!others.empty()) out.raw("others", json::array_of(others));
    return out.text();
  }
};

// Returns whether what came under the name of a message is one of its own.
bool is_another(const MessageName& wanted, const answers::Answer& first) {
  if (wanted.author.empty() || !is_reply(first)) return false;
  const Said said(first);
  if (said.from.empty() || said.from == wanted.author) return false;
  return said.has_other(wanted.author) || said.words != wanted.said;
}

Result<KnownMessage> known_under(const LedgerParts& parts, const MessageName& wanted, InFlight& in_flight);

// Looks for a message which is another than the first one of its name.
Result<KnownMessage> another_message(const LedgerParts& parts, const MessageName& wanted, answers::Answer first,
                                     InFlight& in_flight) {
  MessageName by_author = wanted;
  by_author.name = decide::name_by(wanted.name, wanted.author);
  TRY(auto known, known_under(parts, by_author, in_flight));
  Said said(first);
  if (known.answer || said.has_other(wanted.author) || said.others.size() >= most_others) return known;
  in_flight.add(scope_of_session(wanted.name, wanted.key));
  said.others.push_back(wanted.author);
  first.headers = said.headers();
  known.first = std::move(first);
  return known;
}

}  // namespace

bool is_of_purged(const LedgerParts& parts, std::string_view agent, const answers::Answer& answer) {
  const json::Index members(answer.body.empty() ? std::string_view("{}") : std::string_view(answer.body));
  const auto id = members.string_at("sessionId");
  const auto found = parts.agents.all().find(agent);
  if (!id || found == parts.agents.all().end() || !found->second->state) return false;
  const decide::AgentState& state = *found->second->state;
  const decide::Session* session = state.find_session_id(*id);
  if (session == nullptr) return false;
  const std::string as_of = members.string_at("asOf").value_or(members.string_at("namedAsOf").value_or(""));
  return std::ranges::any_of(state.archives.of_id(*id), [&](const decide::ArchiveRecord* record) {
    return record->purged && record->key == session->key() &&
           !came_after(as_of, parts.commits.journal().epoch(), record->seq);
  });
}

std::string words_mark(std::string_view text, std::string_view content, std::string_view attachments) {
  std::string mark;
  for (const std::string_view part : {text, content, attachments})
    mark += part.empty() ? "-" : fmt::format("{:x}.{:08x}-", part.size(), store::crc32_of(part));
  return mark;
}

InFlight::~InFlight() {
  for (const std::string& scope : own_) table_.erase(table_.find(scope));
}

bool InFlight::has(const answers::Digest& scope) const { return table_.contains(text_of_scope(scope)); }

void InFlight::add(const answers::Digest& scope) { add_name(text_of_scope(scope)); }

bool InFlight::has_name(const std::string& name) const { return table_.contains(name); }

void InFlight::add_name(const std::string& name) {
  table_.insert(name);
  own_.push_back(name);
}

namespace {

Result<KnownMessage> known_under(const LedgerParts& parts, const MessageName& wanted, InFlight& in_flight) {
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
  const auto known_as = [&](answers::Answer answer) -> Result<KnownMessage> {
    if (is_another(wanted, answer)) return another_message(parts, wanted, std::move(answer), in_flight);
    KnownMessage known{.own = !is_reply(answer), .headers = answer.headers};
    if (const auto place = known.own ? decide::read_place(answer.body) : std::nullopt)
      answer.body = decide::own_message_json(*place);
    known.is_open = !known.own && wanted.addresses && json::find(answer.body, "activate") == "false" &&
                    !json::find(answer.body, "held");  // that one is waiting already
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
  if (wanted.is_edit) return KnownMessage{};
  KnownMessage known{.headers = Said(wanted.author, wanted.said).headers()};
  if (is_free && !in_flight.has(shared))
    known.scopes = {shared};
  else
    known.scopes = {of_session, scope_of_token(wanted.name, wanted.actor)};
  in_flight.add(of_session);
  in_flight.add(known.scopes.front());
  in_flight.add_name(wanted.name);
  return known;
}

}  // namespace

Result<KnownMessage> known_message(const LedgerParts& parts, const MessageName& wanted, InFlight& in_flight) {
  return known_under(parts, wanted, in_flight);
}

namespace {

// The answers that a requester may see under a name: to its own message first. One whose message was stored comes
// before those of which nothing was.
std::vector<answers::Answer> visible_answers(const LedgerParts& parts, const MessageSearch& wanted,
                                             const std::string& name) {
  std::vector<answers::Digest> scopes{scope_of_token(name, wanted.actor), answers::digest(name)};
  for (const std::string& key : wanted.keys) scopes.push_back(scope_of_session(name, key));
  std::vector<answers::Answer> found, without_place;
  for (const answers::Digest& scope : scopes) {
    auto answer = find_answer(parts, scope);
    if (!answer || !wanted.sees(answer->body)) continue;
    (decide::read_place(answer->body) ? found : without_place).push_back(*std::move(answer));
  }
  std::ranges::move(without_place, std::back_inserter(found));
  return found;
}

// Returns whether two answers are about one message.
bool names_same(const answers::Answer& one, const answers::Answer& other) {
  const auto place = decide::read_place(one.body);
  const auto there = decide::read_place(other.body);
  if (place.has_value() != there.has_value()) return false;
  return place ? place->entry_id == there->entry_id : one.scope == other.scope;
}

}  // namespace

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

std::vector<FoundMessage> find_messages(const LedgerParts& parts, const MessageSearch& wanted) {
  const std::vector<answers::Answer> firsts = visible_answers(parts, wanted, wanted.name);
  std::vector<FoundMessage> found;
  const auto add = [&found](const answers::Answer& answer, std::string name) {
    const bool is_deleted = json::find(answer.body, "deleted") == "true";
    found.push_back({.place = decide::read_place(answer.body),
                     .name = std::move(name),
                     .deleted = is_deleted ? answer.body : std::string()});
  };
  const auto add_other = [&](const std::string& author) {
    std::string name = decide::name_by(wanted.name, author);
    const auto others = visible_answers(parts, wanted, name);
    if (!others.empty()) add(others.front(), std::move(name));
  };
  if (!wanted.author.empty()) {
    const auto by = [&](const std::string& author) {
      return std::ranges::find_if(firsts, [&](const auto& answer) { return Said(answer).from == author; });
    };
    if (const auto first = by(wanted.author); first != firsts.end()) add(*first, wanted.name);
    if (found.empty()) add_other(wanted.author);
    if (const auto first = by(""); found.empty() && first != firsts.end()) add(*first, wanted.name);
    return found;
  }
  if (firsts.empty()) return found;
  add(firsts.front(), wanted.name);
  // Only one of the answers to a message was made anew when another person said something under its name.
  std::set<std::string> authors;
  for (const answers::Answer& answer : firsts) {
    if (!names_same(answer, firsts.front())) continue;
    const Said said(answer);
    authors.insert(said.others.begin(), said.others.end());
  }
  std::ranges::for_each(authors, add_other);
  return found;
}

bool are_coming_in(const decide::Decision& decision, const InFlight& in_flight) {
  return std::ranges::any_of(decision.named, [&in_flight](const decide::NamedMessage& named) {
    return in_flight.has(scope_of_session(named.name, named.place.key));
  });
}

void keep_sent(const LedgerParts& parts, const decide::Decision& decision, const std::string& actor, KeptUnder& under,
               InFlight& in_flight) {
  const std::string as_of = decision.named.empty()
                                ? ""
                                : fmt::format("{}-{}", parts.commits.journal().epoch(),
                                              decision.events.empty() ? 0 : decision.events.back().envelope.seq);
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
      under.sent.emplace_back(scope, decide::place_json(named.place, as_of));
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
  const std::string& of_message = under.is_edit ? decision.told_again : decision.body;
  if (!of_message.empty()) {
    for (const answers::Digest& scope : under.message)
      answers.push_back({.scope = scope,
                         .time = now,
                         .status = decision.status,
                         .headers = under.message_headers,
                         .body = of_message});
  }
  if (under.first_message) {
    answers.push_back(*under.first_message);
    answers.back().time = now;
  }
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
