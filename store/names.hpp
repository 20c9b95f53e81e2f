// Names: agent ids, session keys, session ids, topics, entry ids, and what files they may become (FORMATS §5).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

// ^[a-z0-9][a-z0-9_-]{0,63}$ after trimming, lower-casing and turning other characters into '-'; nothing when nothing
// valid is left.
std::optional<std::string> normalize_agent_id(std::string_view text);
bool valid_agent_id(std::string_view text);

// What a session key says of itself. Views point into the key. Keys of any other shape have only `rest`.
struct KeyParts {
  std::string_view agent;      // "agent:<agent>:…", else empty
  std::string_view rest;       // the key without "agent:<agent>:"
  std::string_view channel;    // of <channel>:<direct|group|channel>:<id>
  std::string_view chat_type;  // "direct" (also for dm), "group", "channel", or empty
  std::string_view peer;       // the id, without :thread: and :topic: suffixes
  std::string_view thread;     // of a ":thread:<id>" suffix
  std::string_view topic;      // of a ":topic:<id>" suffix
};
KeyParts parse_key(std::string_view key);

// A key as we make it: lower-case but for ids whose case carries meaning (matrix rooms, signal groups), `dm` as
// `direct`, at most 512 bytes, no control characters. agent_mismatch when it names another agent; a key without
// "agent:" gets the prefix.
Result<std::string> canonical_key(std::string_view key, std::string_view agent);

// Whether two spellings name one session: case does not matter, but in ids whose case carries meaning.
bool same_key(std::string_view a, std::string_view b);
// Whether a key begins with a prefix, by the same rule.
bool key_has_prefix(std::string_view key, std::string_view prefix);
// The channels whose ids carry case (`routing.caseSensitive`), lower-case; ["matrix","signal"] unless this is called.
// Only before other threads run. Ids of users are lower-case on Matrix and Signal all the same.
void set_case_sensitive_channels(std::vector<std::string> channels);

// `dm` as `direct`, lower-case but in ids whose case carries meaning: spellings of one key are folded to the same.
std::string folded_key(std::string_view key);
// The spelling of a key with `:direct:` for `:dm:` and the other way round; nothing when it has neither.
std::optional<std::string> dm_alias(std::string_view key);

// ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$ and not reserved (with or without extension): invalid_id or reserved_name.
Result<void> check_session_id(std::string_view id);
// For an id that a session is to get: neither with ".." in it nor ending in "-topic", which would give two sessions one
// topic's file. Stores of other programs may have such ids; they are served.
Result<void> check_new_session_id(std::string_view id);
// 1..128 of [A-Za-z0-9._:-]
bool valid_entry_id(std::string_view id);
// Topics: 1..128 bytes of UTF-8 without control characters.
Result<void> check_topic(std::string_view topic);

// <sessionId>.jsonl or <sessionId>-topic-<topic, percent-encoded>.jsonl; the session id must have passed
// check_session_id.
std::string transcript_file(std::string_view session_id, std::string_view topic);
// What stands between "-topic-" and ".jsonl" of a transcript's name, decoded; nothing for a session's own transcript.
std::optional<std::string> topic_of_file(std::string_view session_id, std::string_view file);
// A lock, or what a write makes beside its file for a moment: <file>.lock, <file>.lock.<pid>.<random>, <file>.tmp,
// <file>.tmp.old. Never a transcript, an archive or what was put aside of one, whatever dots a session id has.
bool is_passing(std::string_view name);

std::string lower(std::string_view text);      // ASCII
std::string_view trim(std::string_view text);  // ASCII whitespace
bool starts_with_nocase(std::string_view text, std::string_view prefix);
bool equals_nocase(std::string_view a, std::string_view b);

}  // namespace sessiond
