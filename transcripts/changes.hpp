// Reads what people did to messages later, on their chat platform: edits, deletions and reactions. Each is an entry of
// its own, behind the message:
//   {"type":"custom","customType":"sessiond.edit","data":{"target":{"sessionId","topic","id","seq"},"text":"…"}}
//   … "sessiond.delete" …{"target":{…}}
//   … "sessiond.reaction" …{"target":{…},"emoji":"👍","from":"Ada","removed":true}
// No stored line is changed. A view shows a message as these leave it: with the newest text; without a text for ever
// once it was deleted; with a set of (emoji, who).
//
// A target is named by the transcript in which the message was first written (origins.hpp) and its entry id. A change
// that the daemon decided stands twice: in the session's transcript of that time, and in a file for the first
// transcript alone, agents/<agent>/changes/<its file name>. So it is found from any copy, archive or restored session
// at the same cost. A change entry that came with an import stands in its transcript only, and is about messages of
// that one. The file says with an entry `sessiond.copied` that copies were made: then it stays when the transcript is
// purged.
//
// Changes are an index of these entries by their target. It is a part of the landmarks of a transcript, so a page costs
// what it shows, wherever its messages were changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transcripts/origins.hpp"

namespace sessiond::transcripts {

// By emoji, then by who reacted: whether the reaction stands.
using Reactions = std::map<std::string, std::map<std::string, bool>>;

// The changes of one message, as far as one transcript tells.
struct Change {
  std::optional<std::uint64_t> edit{};     // seq of the entry with the newest text
  std::optional<std::uint64_t> deleted{};  // seq of the first entry that says so
  Reactions reactions{};
};
// The same, with the text.
struct ShownChange {
  std::string edit{};  // raw JSON object with `text` or `content`; empty: it was not edited
  bool deleted = false;
  Reactions reactions{};
  std::optional<std::uint64_t> at{};  // seq of the last of these entries, where the transcript itself has them
};
void add_later(ShownChange& onto, ShownChange later);

// The edits, deletions and reactions of a transcript's messages. Some are written in the transcript itself, others in
// the files of the transcripts in which its messages were first written.
class ShownChanges {
 public:
  explicit ShownChanges(Origins origins = Origins()) : origins_(std::move(origins)) {}

  // Adds what was done to a message that was first written in the transcript `origin`, behind what is there.
  void add(std::string_view origin, const std::string& id, ShownChange later);
  // Null: nothing was done to the message with this seq and id.
  const ShownChange* of(std::uint64_t seq, std::string_view id) const;
  // The same for a message that was first written in the transcript `origin`.
  const ShownChange* of_origin(std::string_view origin, std::string_view id) const;
  bool empty() const { return by_origin_.empty(); }
  const Origins& origins() const { return origins_; }

 private:
  Origins origins_;
  std::map<std::string, std::map<std::string, ShownChange, std::less<>>, std::less<>> by_origin_{};
};

// Returns a message with its newest text and `edited`; nothing if it was deleted. The calls of a deleted answer stay.
std::optional<std::string> changed_message(std::string_view message, const ShownChange& change);
// A message may tell of others that a full queue has dropped (policy/overflow.hpp). Returns their ids, one for each
// line of its text; "" where it is not known. None: it is another message. `line`: as it is stored, or the message
// alone.
std::vector<std::string> dropped_in(std::string_view line);
// Adds the change that such a message needs once those were edited or deleted.
void add_retold(ShownChanges& changes, std::uint64_t seq, std::string_view id, std::string_view line);
// Names the message that a line of a custom entry changes. Nothing: it changes none.
struct ChangeTarget {
  std::string_view what{};  // edit, delete, reaction
  std::string origin{}, id{};
};
std::optional<ChangeTarget> target_in(std::string_view line);
// Returns a stored line as people left what it tells: a message with its newest text and `edited`, or without a text
// and with `deleted`; an edit that does not stand any more without its text. Nothing: it is as it was stored.
std::optional<std::string> changed_line(std::string_view line, std::uint64_t seq, const ShownChanges& changes);
// Returns `,"reactions":[{"emoji","count"}]`; "" if none stands.
std::string reactions_member(const ShownChange& change);
// The data of an edit's entry.
std::string edit_in(std::string_view line);
// The text of an edit.
std::string edited_text(const ShownChange& change);

class Changes {
 public:
  using ById = std::map<std::string, Change, std::less<>>;

  // Takes in the line of a custom entry.
  void add(std::string_view line, std::uint64_t seq);
  bool empty() const { return by_transcript_.empty(); }
  // Null: nothing happened to a message of this transcript.
  const ById* of(std::string_view transcript_name) const;
  // Whether there was an entry `sessiond.copied`. Not kept in to_json().
  bool has_copies() const { return has_copies_; }
  std::string to_json() const;
  static Changes from_json(std::string_view text);

 private:
  std::map<std::string, ById, std::less<>> by_transcript_{};
  bool has_copies_ = false;
};

}  // namespace sessiond::transcripts
