// Reading members of raw objects in one pass, for the files of this folder.
#pragma once

#include <string_view>

#include "store/json/raw_json.hpp"

namespace sessiond {

// Is this member's name `name`, escapes resolved? ("\u0069d" is "id".)
inline bool named(const json::Member& member, std::string_view name) {
  if (member.name == name) return true;
  return member.name.find('\\') != std::string_view::npos && json::unescape(member.name) == name;
}

inline bool is_object(std::string_view value) { return !value.empty() && value.front() == '{'; }
inline bool is_array(std::string_view value) { return !value.empty() && value.front() == '['; }
inline bool is_string(std::string_view value) { return !value.empty() && value.front() == '"'; }

// Members that a Message has of its own: of the same name inside an entry they are shown by view=raw only.
inline bool taken_by_message(const json::Member& member) {
  return named(member, "seq") || named(member, "id") || named(member, "parentId") || named(member, "type") ||
         named(member, "timestamp");
}

}  // namespace sessiond
