// One transcript entry in its two forms (FORMATS §4, API §4): the stored line and the Message that the API and events
// show.
//   line:
//   {"type":"message","id":"1a2b3c4d","parentId":null,"timestamp":"2026-11-21T22:00:00.000Z","message":{"role":"user",…}}
//   Message: {"seq":0,"id":"1a2b3c4d","parentId":null,"type":"message","timestamp":1795298400000,"role":"user",…}
// A Message's timestamp is ms. A `message` entry is flattened (its own `timestamp` wins over nothing: the entry's is
// shown); other types keep their fields. Lines we write are made so that the line can be made again from the Message to
// the byte (`line_of`), which is how recovery writes transcripts from the journal; where that is impossible (`exact`
// false) the journal keeps the line itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/problem.hpp"
#include "store/time_range.hpp"

namespace sessiond {

// What one entry is to be, before it has a place: made by parse_entry from a request.
struct NewEntry {
  std::string type{};                      // "message", "compaction", "custom", …
  std::string id{};                        // empty: to be minted
  std::optional<std::string> parent_id{};  // given by the client; else the real last entry's id
  std::optional<std::int64_t> time{};      // ms; given by the client; else now
  std::string body{};   // raw and compact; message: the message object; else the remaining members without braces
  std::string role{};   // message only
  std::string usage{};  // message only: raw usage object, or empty
  bool stamp = false;   // message only: give it the entry's time as its timestamp, last, where it has none
  std::string extra{};  // message only: members of the entry beside `message`, raw, without braces; kept in the line
};

// Reads an entry of a POST (API §4): a full entry {"type","id?","parentId?","timestamp?",…}, or the short form
// {"role","text"} / {"role","content",…} (also as {"type":"user"|"assistant","content",…}), whose id, parentId and
// timestamp are the entry's and whose other members are the message's. `pointer` is where the entry stands in the body.
// validation_failed or invalid_id with pointer. The value must have passed json::check.
Result<NewEntry> parse_entry(std::string_view value, std::string_view pointer);

struct Written {
  std::string line;     // ends in '\n'
  std::string message;  // the Message with its seq
  bool exact = true;    // line_of(message) == line
};
// An entry without a time of its own takes that of its message's last member `timestamp`. Exact is every line but: a
// message that has members named seq, id, parentId or type, or no timestamp, or one that is not the entry's and last;
// further members beside `message`; another entry with a member named seq.
Written write_entry(const NewEntry& draft, std::string_view id, std::string_view parent_id, std::uint64_t seq,
                    std::int64_t now);

std::string header_line(std::string_view session_id, std::int64_t now, std::string_view cwd,
                        std::string_view parent_session);  // ends in '\n'
std::string line_of(std::string_view message);             // the stored line of a Message that we made, with '\n'

enum class View : std::uint8_t {
  full,  // the Message
  chat,  // user and assistant messages only, {seq,id,timestamp,role,text} with the text parts joined
  raw,   // {"seq":n,"line":<stored line as JSON, or as a JSON string when unreadable>}
};
// A stored line (as Transcript gives it) as Message. All shapes of FORMATS §4: version 3 entries, flat
// {"type":"user"|"assistant","content"}, bare {"role":…}, versions 1 and 2 (ids derived: CRC-32 of seq and line, 8
// hex), unreadable lines as {"seq","id","parentId":null,"type":"unreadable","bytes","text":<first 200 bytes>}. An
// object with neither type nor role is of type "unknown"; a time that cannot be read is null. Values keep their bytes,
// but what is not UTF-8 becomes U+FFFD. Nothing when the view leaves it out.
std::optional<std::string> view_entry(std::string_view line, std::uint64_t seq, View view);
std::string entry_type(std::string_view line);                   // for ?types=; "unreadable" when it is no JSON object
std::string entry_id(std::string_view line, std::uint64_t seq);  // stored or derived
std::string derived_id(std::string_view line, std::uint64_t seq);

// What a content says: the string itself, or the text parts of an array, a line each.
std::string text_of(std::string_view content);

// 2026-11-21T22:00:00.000Z. A time outside store/time_range.hpp, from a clock or a file, is written as the nearer end.
std::string iso_time(std::int64_t ms);
std::optional<std::int64_t> parse_iso_time(std::string_view text);

}  // namespace sessiond
