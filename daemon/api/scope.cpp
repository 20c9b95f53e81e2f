#include "daemon/api/scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "daemon/runtime/log.hpp"
#include "store/delivery/delivery.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

// Whether the token may read the archived transcripts of a session id: all known ones lie in its scope.
bool sees_archives(const auth::Principal& principal, const decide::AgentState& state, std::string_view session_id) {
  if (principal.sees_whole_agent(state.id())) return true;
  const auto records = state.archives.of_id(session_id);
  return !records.empty() && std::ranges::all_of(records, [&](const decide::ArchiveRecord* record) {
    return sees(principal, state, *record);
  });
}

// Returns whether the session of an event lies within the scope, also one that the event makes.
bool holds(const auth::Principal& principal, const decide::AgentState& state, const journal::Event& event) {
  const journal::Envelope& about = event.envelope;
  if (sees(principal, state, about.key, about.channels.empty() ? about.channel : "")) return true;
  if (principal.key.empty() || event.envelope.type != journal::EventType::session_created) return false;
  const auto parent = json::string_at(json::find(event.data, "entry").value_or("{}"), "spawnedBy");
  const decide::Session* there = parent ? state.find_key(*parent) : nullptr;
  return there != nullptr && sees(principal, state, *there);
}

// The members of an entry that say in which channel it is answered (delivery::read_delivery).
constexpr std::array<std::string_view, 5> of_address{"channel", "deliveryContext", "lastChannel", "lastProvider",
                                                     "provider"};
bool is_of_address(std::string_view name) { return std::ranges::find(of_address, name) != of_address.end(); }

// What an event does to the members of an entry that say where it is answered.
struct AddressChange {
  std::optional<std::string_view> entry{};  // the whole entry: it is made, or replaced
  json::Edit edit{};
  std::vector<std::string> named{};  // channels, also by members that say nothing as long as others are there

  void note_named(std::string_view name, std::string_view value) {
    const auto channel = name == "deliveryContext" ? json::string_at(value, "channel") : json::as_string(value);
    const bool names_it = name == "deliveryContext" || name == "lastChannel" || name == "lastProvider";
    if (names_it && channel && !store::trim(*channel).empty()) named.push_back(*channel);
  }
};

AddressChange address_change(const decide::Change& event) {
  AddressChange change;
  if (event.envelope.type == journal::EventType::session_created) change.entry = json::find(event.data, "entry");
  if (change.entry)
    for (const json::Member& member : json::members(*change.entry)) change.note_named(member.name, member.value);
  json::Edit held;
  const json::Edit& edit = decide::edit_of(event, held);
  for (const auto& [name, value] : edit.set) {
    if (!is_of_address(name)) continue;
    change.edit.put(name, value);
    change.note_named(name, value);
  }
  for (const std::string& name : edit.unset)
    if (is_of_address(name)) change.edit.remove(name);
  return change;
}

// Returns whether the event sets the member in the session's entry.
bool sets(const decide::Change& event, std::string_view name) {
  if (event.envelope.type == journal::EventType::session_created)
    return json::find(json::find(event.data, "entry").value_or("{}"), name).has_value();
  json::Edit held;
  const json::Edit& edit = decide::edit_of(event, held);
  return std::ranges::find(edit.set, name, &json::Edit::Set::name) != edit.set.end();
}

// Refuses what would have a session answered in a channel that is not the token's, now or when other members go.
Result<void> check_answered(const auth::Principal& principal, const decide::AgentState& state,
                            std::span<const decide::Change> events) {
  std::map<std::string_view, std::string> entries;  // as they are then, by key
  for (const decide::Change& event : events) {
    AddressChange change = address_change(event);
    if (!change.entry && change.edit.empty()) continue;
    const std::string& key = event.envelope.key;
    const auto [now, is_new] = entries.try_emplace(key, "{}");
    if (change.entry)
      now->second = *change.entry;
    else if (const decide::Session* before = is_new ? state.find_key(key) : nullptr)
      now->second = *before->entry_with_old_counters();
    if (!change.edit.empty()) now->second = json::apply(now->second, change.edit);
    if (auto channel = delivery::read_delivery(json::Index(now->second)).channel)
      change.named.push_back(*std::move(channel));
    for (const std::string& channel : change.named)
      if (!store::equals_nocase(store::trim(channel), principal.channel))
        return fail(Code::forbidden, fmt::format("this token may not have {} answered in another channel", key));
  }
  return {};
}

}  // namespace

bool sees(const auth::Principal& principal, const decide::AgentState& state, const decide::Session& session) {
  if (principal.sees(state.id(), session.key(), session.audience())) return true;
  return !principal.key.empty() && principal.sees_agent(state.id()) &&
         decide::descends_from(state, session, principal.key);
}

