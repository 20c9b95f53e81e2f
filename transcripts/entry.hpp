// A transcript entry has two forms: the line in the file, and the Message that the API and the events show.
//   line:
//   {"type":"message","id":"1a2b3c4d","parentId":null,"timestamp":"2026-11-21T22:00:00.000Z","message":{"role":"user",…}}
//   Message: {"seq":0,"id":"1a2b3c4d","parentId":null,"type":"message","timestamp":1795298400000,"role":"user",…}
// A Message's timestamp is in ms. The members of `message` become members of the Message; other types keep their
// members. If the entry has no timestamp, the one in `message` is shown.
//
// Lines that we write can be made again from the Message, byte for byte (`line_of`): recovery writes transcripts from
// the journal that way. If a line cannot (`exact` is false), the journal keeps the line itself.
// A message that came whole and without a timestamp is stored as it came (`unstamped`); its Message does not show that,
// so `line_of` is told.
//
// These functions are pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "policy/context/entry.hpp"
#include "store/problem.hpp"
#include "store/time_range.hpp"

namespace sessiond::transcripts {

struct ShownChange;

// An entry as a model sees it. It points into the text that it keeps.
struct SeenEntry {
  std::string text{};
  context::Entry entry{};
  std::string said{};      // of a message: the text of its content
  bool is_answer = false;  // transcripts::is_answer()
  bool is_hint = false;    // transcripts::is_hint()
};

// An entry before it is appended, as parse_entry reads it from a request.
struct NewEntry {
  std::string type{};                      // "message", "compaction", "custom", …
  std::string id{};                        // empty: to be made
  std::optional<std::string> parent_id{};  // given by the client; nothing: the id of the last entry
  std::optional<std::int64_t> time{};      // ms since the epoch, given by the client; nothing: now
  std::string body{};          // compact JSON. message: the message object; else the other members, without braces
  std::string role{};          // message only
  std::string usage{};         // message only: raw JSON object, or empty
  bool names_dropped = false;  // message only: it has the member `dropped` (policy/overflow.hpp)
  bool plain = false;          // message only: its body is known to have no member seq, id, parentId, type or timestamp
  bool stamp = false;          // message only: if it has no timestamp, add the entry's as its last member
  std::string extra{};         // message only: members beside `message`, raw, without braces; the line keeps them
  std::shared_ptr<const SeenEntry> seen{};  // what see() made of the body; null: the loop reads it
};

// Reads an entry of a request. It comes in full, {"type","id"?,"parentId"?,"timestamp"?,…}, or in the short form
// {"role","text"} or {"role","content",…} (also {"type":"user"|"assistant","content",…}): then id, parentId and
// timestamp are the entry's, and all other members are the message's. `pointer` says where the entry is in the body.
// validation_failed or invalid_id with a pointer. `value` must have passed json::check.
Result<NewEntry> parse_entry(std::string_view value, std::string_view pointer);
Result<void> parse_entry_into(NewEntry& parsed, std::string_view value, std::string_view pointer);  // a new one

// Makes {"type":"custom","customType":…,"data":…}. `data`: JSON.
NewEntry custom_entry(std::string_view custom_type, std::string_view data);

// Reads what a decision would read of a long entry, on a disk thread. The body does not change afterwards.
void see(NewEntry& entry);
// Returns the text of a message's content.
std::string said_in(const NewEntry& entry);
// Returns whether a message is an answer of the agent: it is of role assistant, says something, and is not what a run
// had said when it was interrupted.
bool is_answer(std::string_view message);
// Returns whether a message is a hint: it is for the agent alone (`audience`), and nobody waits for an answer to it.
bool is_hint(std::string_view message);
inline bool is_hint(const NewEntry& entry) { return entry.seen ? entry.seen->is_hint : is_hint(entry.body); }
inline bool is_answer(const NewEntry& entry) { return entry.seen ? entry.seen->is_answer : is_answer(entry.body); }

// Returns whether the entry is one that only the daemon makes: its customType begins with "sessiond.".
bool is_of_daemon(const NewEntry& entry);

struct Written {
  std::string line;        // ends in '\n'
  std::string message;     // the Message with its seq
  bool unstamped = false;  // the line's message has no timestamp
  bool exact = true;       // line_of(message, unstamped) == line
};
// Without a time of its own, the entry takes that of its message if `timestamp` is the message's last member.
// Not exact are: a message with members seq, id, parentId or type; a message with a timestamp that is not the entry's
// or not the last member; members beside `message`; other entries with a member seq.
Written write_entry(const NewEntry& entry, std::string_view id, std::string_view parent_id, std::uint64_t seq,
                    std::int64_t now);

std::string header_line(std::string_view session_id, std::int64_t now, std::string_view cwd,
                        std::string_view parent_session);  // ends in '\n'
// Makes the stored line, with '\n', of a Message that write_entry made. "" for anything else.
std::string line_of(std::string_view message, bool unstamped = false);

enum class View : std::uint8_t {
  full,  // the Message
  chat,  // only messages of user and assistant: {seq,id,timestamp,role,from?,text}, the text parts joined; edited:true
         // with the newest text, deleted:true without a text, interrupted:true of what a run had said when it ended,
         // attachments:[{type,name?}], reactions:[{emoji,count}]
  raw,   // {"seq":n,"line":<stored line as JSON, or as a JSON string when unreadable>}
};
// Shows a stored line, as Transcript returns it. Reads all forms that exist: entries of version 3, flat lines
// {"type":"user"|"assistant","content"}, bare ones {"role":…}, and versions 1 and 2, which have no ids (one is derived
// from seq and line). A line that is not a JSON object is shown as
// {"seq","id","parentId":null,"type":"unreadable","bytes","text":<the first 200 bytes>}; an object with neither type
// nor role has the type "unknown". A time that cannot be read is null. Values keep their bytes, but bytes that are not
// UTF-8 become U+FFFD. Returns nothing if the view leaves the entry out.
// `change`: what people did to the message later, which only View::chat shows; null: nothing.
std::optional<std::string> view_entry(std::string_view line, std::uint64_t seq, View view,
                                      const ShownChange* change = nullptr);
std::string entry_type(std::string_view line);                     // "unreadable" if it is not a JSON object
std::string entry_id(std::string_view line, std::uint64_t seq);    // stored or derived
std::string derived_id(std::string_view line, std::uint64_t seq);  // CRC-32 of seq and line, 8 hex digits

// Returns the text of a content: the string itself, or the text parts of the array, one per line. Reads no further part
// once it has `enough` bytes.
std::string text_of(std::string_view content, std::size_t enough = SIZE_MAX);

// Returns `content` with its text replaced by `text`; "" if nothing is left.
std::string with_text(std::string_view content, std::string_view text);

// Writes 2026-11-21T22:00:00.000Z. A time outside store/time_range.hpp is written as the nearer end of that range.
std::string iso_time(std::int64_t ms);
std::optional<std::int64_t> parse_iso_time(std::string_view text);

}  // namespace sessiond::transcripts
