// Reads what people did to messages later, on their chat platform: edits, deletions and reactions. Each is an entry of
// its own, behind the message:
//   {"type":"custom","customType":"sessiond.edit","data":{"target":{"sessionId","topic","id","seq"},"text":"…"}}
//   … "sessiond.delete" …{"target":{…}}
//   … "sessiond.reaction" …{"target":{…},"emoji":"👍","from":"Ada","removed":true}
// No stored line is changed. A view shows a message as these leave it: with the newest text; without a text for ever
// once it was deleted; with a set of (emoji, who).
//
// Changes are an index of these entries by their target. It is a part of the landmarks of a transcript, so a page costs
// what it shows, wherever its messages were changed. A target may also lie in an archived transcript of the same key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::transcripts {

// Names the transcript that a target lies in.
std::string transcript_name(std::string_view session_id, const std::optional<std::string>& topic);

// By emoji, then by who reacted: whether the reaction stands.
using Reactions = std::map<std::string, std::map<std::string, bool>>;

// The changes of one message, as far as one transcript tells.
struct Change {
  std::optional<std::uint64_t> edit{};  // seq of the entry with the newest text
  bool deleted = false;
  Reactions reactions{};
};
// The same, with the text.
struct ShownChange {
  std::string edit{};  // raw JSON object with `text` or `content`; empty: it was not edited
  bool deleted = false;
  Reactions reactions{};
};
using ShownChanges = std::map<std::string, ShownChange, std::less<>>;  // by entry id
void add_later(ShownChanges& onto, const ShownChanges& later);

// Returns a message with its newest text and `edited`; nothing if it was deleted. The calls of a deleted answer stay.
std::optional<std::string> changed_message(std::string_view message, const ShownChange& change);
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
  // Null: nothing happened to a message of this transcript.
  const ById* of(std::string_view transcript_name) const;
  std::string to_json() const;
  static Changes from_json(std::string_view text);

 private:
  std::map<std::string, ById, std::less<>> by_transcript_{};
};

}  // namespace sessiond::transcripts
