// Events of the journal as records. A decision makes a Change: an event and its record. The bytes of the event are made
// from the record when the decision is committed, and recovery reads the record from the bytes again (decode). Books
// and leases use the record only.
//
// An event of a type without a record here has the payload Raw. It is made with its bytes, and read from them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/decide/approval.hpp"
#include "daemon/decide/run.hpp"
#include "daemon/decide/session.hpp"
#include "daemon/decide/takeover.hpp"
#include "policy/runs/queue.hpp"
#include "store/journal/event.hpp"
#include "store/json/fields.hpp"

namespace sessiond::decide {

using Raw = std::monostate;

// An input that a full queue has dropped, and of which a run is to be told.
struct DroppedInput {
  std::string entry_id{}, text{};
  std::optional<runs::Overflow::Of> of{};  // where it was to be answered; nothing: an earlier version did not keep it
  friend bool operator==(const DroppedInput&, const DroppedInput&) = default;

  template <class V, class D>
  static void describe(V& v, D& dropped) {
    v.text("entryId", dropped.entry_id);
    v.text("text", dropped.text);
    v.group_if("replyTo", dropped.of);
  }
};

// run.queued, run.started, run.aborting, run.finished: the run as it is from then on.
struct RunTold {
  Run run{};
  bool by_runner = false;      // of run.finished: its runner has ended it
  std::string reason{};        // of run.aborting; empty: none
  bool unlisted = false;       // of run.finished: it was refused, and no list has it
  bool overflow_told = false;  // of run.started: it was told of what was dropped
  std::vector<DroppedInput> overflow{};
  friend bool operator==(const RunTold&, const RunTold&) = default;

  template <class V, class T>
  static void describe(V& v, T& told) {
    Run::describe(v, told.run);
    v.text_if("reason", told.reason);
    v.own([&] {
      v.flag_if("byRunner", told.by_runner);
      v.flag_if("unlisted", told.unlisted);
      v.flag_if("overflowTold", told.overflow_told);
      v.records_if("overflow", told.overflow);
    });
  }
};

// run.queued of a run that waits already, where only its inputs change.
struct RunInputs {
  std::string run_id{};
  std::int64_t attempt = 1;
  std::vector<std::string> left{}, joined{};  // entry ids: the run loses the first, and then gets the others
  std::int64_t ready_at = 0;                  // as Run::ready_at
  std::vector<std::string> texts{};           // as RunPlace::texts, of `joined`
  std::vector<DroppedInput> overflow{};       // as RunTold::overflow
  friend bool operator==(const RunInputs&, const RunInputs&) = default;

  template <class V, class I>
  static void describe(V& v, I& inputs) {
    v.text("runId", inputs.run_id);
    v.number("attempt", inputs.attempt);
    v.texts_if("left", inputs.left);
    v.texts("joined", inputs.joined);
    v.own([&] {
      v.number("readyAt", inputs.ready_at);
      v.texts_if("texts", inputs.texts);
      v.records_if("overflow", inputs.overflow);
    });
  }
};

// run.progress: text that the active run has said, messages that its runner has taken, or only what it sets in the
// session's entry.
struct RunProgress {
  struct Said {
    std::uint64_t at = 0, at_byte = 0;  // where it begins in the partial text, in code points and in bytes
    std::string text{};
    friend bool operator==(const Said&, const Said&) = default;

    template <class V, class S>
    static void describe(V& v, S& said) {
      v.number("at", said.at);
      v.number("atByte", said.at_byte);
      v.text("text", said.text);
    }
  };
  std::string run_id{};
  std::uint64_t call = 0;  // the number of the events call that told it; 0: none
  std::optional<Said> said{};
  std::vector<std::string> steered{};  // entry ids
  friend bool operator==(const RunProgress&, const RunProgress&) = default;

  template <class V, class P>
  static void describe(V& v, P& progress) {
    v.text("runId", progress.run_id);
    v.number_if("n", progress.call);
    v.group_if("text", progress.said);
    v.texts_if("steered", progress.steered);
  }
};

// step.started, step.finished, tool.started, tool.finished: as the runner told it.
struct RunnerTold {
  static constexpr std::array<std::string_view, 9> members{"step",   "text",    "toolCalls", "tool",      "args",
                                                           "callId", "success", "denied",    "resultData"};
  std::string run_id{};
  std::uint64_t call = 0;  // as RunProgress::call
  std::string as_sent{};   // raw JSON object of some of `members`; empty: none
  friend bool operator==(const RunnerTold&, const RunnerTold&) = default;

  template <class V, class T>
  static void describe(V& v, T& told) {
    v.text("runId", told.run_id);
    v.number_if("n", told.call);
    v.spread(members, told.as_sent);
  }
};

// directive.injected: the active run was handed a message.
struct DirectiveInjected {
  std::string run_id{};
  Steered steered{};
  friend bool operator==(const DirectiveInjected&, const DirectiveInjected&) = default;

