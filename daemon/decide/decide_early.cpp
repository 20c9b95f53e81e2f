// The decisions about edits and deletions that came before their message (early_changes.hpp).
#include <algorithm>
#include <ranges>

#include "daemon/decide/change_steps.hpp"
#include "daemon/decide/platform_message.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

// An event about a change whose message is not there: of no session. The token that told it sees it.
void emit_early(DecisionBuilder& builder, journal::EventType type, const EarlyChange& change, std::string_view data) {
  builder.emit({.type = type, .channel = change.channel, .actor = change.actor}, data);
}

void lose(DecisionBuilder& builder, const EarlyChange& change) {
  emit_early(builder, journal::EventType::message_change_lost, change, early_name_json(change));
}

void answer_early(DecisionBuilder& builder, std::int64_t until) {
  json::ObjectWriter answer(builder.out.body);
  answer.boolean("early", true);
  answer.integer("until", until);
  answer.string("asOf", builder.as_of());
  answer.close();
  builder.out.status = 202;
}

}  // namespace

bool Foretold::is_deleted() const { return std::ranges::any_of(changes, &EarlyChange::deletes); }

bool Foretold::addresses() const { return std::ranges::any_of(changes, &EarlyChange::mentioned); }

const EarlyChange* Foretold::edit() const {
  const auto last = std::ranges::find_if(changes | std::views::reverse, [](const auto& one) { return !one.deletes; });
  return last == changes.rend() ? nullptr : &*last;
}

bool Foretold::leaves_nothing(bool has_attachments) const {
  const EarlyChange* last = edit();
  return last != nullptr && last->text && last->text->empty() && !has_attachments;
}

Foretold foretold(const Context& context, const AgentState& state, const EarlyChange& message) {
  Foretold told;
  for (const EarlyChange* change : (context.early != nullptr ? *context.early : state.early).of_message(message))
    told.changes.push_back(*change);
  return told;
}

void lose_foretold(DecisionBuilder& builder, const Foretold& told) {
  for (const EarlyChange& change : told.changes) {
    if (builder.context().durable)
      lose(builder, change);
    else
      builder.out.early_taken.push_back(change.id);
  }
}

void take_foretold(DecisionBuilder& builder, const Foretold& told, journal::Envelope about) {
  for (const EarlyChange& change : told.changes) {
    if (!builder.context().durable) {
      builder.out.early_taken.push_back(change.id);
      continue;
    }
    journal::Envelope envelope = about;
    envelope.type = journal::EventType::message_change_taken;
    envelope.actor.clear();
    builder.emit(std::move(envelope), early_name_json(change));
  }
}

Result<Decision> decide(const AgentState& state, const KeepChange& command, const Context& context) {
  DecisionBuilder builder(state, context);
  EarlyChange change = command.change;
  if (context.is_coming_in && context.is_coming_in(command.name))
    return std::unexpected(Problem{.code = Code::idempotency_in_flight,
                                   .detail = "the message with this messageId is just coming in; try again",
                                   .retry_after_s = 1});
  const EarlyChange* there = state.early.same(change);
  if (there != nullptr && there->deletes) {  // a deletion stands
    answer_early(builder, there->until);
    return std::move(builder.out);
  }
  change.id = there != nullptr ? there->id : context.ids->uuid();
  change.mentioned = change.mentioned || (there != nullptr && there->mentioned && !change.deletes);
  change.at = context.now;
  change.until = context.now + context.rules->early_change_ms;
  change.age_at = context.age_now;
  for (const EarlyChange* other : state.early.without_room(change)) lose(builder, *other);
  emit_early(builder, journal::EventType::message_change_early, change, early_json(change));
  answer_early(builder, change.until);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const LoseChange& command, const Context& context) {
  DecisionBuilder builder(state, context);
  builder.out.status = 204;
  if (const EarlyChange* change = state.early.find(command.id)) lose(builder, *change);
  return std::move(builder.out);
}

}  // namespace sessiond::decide
