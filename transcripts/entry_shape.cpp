#include "transcripts/entry_shape.hpp"

#include "transcripts/members.hpp"

namespace sessiond::transcripts {
namespace {

bool is_json_object(std::string_view line) {
  return json::check(line, {.max_depth = json::foreign_depth}).has_value() &&
         line[line.find_first_not_of(" \t\r\n")] == '{';
}

}  // namespace

EntryFields read_fields(std::string_view line) {
  EntryFields fields;
  if (!is_json_object(line)) return fields;
  for (const json::Member& member : json::members(line)) {
    if (named(member, "type")) fields.type = member.value;
    if (named(member, "id")) fields.id = member.value;
    if (named(member, "parentId")) fields.parent_id = member.value;
    if (named(member, "timestamp")) fields.timestamp = member.value;
    if (named(member, "message")) fields.message = member.value;
    if (named(member, "role")) fields.role = member.value;
    if (named(member, "content")) fields.content = member.value;
  }
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
