// A person speaks in a session in place of its agent, until a hand-back (policy/runs/README.md, Takeover). Kept with
// the session's runs, by its key. Pure values, and their JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/runs/queue.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {

// A message of people that would have woken the agent.
struct HeldMessage {
  std::string entry_id{};
  std::uint64_t seq = 0;  // in its transcript
  std::optional<std::string> topic{};
  std::string reply_to{};  // raw JSON object: where its answer goes
  std::int64_t since = 0;  // ms since the epoch
  std::string text{};      // how it begins, as RunPlace::texts
};

// A word of the person at one address. It answers every message there with a seq below `seen_seq`. In an event, 0 means
// the seq of its own message.
struct PersonsWord {
  std::string reply_to{};  // raw JSON object; empty: the session has no address
  std::optional<std::string> topic{};
  std::uint64_t seen_seq = 0;
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

  bool is_answered(const runs::Address& address, std::uint64_t seq) const;
  void hold(HeldMessage message);
  void say(PersonsWord word);
  void forget(std::string_view entry_id, const std::optional<std::string>& topic);  // people deleted a message
  void edit(std::string_view entry_id, const std::optional<std::string>& topic, std::string_view text);
  void forget_transcripts(const std::optional<std::string>& topic = {});  // that were archived: of one topic, or all
};

runs::Address address_of(const HeldMessage& message);

// As Sessions show it: {name, by, since, until}. `by` is the token that holds it.
std::string takeover_json(const Takeover& takeover);
// As session.takeover has it, without what came since. `how`: "renewed", "forced" or empty.
std::string told_takeover(const Takeover& takeover, std::string_view how = {});
// As journal/runs/<agent>.json has it.
std::string stored_takeover(const Takeover& takeover);
Takeover read_takeover(std::string_view stored);
// As message.held has it, and back. `topic` is that of the event.
std::string held_json(const HeldMessage& message);
HeldMessage read_held(std::string_view stored, std::optional<std::string> topic);
// The member `word` of message.appended.
std::string word_json(const PersonsWord& word);
PersonsWord read_word(std::string_view stored, std::optional<std::string> topic);

}  // namespace sessiond::decide