bool sees_parent(const auth::Principal& principal, std::string_view agent, const decide::Session& session) {
  return principal.key.empty() || !principal.sees(agent, session.key(), session.audience());
}

bool sees(const auth::Principal& principal, const decide::AgentState& state, std::string_view key,
          std::string_view channel) {
  if (principal.sees(state.id(), key, channel)) return true;
  const decide::Session* there = principal.key.empty() ? nullptr : state.find_key(key);
  return there != nullptr && sees(principal, state, *there);
}

bool sees(const auth::Principal& principal, const decide::AgentState& state, const decide::ArchiveRecord& record) {
  if (principal.sees_whole_agent(state.id())) return true;
  if (record.key.empty()) return false;
  const decide::Session* there = state.find_key(record.key);
  const bool is_shared = there != nullptr && !there->channels.empty();
  return sees(principal, state, record.key, is_shared ? std::string_view() : record.audience());
}

std::unexpected<Problem> no_such_agent(std::string_view agent) {
  return fail(Code::agent_not_found, fmt::format("there is no agent {}", agent));
}

std::unexpected<Problem> no_such_session(std::string_view agent, std::string_view key) {
  return fail(Code::session_not_found, fmt::format("agent {} has no session {}", agent, key));
}

Result<void> require_full_scope(const http::Request& request, std::string_view action) {
  if (request.principal.sees_everything()) return {};
  return fail(Code::forbidden, fmt::format("only a token that sees everything may {}", action));
}

Problem as_seen(Problem problem, const http::Request& request) {
  if (problem.code == Code::internal) {
    log::error("request_failed",
               {{"requestId", request.request_id}, {"error", problem.detail}, {"next", "mend the file or its disk"}});
    problem.code = Code::degraded;
    if (!request.principal.sees_everything()) problem.detail = "a file that this needs cannot be read or written now";
  }
  const bool about_agent = problem.code == Code::agent_not_found || ledger::is_of_one_agent(problem.code);
  if (!about_agent || request.params.size() < 2) return problem;  // not about a session
  const auto agent = store::normalize_agent_id(request.params[0]);
  if (!agent || request.principal.sees_whole_agent(*agent)) return problem;
  if (ledger::is_of_one_agent(problem.code)) {
    problem.detail = "this session cannot be served now";
    return problem;
  }
  return std::move(no_such_session(*agent, request.params[1]).error());
}

Result<void> may_create(const auth::Principal& principal, const std::string& agent, const std::string& key,
                        std::string_view channel) {
  const std::string own(store::parse_key(key).channel);
  if (principal.sees(agent, key, channel.empty() ? own : channel)) return {};
  return fail(Code::forbidden, fmt::format("this token may not make the session {}", key));
}

Result<const decide::Session*> visible(const decide::AgentState& state, const decide::Target& target,
                                       const auth::Principal& principal) {
  const decide::Session* session = state.find(target.key);
  if (session == nullptr || !sees(principal, state, *session)) return no_such_session(state.id(), target.key);
  return session;
}

Result<const decide::Session*> visible_or_archived(const decide::AgentState& state, const decide::Target& target,
                                                   const auth::Principal& principal) {
  if (state.find(target.key) == nullptr && sees_archives(principal, state, target.key)) return nullptr;
  return visible(state, target, principal);
}

const decide::Session* session_named(const decide::AgentState& state, const decide::Target& target) {
  return state.find(target.key);
}

const decide::Session* session_named(const decide::AgentState& state, const decide::CreateSession& command) {
  const auto made = store::canonical_key(command.key, state.id());
  for (const std::string& key : {command.key, made.value_or("")}) {
    const decide::Session* there = key.empty() ? nullptr : state.find_key(key);
    if (there != nullptr) return there;
  }
  return nullptr;
}

Result<decide::Decision> within_scope(Result<decide::Decision> decided, const auth::Principal& principal,
                                      const decide::AgentState& state, bool admitted) {
  if (!decided || decided->events.empty()) return decided;
  const journal::Envelope& about = decided->events.back().envelope;  // as the session is then; a decision is about one
  if (principal.sees_whole_agent(about.agent)) return decided;
  if (!admitted && !holds(principal, state, decided->events.back()))
    return fail(Code::forbidden, fmt::format("{} would then lie outside this token's scope", about.key));
  if (std::ranges::any_of(decided->events, [](const decide::Change& event) { return sets(event, "sessionFile"); }))
    return fail(Code::forbidden, "a token with a key prefix or channel may not name a sessionFile");
  if (!principal.channel.empty()) TRY(check_answered(principal, state, decided->events));
  return decided;
}

}  // namespace sessiond::api