  template <class V, class D>
  static void describe(V& v, D& injected) {
    v.text("runId", injected.run_id);
    Steered::describe(v, injected.steered);
  }
};

// session.takeover
struct TakeoverTold {
  Takeover takeover{};                   // without what came since
  bool renewed = false, forced = false;  // by the same person; from another one
  friend bool operator==(const TakeoverTold&, const TakeoverTold&) = default;

  template <class V, class T>
  static void describe(V& v, T& told) {
    Takeover::describe_begin(v, told.takeover);
    v.flag_if("renewed", told.renewed);
    v.flag_if("forced", told.forced);
  }
};

// session.handback
struct HandbackTold {
  std::string name{}, reason{};
  std::vector<std::string> answered{}, waiting{};  // entry ids
  friend bool operator==(const HandbackTold&, const HandbackTold&) = default;

  template <class V, class H>
  static void describe(V& v, H& told) {
    v.text("name", told.name);
    v.text("reason", told.reason);
    v.texts("answered", told.answered);
    v.texts("waiting", told.waiting);
  }
};

// message.held. Its topic is that of the event.
struct MessageHeld {
  HeldMessage message{};
  friend bool operator==(const MessageHeld&, const MessageHeld&) = default;

  template <class V, class M>
  static void describe(V& v, M& held) {
    HeldMessage::describe_without_topic(v, held.message);
  }
};

// hook.called, hook.answered, hook.expired. An event has the members of its type only.
struct HookTold {
  static constexpr std::array<std::string_view, 3> answer_members{"block", "reason", "additionalContext"};
  std::string id{}, run_id{};  // no run id: it is about no run
  std::string name{}, event{};
  std::string input{};        // of hook.called: raw JSON object
  std::int64_t deadline = 0;  // the same: unix ms
  bool blocking = false;      // the same: something waits for the answer
  std::string on_timeout{};   // the same: "block", or empty
  std::string answer{};       // of hook.answered: raw JSON object of answer_members
  friend bool operator==(const HookTold&, const HookTold&) = default;

  template <class V, class H>
  static void describe(V& v, H& hook) {
    v.text("id", hook.id);
    v.text_if("runId", hook.run_id);
    v.text("name", hook.name);
    v.text("event", hook.event);
    v.raw_if("input", hook.input);
    v.number_if("deadline", hook.deadline);
    v.flag_if("blocking", hook.blocking);
    v.text_if("onTimeout", hook.on_timeout);
    v.spread(answer_members, hook.answer);
  }
};

// session.updated of a session that was shut down.
struct ShutdownTold {
  std::string reason{};
  std::int64_t at = 0;  // unix ms
  friend bool operator==(const ShutdownTold&, const ShutdownTold&) = default;

  template <class V, class S>
  static void describe(V& v, S& told) {
    v.text("reason", told.reason);
    v.number("at", told.at);
  }
};

// The requester's program, for LastUsed.
struct ClientUse {
  std::string client{};  // the name that it gives itself; empty: none
  bool is_own = false;   // the name is the actor's own: its token does not see the whole agent
  friend bool operator==(const ClientUse&, const ClientUse&) = default;

  template <class V, class U>
  static void describe(V& v, U& use) {
    v.text_if("client", use.client);
    v.flag_if("ownClient", use.is_own);
  }
};

// session.resumed
struct SessionResumed {
  ClientUse used{};
  friend bool operator==(const SessionResumed&, const SessionResumed&) = default;

  template <class V, class R>
  static void describe(V& v, R& resumed) {
    ClientUse::describe(v, resumed.used);
  }
};

// Where a message is sent to, and what becomes of it. The sender is told the same.
struct DeliveryOffer {
  // event: no bridge claims there, and no delivery is kept. denied: by the send policy. Else those of a kept delivery.
  enum class Status : std::uint8_t { event, denied, pending, leased, sent, failed };
  std::string id{};  // of the delivery; empty: none is kept
  std::optional<std::string> channel{}, to{}, account_id{};
  std::string thread_id{};  // raw JSON; empty: none
  Status status = Status::event;
  std::string rule{};  // raw JSON: the number of the rule that denies it, or null; empty: it is not denied
  std::vector<std::string> media_urls{};
  friend bool operator==(const DeliveryOffer&, const DeliveryOffer&) = default;

  template <class V, class O>
  static void describe(V& v, O& offer) {
    v.text_if("deliveryId", offer.id);
    v.text_or_null("channel", offer.channel);
    v.text_or_null("to", offer.to);
    v.text_or_null("accountId", offer.account_id);
    v.raw_or_null("threadId", offer.thread_id);
    v.named("status", offer.status);
    v.raw_if("rule", offer.rule);
    v.texts_if("mediaUrls", offer.media_urls);
  }
};
std::string_view name(DeliveryOffer::Status status);
std::optional<DeliveryOffer::Status> value_named(std::string_view text, DeliveryOffer::Status kind);

// The decisions about a platform's message, as the reply to it has them, and whether it mentioned the agent.
struct InboundTold {
  bool activate = false, system_intro = false, mentioned = false;
  std::string send{}, run{};  // raw JSON
  std::string held{};         // raw JSON; empty: it is not held
  friend bool operator==(const InboundTold&, const InboundTold&) = default;

