// A session in memory: the bytes of its entry, and the fields that decisions and lists need, read out of it once.
//
// Every message changes a few counters. They are kept beside the bytes and written into them only when entry() is
// called, so an append costs the same for an entry of any size. Not thread-safe, also for reading: entry() may write.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/shown_entry.hpp"
#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"
#include "store/sessions/sessions_file.hpp"

namespace sessiond::decide {

// An entry's copiedFrom names at most so many sessions. Edits of messages from others are shown, too. But the tally
// follows them only when it is made anew, and firstMessage does not follow.
inline constexpr std::size_t most_copied_from = 64;

// The counters of an entry; nothing where it has none.
struct Counters {
  // Without entry_count, message_count is of an older daemon (transcripts/counts.hpp).
  std::optional<std::int64_t> message_count, entry_count, input_tokens, output_tokens, total_tokens, compaction_count,
      cost_microcents;
  std::optional<policy::UsageTotals> usage_totals;
  std::optional<bool> tokens_fresh;  // totalTokensFresh: total_tokens is not a sum but of the present context

  std::optional<std::int64_t>* find(std::string_view field);  // null: it is not a counter
  std::int64_t entries() const { return entry_count.value_or(message_count.value_or(0)); }
};

// A time or a counter of an entry that a message sets.
enum class Counter : std::uint8_t {
  updated_at,
  last_interaction_at,
  message_count,
  entry_count,
  input_tokens,
  output_tokens,
  total_tokens,
  compaction_count,
  cost_microcents,
  usage_totals,
};
inline constexpr std::size_t counter_count = 10;

// The counters and times that a message sets. New members are added to the entry in this order.
class Counted {
 public:
  void set(Counter counter, std::int64_t number);  // not usage_totals; a counter is 0 to policy::most_counted
  void set(const policy::UsageTotals& totals);     // that is_sum()
  bool empty() const { return count_ == 0; }
  bool has(Counter counter) const;
  std::optional<std::int64_t> number(Counter counter) const;  // nothing: it is not set
  // Adds the members to an object, and reads them. read() takes the leading members that write() could have written,
  // and returns their number.
  void write(json::ObjectWriter& out) const;
  std::size_t read(std::span<const json::Edit::Set> members);
  void add_to(json::Edit& edit) const;
  static std::optional<Counted> only(const json::Edit& edit);  // nothing: it changes other members, too
  friend bool operator==(const Counted&, const Counted&) = default;

 private:
  friend class Session;
  struct Setting {
    Counter counter{};
    std::int64_t number = 0;
    friend bool operator==(const Setting&, const Setting&) = default;
  };
  std::span<const Setting> settings() const { return std::span(settings_).first(count_); }

  std::array<Setting, counter_count> settings_{};
  std::uint8_t count_ = 0;
  std::optional<policy::UsageTotals> totals_{};  // the value of usage_totals
};

// A change of an entry by a message. The members of `counted` are set before those of `rest`.
struct CountedEdit {
  Counted counted{};
  json::Edit rest{};

  void set(const policy::UsageTotals& totals);
  void add_to(json::Edit& edit) const;
};

// Facts that the SessionIndex keeps with a session.
struct Linked {
  std::uint64_t order = 0;       // position in the order of insertion
  std::size_t linked_bytes = 0;  // size of the entry that was counted
};

// Times of the entry, in ms since the epoch.
struct Times {
  std::int64_t created_at = 0, updated_at = 0;
  std::optional<std::int64_t> archived_at{}, last_interaction_at{};
  std::optional<std::int64_t> started_at{};  // sessionStartedAt of the entry, else its createdAt
};

class Session : public Counters, public Linked, public Times {
 public:
  Session(std::string key, sessions::RawEntry entry);

  const std::string& key() const { return key_->text; }
  // The topic whose transcript is the session's own: that of its key, or the end of its key, if sessionFile names its
  // transcript as OpenClaw does (<sessionId>-topic-<id>.jsonl, for threads and Discord channels). "" for none.
  std::string own_topic() const;
  // The channel whose tokens see it. "": no token that is limited to a channel does, since it has messages of several.
  std::string_view audience() const { return channels.empty() ? std::string_view(channel) : std::string_view(); }
  const sessions::RawEntry& entry() const;  // a compact JSON object, with the counters
  // The members of entry() that the API shows. Kept until the entry changes: 16 bytes of a session, and about 110 more
  // of one that was shown.
  const ShownEntry& shown() const;
  // As entry(), but times and counters in it may be older: to look at other members, at no cost.
  const sessions::RawEntry& entry_with_old_counters() const { return entry_; }
  // Sets and removes members. Cheap if all of them are counters.
  void edit(const json::Edit& edit);
  void count(const Counted& counted);

  // Fields of the entry; "" or nothing if absent. Legacy names (provider, lastProvider) count.
  std::string session_id, session_file, channel, chat_type, label, name, slug, spawned_by;
  std::string sdk_session_id;            // of the Claude Agent SDK, by sdk_session.hpp
  std::vector<std::string> copied_from;  // ids of the sessions in which its messages were first written; each once
  std::string needs;                     // raw JSON: the messages that wait for an answer (needs.hpp)
  std::string channels;  // those whose messages reached it, if they are several, as in an Envelope; else empty
  std::uint64_t rev = 0;
  std::int64_t context_tokens = 0;  // contextTokens: its model's window; 0: the entry does not say
  bool ephemeral = false;
  bool has_policy = false;         // it may name guardrails or a turnCap
  bool has_first_message = false;  // firstMessage: how the conversation began

  // Journal seq of the last event that changed it; 0: none since the agent was loaded. Reads wait until it is durable.
  std::uint64_t last_seq = 0;

 private:
  void replace_entry(std::string entry) const;
  void read_fields();
  std::string moved_text(Counter counter) const;
  void take_field(std::string_view name, std::string_view value);

  // The members of the entry that count() has set, in the order of their first change.
  struct Moved {
    std::array<Counter, counter_count> counters{};
    std::uint8_t count = 0;
  };
  struct Key {
    std::string text;
    std::string topic;
  };
  std::shared_ptr<const Key> key_;  // shared with its copies
  mutable sessions::RawEntry entry_;
  mutable Moved moved_;                              // newer than entry_
  mutable std::shared_ptr<const ShownEntry> shown_;  // of entry_; null: not made yet
};

}  // namespace sessiond::decide
