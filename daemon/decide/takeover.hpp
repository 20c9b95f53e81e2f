// A person speaks in a session in place of its agent, until a hand-back (policy/runs/README.md, Takeover). Kept with
// the session's runs, by its key. Pure values, and their JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/runs/queue.hpp"
#include "store/json/fields.hpp"

namespace sessiond::decide {

// A message of people that would have woken the agent.
struct HeldMessage {
  std::string entry_id{};
  std::uint64_t seq = 0;  // in its transcript
  std::optional<std::string> topic{};
  std::string reply_to{};  // raw JSON object: where its answer goes
  std::int64_t since = 0;  // ms since the epoch
  std::string text{};      // how it begins, as RunPlace::texts
  friend bool operator==(const HeldMessage&, const HeldMessage&) = default;

  // An event names the topic by itself.
  template <class V, class H>
  static void describe_without_topic(V& v, H& held) {
    v.text("entryId", held.entry_id);
    v.number("seq", held.seq);
    v.raw_or_null("replyTo", held.reply_to);
    v.number("since", held.since);
    v.text("text", held.text);
  }
  template <class V, class H>
  static void describe(V& v, H& held) {
    describe_without_topic(v, held);
    v.text_if("topic", held.topic);
  }
};

// A word of the person, as the event of its message has it. It answers every message at this address with a seq below
// `seen_seq`; 0: below that of its own message.
struct Word {
  std::string reply_to{};  // raw JSON object; empty: the session has no address
  std::uint64_t seen_seq = 0;
  friend bool operator==(const Word&, const Word&) = default;

  template <class V, class W>
  static void describe(V& v, W& word) {
    v.raw_or_null("replyTo", word.reply_to);
    v.number("seenSeq", word.seen_seq);
  }
};

// The same as the takeover keeps it: what the person has answered at this address of a topic.
struct PersonsWord : Word {
  std::optional<std::string> topic{};
  friend bool operator==(const PersonsWord&, const PersonsWord&) = default;

  template <class V, class W>
  static void describe(V& v, W& word) {
    Word::describe(v, word);
    v.text_if("topic", word.topic);
  }
};

struct Takeover {
  // Messages that are listed. Of an address where more wait, the newest takes the place of the one before it: the run
  // that answers it is shown them all. Of twice as many addresses the later ones are not listed.
  static constexpr std::size_t most_waiting = 1'000;
  static constexpr std::size_t most_words = 100;  // addresses; of more, the oldest is forgotten

  std::string token{}, name{};         // who holds it; no token: the owner of the agent's account, by hand
  std::int64_t since = 0, until = 0;   // ms since the epoch
  std::int64_t age_begun = 0;          // when the agent fell silent, whoever held it then, by the clock of ages
  std::int64_t age_until = 0;          // `until` by the clock of ages (store/journal/age_clock.hpp)
  std::int64_t for_ms = 0;             // each word of the person renews it for so long
  std::vector<HeldMessage> waiting{};  // in the order in which they came
  std::vector<PersonsWord> words{};    // one for each address and topic
  // In a shared store sendPolicy of the entry is "deny" meanwhile. What it was before, raw; empty: absent. Nothing: the
  // store is not shared.
  std::optional<std::string> policy_before{};

  friend bool operator==(const Takeover&, const Takeover&) = default;
  bool is_answered(const runs::Address& address, std::uint64_t seq) const;
  void hold(HeldMessage message);
  void say(PersonsWord word);
  void forget(std::string_view entry_id, const std::optional<std::string>& topic);  // people deleted a message
  void edit(std::string_view entry_id, const std::optional<std::string>& topic, std::string_view text);
  void forget_transcripts(const std::optional<std::string>& topic = {});  // that were archived: of one topic, or all

  // Without what came since.
  template <class V, class T>
  static void describe_begin(V& v, T& takeover) {
    v.text("name", takeover.name);
    v.text("by", takeover.token);
    v.number("since", takeover.since);
    v.number("until", takeover.until);
    v.number("forMs", takeover.for_ms);
    v.number("ageUntil", takeover.age_until);
    v.number("ageBegun", takeover.age_begun);
    v.raw_or_null_if("sendPolicyBefore", takeover.policy_before);
  }
  template <class V, class T>
  static void describe(V& v, T& takeover) {
    describe_begin(v, takeover);
    v.records_if("waiting", takeover.waiting);
    v.records_if("words", takeover.words);
  }
};

runs::Address address_of(const HeldMessage& message);

// As Sessions show it: {name, by, since, until}. `by` is the token that holds it.
std::string takeover_json(const Takeover& takeover);

}  // namespace sessiond::decide
