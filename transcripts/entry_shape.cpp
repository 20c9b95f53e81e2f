#include "transcripts/entry_shape.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace sessiond::transcripts {
namespace {

struct Named {
  std::string_view name;
  std::string_view EntryMembers::* field;
};
constexpr std::array<Named, 10> entry_names{{{"type", &EntryMembers::type},
                                             {"id", &EntryMembers::id},
                                             {"parentId", &EntryMembers::parent_id},
                                             {"timestamp", &EntryMembers::timestamp},
                                             {"message", &EntryMembers::message},
                                             {"role", &EntryMembers::role},
                                             {"content", &EntryMembers::content},
                                             {"text", &EntryMembers::text},
                                             {"usage", &EntryMembers::usage},
                                             {"dropped", &EntryMembers::dropped}}};

}  // namespace

EntryMembers entry_members(std::span<const json::Member> members) {
  EntryMembers found;
  for (const json::Member& member : members) {
    std::string held;
    const auto known = std::ranges::find(entry_names, name_of(member, held), &Named::name);
    if (known != entry_names.end()) found.*(known->field) = member.value;
  }
  return found;
}

EntryFields read_fields(std::string_view line) {
  EntryFields fields;
  constexpr std::size_t usual = 8;
  std::vector<json::Member> members;
  members.reserve(usual);
  if (!json::check(line, {.max_depth = json::foreign_depth, .members = &members})) return fields;
  if (line[line.find_first_not_of(" \t\r\n")] != '{') return fields;
  static_cast<EntryMembers&>(fields) = entry_members(members);
  if (!is_string(fields.type)) fields.type = {};
  if (!is_string(fields.id) || fields.id.size() == 2) fields.id = {};
  if (!is_string(fields.parent_id) || fields.parent_id.size() == 2) fields.parent_id = "null";
  const std::string type = json::as_string(fields.type).value_or("");
  const bool speaker = type == "user" || type == "assistant";
  if (type == "message" && is_object(fields.message)) {
    fields.shape = EntryShape::nested;
  } else if ((fields.type.empty() && is_string(fields.role)) || (speaker && !fields.content.empty())) {
    fields.shape = EntryShape::flat;
    if (speaker) fields.role = fields.type;
  } else {
    fields.shape = EntryShape::other;
    fields.has_type = !fields.type.empty();
    if (!fields.has_type) fields.type = "\"unknown\"";
  }
  return fields;
}

}  // namespace sessiond::transcripts