  template <class V, class T>
  static void describe(V& v, T& told) {
    v.flag("activate", told.activate);
    v.flag("systemIntro", told.system_intro);
    v.flag("mentioned", told.mentioned);
    v.raw("send", told.send);
    v.raw("run", told.run);
    v.raw_if("held", told.held);
  }
};

// message.appended: an entry of a transcript.
struct MessageAppended {
  Counted counted{};         // what it sets first: it is not among the members below
  std::string run_id{};      // of the run that it belongs to; empty: none
  bool said_by_run = false;  // the runner of the active run has said it
  ClientUse used{};          // of a person's message
  std::vector<std::string> media_urls{};
  std::string to{};       // whom the sender named
  bool mirrored = false;  // the runner has sent it by itself
  std::optional<Word> word{};
  bool delivers = false;                         // `offer` is there, and it is not denied
  std::optional<std::int64_t> age_created_at{};  // Delivery::age_created_at
  std::optional<DeliveryOffer> offer{};
  std::string message{};  // raw JSON: the entry as the API shows it. Empty when it has been applied
  std::optional<InboundTold> inbound{};
  friend bool operator==(const MessageAppended&, const MessageAppended&) = default;

  template <class V, class M>
  static void describe(V& v, M& said) {
    v.text_if("runId", said.run_id);
    v.flag_if("saidByRun", said.said_by_run);
    ClientUse::describe(v, said.used);
    v.texts_if("mediaUrls", said.media_urls);
    v.text_if("to", said.to);
    v.flag_if("mirrored", said.mirrored);
    v.record_if("word", said.word);
    v.flag_if("deliver", said.delivers);
    v.number_if("ageCreatedAt", said.age_created_at);
    v.record_if("delivery", said.offer);
    v.raw("message", said.message);
    v.record_if("inbound", said.inbound);
  }
};

// delivery.leased, delivery.expired, delivery.queued, delivery.sent, delivery.failed. An event has the members of its
// type only.
struct DeliveryTold {
  std::string id{};
  std::int64_t attempt = 0;
  std::int64_t lease_ms = 0, lease_until = 0;    // of delivery.leased; the time is unix ms, as those below
  std::optional<std::int64_t> wait_ms{};         // of delivery.expired; nothing: the next claim may have it at once
  std::int64_t next_at = 0;                      // the same
  std::string error{};                           // raw JSON, of delivery.expired and delivery.failed; empty: none
  bool is_final = false;                         // of delivery.failed: the bridge said that no further try can help
  std::string try_error{};                       // the same: what the bridge said, where `error` is the daemon's own
  std::string platform_message_id{}, parts{};    // raw JSON, of delivery.sent; empty: none
  std::optional<std::int64_t> age_created_at{};  // of delivery.queued: Delivery::age_created_at
  friend bool operator==(const DeliveryTold&, const DeliveryTold&) = default;

  template <class V, class D>
  static void describe(V& v, D& told) {
    v.text("deliveryId", told.id);
    v.number("attempt", told.attempt);
    v.number_if("leaseMs", told.lease_ms);
    v.number_if("leaseUntil", told.lease_until);
    v.number_if("waitMs", told.wait_ms);
    v.number_if("nextAt", told.next_at);
    v.raw_if("error", told.error);
    v.flag_if("final", told.is_final);
    v.raw_if("tryError", told.try_error);
    v.raw_if("platformMessageId", told.platform_message_id);
    v.raw_if("parts", told.parts);
    v.number_if("ageCreatedAt", told.age_created_at);
  }
};

using Payload =
    std::variant<Raw, RunTold, RunInputs, RunProgress, RunnerTold, DirectiveInjected, Approval, TakeoverTold,
                 HandbackTold, MessageHeld, HookTold, ShutdownTold, SessionResumed, MessageAppended, DeliveryTold>;

// An event and its record.
struct Change : journal::Event {
  std::shared_ptr<Payload> payload{};  // null: Raw. Copies of an event share it; only its decision changes it
  // `set` and `unset` of its data, without what MessageAppended::counted has. Nothing: they are read from the data.
  std::optional<json::Edit> edit{};

  const Payload& said() const;
  template <class T>
  const T* as() const {
    return std::get_if<T>(&said());
  }
};

// Returns what an event sets and unsets in the session's entry, without what MessageAppended::counted has. `held` keeps
// it if it is read from the data.
const json::Edit& edit_of(const Change& change, json::Edit& held);
// Returns the data of an event that says this and sets `edit` in the session's entry.
std::string data_of(const Payload& payload, const json::Edit& edit = {});
// Makes the bytes of an event, if it has none yet.
void encode(Change& change);
// Forgets the text of a message, which its bytes have, too.
void forget_text(Payload& payload);
// Returns a stored event with its record.
Change decode(journal::Event event);
// Returns whether recovery will read the same record from the event's bytes. For asserts.
bool reads_back(const Change& change);

}  // namespace sessiond::decide
