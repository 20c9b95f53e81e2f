// Helpers to read the members of a raw JSON object in one pass.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "store/json/raw_json.hpp"

namespace sessiond::transcripts {

inline bool named(const json::Member& member, std::string_view name) {
  if (member.name.size() <= name.size()) return member.name == name;  // escapes only make a name longer
  return member.name.find('\\') != std::string_view::npos && json::unescape(member.name) == name;
}

// The members that an entry or its message may have, raw; "": there is none. Views into the object. Of duplicates the
// last one counts.
struct EntryMembers {
  std::string_view type, id, parent_id, timestamp, message, role, content, text, usage, dropped;
};
EntryMembers entry_members(std::span<const json::Member> members);

inline bool is_object(std::string_view value) { return !value.empty() && value.front() == '{'; }
inline bool is_array(std::string_view value) { return !value.empty() && value.front() == '['; }
inline bool is_string(std::string_view value) { return !value.empty() && value.front() == '"'; }

// Returns the text of a member; "": it is no string, or there is none.
inline std::string text_at(std::string_view object, std::string_view name) {
  return json::string_at(object, name).value_or("");
}

// Tells whether an entry has a member of this name beside its message or its body.
inline bool belongs_to_entry(std::string_view name) {
  return name == "id" || name == "parentId" || name == "type" || name == "timestamp";
}
inline bool belongs_to_entry(const json::Member& member) {
  std::string held;
  return belongs_to_entry(name_of(member, held));
}

// Tells whether a Message has a member of this name of its own. Such a member of a message is shown only by view=raw.
inline bool taken_by_message(std::string_view name) { return belongs_to_entry(name) || name == "seq"; }
inline bool taken_by_message(const json::Member& member) {
  std::string held;
  return taken_by_message(name_of(member, held));
}

// Appends a member, with a comma before it.
inline void append_member(std::string& out, const json::Member& member) {
  out.append(",\"").append(member.name).append("\":").append(member.value);
}

}  // namespace sessiond::transcripts
