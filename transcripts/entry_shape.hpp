// Which of the shapes of FORMATS §4 a stored line has, and its members that all shapes share.
#pragma once

#include <cstdint>
#include <string_view>

namespace sessiond {

enum class EntryShape : std::uint8_t {
  unreadable,  // no JSON object
  nested,      // {"type":"message",…,"message":{…}}
  flat,        // {"type":"user"|"assistant","content":…} or {"role":…}: the message's members are the entry's
  other,
};

// One pass over an entry's members; of duplicates the last. Views into the line (or of constants).
struct EntryFields {
  EntryShape shape = EntryShape::unreadable;
  std::string_view type, id, parent_id, timestamp, message, role, content;
  bool has_type = true;  // false: neither type nor role; `type` is "unknown"
};
// An id or type that is no string, or empty, is none; such a parentId is null.
EntryFields read_fields(std::string_view line);

}  // namespace sessiond
