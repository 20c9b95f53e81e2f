// Tells which of the forms that exist a stored line has, and reads the members that all of them share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transcripts/members.hpp"

namespace sessiond::transcripts {

enum class EntryShape : std::uint8_t {
  unreadable,  // not a JSON object
  nested,      // {"type":"message",…,"message":{…}}
  flat,        // {"type":"user"|"assistant","content":…} or {"role":…}: the message's members are the entry's
  other,
};

// Views into the line, or of constants.
struct EntryFields : EntryMembers {
  EntryShape shape = EntryShape::unreadable;
  bool has_type = true;  // false: neither type nor role; `type` is "unknown"
};
// Reads the fields in one pass. An id or type that is not a string, or empty, counts as absent; such a parentId is
// null.
EntryFields read_fields(std::string_view line);
std::string entry_id(const EntryFields& fields, std::string_view line, std::uint64_t seq);  // stored or derived

}  // namespace sessiond::transcripts
