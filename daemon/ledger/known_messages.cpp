#include "daemon/ledger/known_messages.hpp"

#include "daemon/decide/hooks.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::ledger {

KnownMessage known_message(const LedgerParts& parts, const MessageName& wanted) {
  const auto find = [&parts](const answers::Digest& scope) -> std::optional<answers::Answer> {
    if (const answers::Answer* in_memory = parts.memory.find_answer(scope)) return *in_memory;
    return parts.commits.answers().find_message(scope, parts.commits.clock().now());
  };
  KnownMessage known{.scope = answers::digest(wanted.name)};
  known.answer = find(known.scope);
  if (!known.answer || wanted.sees(known.answer->body)) return known;
  known.scope = answers::digest(wanted.name + wanted.actor);
  known.answer = find(known.scope);
  if (known.answer && !wanted.sees(known.answer->body)) known.answer.reset();
  return known;
}

std::optional<decide::MessagePlace> find_message(const LedgerParts& parts, const MessageName& wanted) {
  const auto known = known_message(parts, wanted);
  return known.answer ? decide::read_place(known.answer->body) : std::nullopt;
}

std::vector<answers::Answer> answers_of(const KeptUnder& under, const decide::Decision& decision,
                                        const journal::AgeClock& clock) {
  std::vector<answers::Answer> answers;
  // Nothing was done that must not be done twice: nothing at all, or handlers were called before the command itself.
  if (decision.status == 204 || decision.status == decide::asked) return answers;
  if (under.scopes.empty() && !under.message && decision.named.empty()) return answers;
  const std::int64_t now = clock.now();
  for (const decide::Decision::Named& named : decision.named) {
    answers.push_back({.scope = answers::digest(named.name),
                       .time = now,
                       .status = 200,
                       .headers = "{}",
                       .body = decide::place_json(named.place)});
  }
  if (under.message)
    answers.push_back(
        {.scope = *under.message, .time = now, .status = decision.status, .headers = "{}", .body = decision.body});
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
