// An event is one change of the state: a session was created, a message was appended. The journal keeps exactly the
// bytes that subscribers receive:
//   {"seq":1842,"time":…,"type":"message.appended","agent":"main","key":"…","sessionId":"…","channel":"slack","chatType":"channel",
//    "topic":null,"actor":"bridge-slack","source":"api","data":{…}}
// Empty strings are left out, except `topic`, which is null. Events have resulting values, never increments, so that
// applying one twice does no harm.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::journal {

enum class EventType : std::uint8_t {
  session_created,     // {entry, reason}
  session_updated,     // {set, unset}
  session_reset,       // {previousSessionId, archivedAs, reason, set, unset}
  session_archived,    // {archivedAs, set}
  session_unarchived,  // {unset}
  session_deleted,     // {archivedAs, purged, reason?}
  message_appended,    // decide::MessageAppended
  topic_created,       // {}
  topic_deleted,       // {archivedAs}
  policy_changed,
  policy_denied,
  lock_evicted,
  lock_expired,  // {path, id, holder}
  store_repaired,
  store_degraded,
  store_external_change,
  transcript_renumbered,  // {topic, from}: entries from this seq on have greater seqs than were published
  config_reloaded,
  token_created,
  token_revoked,
  retention_notice,    // {keys, files?}: what a limit of session.maintenance reaches
  archive_destroyed,   // {archivedAs, archivedMore?, entryAs?, log?, reason}: with `log`, also the log of the id
  context_compacted,   // {summaryEntryId, summary, tokensBefore, firstKeptEntryId}
  compaction_due,      // {used, window, messages, turns}: sent once when it becomes so
  compaction_failed,   // {error}
  doom_loop_detected,  // {tool, count, callIds}
  session_resumed,     // {client?, ownClient?}
  session_forked,      // {from, messageId}
  context_cleared,     // {archivedAs, archivedMore?, entryAs, set, unset}
  // Of runs: each has the `runId`.
  run_queued,          // {input, attempt, retryOf?} | {attempt, left?, joined}: of a run that waits already
  run_started,         // {runner, attempt, input, model, provider, set}
  run_progress,        // {at, text}: the answer so far, from a code point on
  run_aborting,        // {reason?}
  run_finished,        // {status, stopReason, error?, response?, set}
  step_started,        // {step}
  step_finished,       // {step, text?, toolCalls?}
  tool_started,        // {tool, args, callId}
  tool_finished,       // {tool, callId, success, denied?, resultData?}
  directive_injected,  // {entryId}
  approval_requested,  // the approval
  approval_resolved,   // the approval
  // Of a person who speaks in place of the agent.
  session_takeover,  // {name, by, since, until, forMs, ageUntil, renewed?, forced?, sendPolicyBefore?}
  session_handback,  // {name, reason, answered, waiting}
  message_held,      // {entryId, seq, replyTo, since, text}: it is answered by that person, or waits for the hand-back
  hook_called,       // {id, runId?, name, event, input, deadline, blocking?, onTimeout?}
  hook_answered,     // {id, runId?, name, event, block?, reason?, additionalContext?}
  hook_expired,      // {id, runId?, name, event}
  runner_evicted,    // {runner, lastAt}
  message_edited,    // {target, text}
  message_deleted,   // {target}
  message_reacted,   // {target, emoji, from, removed?}
  delivery_leased,   // {deliveryId, attempt, leaseMs, leaseUntil}
  delivery_sent,     // {deliveryId, attempt, platformMessageId?, parts?}
  delivery_failed,   // {deliveryId, attempt, error, final?, tryError?}
  delivery_expired,  // {deliveryId, attempt, nextAt, error?}
  delivery_queued,   // {deliveryId, attempt}: a failed one is to be sent after all
  log_appended,      // {entry}: a line of the session's log
  cost_exceeded,     // {costMicrocents, maxCostMicrocents, onExceed}: sent once when it becomes so
  // Of edits and deletions that came before their message: each has its names and what: edit or delete.
  message_change_early,  // {changeId, text?, content?, mentioned?, by, limited?, at, until, ageAt}
  message_change_taken,  // {changeId}: the message came
  message_change_lost,   // {changeId}: it did not come in time, or others took the room
  // Published only; the journal never has them.
  session_typing,    // {}
  session_released,  // {}
  text_delta,        // {runId?, text}
  reasoning_delta,   // {runId, text}
  tool_progress,     // {runId, callId, …}
  context_updated,   // {runId, phase, tokens}
};
std::string_view name(EventType type);  // "session.created"
std::optional<EventType> event_type(std::string_view name);
// The type of an event as make_event() writes it. Nothing: there is none, or it is not known.
std::optional<EventType> type_of(std::string_view event);

struct Envelope {
  std::uint64_t seq = 0;
  std::int64_t time = 0;  // ms since 1970
  EventType type = EventType::session_created;
  std::string agent{};  // empty: the event concerns all agents
  std::string key{};    // empty: the event concerns the whole agent
  std::string session_id{};
  std::string channel{};
  // Names of the channels whose messages reached the session, with spaces between, if they are several; else empty.
  // Also empty when the event is about one channel alone: about a message that came from it, or a delivery to it.
  std::string channels{};
  std::string chat_type{};
  // The sessions that it descends from, nearest first: decide::Lineage::tag of each, with spaces between.
  std::string lineage{};
  std::optional<std::string> topic{};
  std::string actor{};   // who did it: a token id, "cli", "external", …
  std::string source{};  // api | external | recovery | …
  // Not members of the event, but read from its data: a message.appended has `deliver`, and goes to this channel.
  bool delivers = false;
  std::string delivery_channel{};

  // The channel that the event is about: where a message is sent to, else that of the session.
  const std::string& about_channel() const { return delivery_channel.empty() ? channel : delivery_channel; }
  // The channel whose tokens see the event. "": no token that is limited to a channel does.
  std::string_view audience() const {
    return delivery_channel.empty() && !channels.empty() ? std::string_view() : std::string_view(about_channel());
  }
};

struct Event {
  Envelope envelope;
  std::shared_ptr<const std::string> json;  // the whole event, one line
  std::string_view data;                    // the raw `data` object, inside json
};

Event make_event(Envelope&& envelope, std::string_view data);
// Writes an event's envelope as its JSON. `write_data` appends the data object, of about so many bytes.
void write_event(Event& event, std::size_t bytes, const std::function<void(std::string&)>& write_data);
// Reads an event of a journal. bad_request: it is none, or of a type that this version does not know.
Result<Event> parse_event(std::string json);

}  // namespace sessiond::journal
