// The rules of names: agent ids, session keys, session ids, topics, entry ids, and the files that they name. Clients
// and foreign stores choose names, and a name becomes a path: so every name is checked here before it is used.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::store {

// Trims, lower-cases and replaces each run of other characters by '-', so that ^[a-z0-9][a-z0-9_-]{0,63}$ matches.
// Nothing when no valid character is left.
std::optional<std::string> normalize_agent_id(std::string_view text);
bool valid_agent_id(std::string_view text);

// The parts of a session key, as views into it. A key of another shape has only `rest`.
struct KeyParts {
  std::string_view agent;      // of "agent:<agent>:…"
  std::string_view rest;       // the key without "agent:<agent>:"
  std::string_view channel;    // of <channel>:<direct|group|channel>:<id>
  std::string_view chat_type;  // "direct" (also for dm), "group", "channel", or empty
  std::string_view peer;       // the id, without :thread: and :topic: suffixes
  std::string_view thread;     // of a ":thread:<id>" suffix
  std::string_view topic;      // of a ":topic:<id>" suffix
};
KeyParts parse_key(std::string_view key);

// The spelling that new sessions get: with the prefix "agent:<agent>:", `direct` for `dm`, in lower case except for ids
// whose case has a meaning (Matrix rooms, Signal groups). At most 512 bytes, no control characters. agent_mismatch: the
// key names another agent. reserved_name: "-".
Result<std::string> canonical_key(std::string_view key, std::string_view agent);

// How the letters of keys are compared.
struct KeyRules {
  // The channels in whose ids case has a meaning (`routing.caseSensitive`). User ids of these two are in lower case
  // nevertheless.
  std::vector<std::string> case_sensitive{"matrix", "signal"};
  // Letters of all scripts have a case, as ECMAScript's toLowerCase() knows it: OpenClaw makes keys by it, so it is
  // what counts in a store that is shared with it. Otherwise ASCII letters alone have one.
  bool all_letters = false;
};
// Call it before other threads exist.
void set_key_rules(KeyRules rules);

// Maps all spellings of one key to the same text: `direct` for `dm`, lower case except in ids whose case has a meaning.
std::string folded_key(std::string_view key);
// Whether two spellings name the same session.
bool same_key(std::string_view a, std::string_view b);
// Whether a key begins with a prefix, in either spelling of dm/direct. Case matters only in ids whose case has a
// meaning.
bool key_has_prefix(std::string_view key, std::string_view prefix);
// The same where case never matters, as for rules and filters.
bool key_begins_with(std::string_view key, std::string_view prefix);
// Whether the key begins with the prefix, with "agent:<agent>:" or without it.
bool key_matches_prefix(std::string_view key, std::string_view prefix);
std::string lower_key(std::string_view text);  // a key, or a part of one
// The key with `:direct:` instead of `:dm:`, or the reverse; nothing when it has neither.
std::optional<std::string> dm_alias(std::string_view key);

// Tells whether a file of this name, with or without extension, would be taken for one of the store's own or for a
// device of Windows: index, metadata, last_session, con, com1, …
bool is_reserved_name(std::string_view id);
// ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$ and not reserved (with or without extension): invalid_id or reserved_name.
Result<void> check_session_id(std::string_view id);
// Checks an id for a new session: it must also not contain "..", be a key that is used without a prefix ("main"), or
// end in "-topic" (two sessions would share a topic's file). Foreign stores may have such ids, and they are served.
Result<void> check_new_session_id(std::string_view id);
bool valid_entry_id(std::string_view id);  // 1 to 128 of [A-Za-z0-9._:-]
// UTF-8 without control characters: at least one byte, and at most 80 when it is percent-encoded for the name of its
// file. invalid_id; reserved_name for the topic of a stream.
Result<void> check_topic(std::string_view topic);

// A stream of a session is a list that clients append to, beside its messages. It is stored as the transcript of a
// topic that is its own, so it is archived, restored and purged with the session.
std::span<const std::string_view> stream_names();
// The topic of a stream: stream:memoryEvents.
std::string stream_topic(std::string_view stream);
bool is_stream_topic(std::string_view topic);
std::string describe_topic(std::string_view topic);  // for people: topic "t", stream memoryEvents

// <sessionId>.jsonl or <sessionId>-topic-<topic, percent-encoded>.jsonl; the session id must have passed
// check_session_id. An empty topic is the session itself.
std::string transcript_file(std::string_view session_id, std::string_view topic);
// The topic of a transcript, from its file name; nothing for a session's own transcript.
std::optional<std::string> topic_of_file(std::string_view session_id, std::string_view file);
// Tells whether a file is the transcript of a stream. Its entries are no messages of the session.
bool is_stream_file(std::string_view session_id, std::string_view file);
// Files beside transcripts, where transcripts are named. Each kind lies in a folder of its own (ledger::file_path). The
// session id must have passed check_session_id.
//   logs/<sessionId>.jsonl      the log of a session (decide/session_log.hpp)
//   changes/<transcript_file>   what people did to the messages of a transcript later (transcripts/changes.hpp)
std::string log_file(std::string_view session_id);
std::string changes_file(std::string_view session_id, std::string_view topic);
bool is_log_file(std::string_view file);
bool is_beside(std::string_view file);
// Whether this is a lock or a temporary file of a write: <file>.lock, <file>.lock.<pid>.<random>, <file>.tmp,
// <file>.tmp.old. Transcripts, archives and files put aside never are, whatever dots a session id has.
bool is_passing(std::string_view name);

std::string lower(std::string_view text);      // ASCII
std::string_view trim(std::string_view text);  // ASCII whitespace
bool starts_with_nocase(std::string_view text, std::string_view prefix);
bool equals_nocase(std::string_view a, std::string_view b);

}  // namespace sessiond::store
