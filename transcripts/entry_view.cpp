#include <zlib.h>

#include <fmt/format.h>

#include <cmath>

#include "store/utf8.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond {
namespace {

constexpr std::size_t shown_of_damage = 200;  // bytes of an unreadable line that are served

enum class Shape : std::uint8_t {
  unreadable,
  nested,  // {"type":"message",…,"message":{…}}
  flat,    // {"type":"user"|"assistant","content":…} or {"role":…}: the message's members are the entry's
  other,
};

// One pass over an entry's members; of duplicates the last. Views into the line.
struct Fields {
  Shape shape = Shape::unreadable;
  std::string_view type, id, parent_id, timestamp, message, role, content;
};

bool is_json_object(std::string_view line) {
  return json::check(line, {.max_depth = json::foreign_depth}).has_value() &&
         line[line.find_first_not_of(" \t\r\n")] == '{';
}

Fields read(std::string_view line) {
  Fields fields;
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
    fields.shape = Shape::nested;
  } else if ((fields.type.empty() && is_string(fields.role)) || (speaker && !fields.content.empty())) {
    fields.shape = Shape::flat;
    if (speaker) fields.role = fields.type;
  } else {
    fields.shape = Shape::other;
    if (fields.type.empty()) fields.type = "\"unknown\"";
  }
  return fields;
}

// Stored or derived, as JSON.
std::string id_json(const Fields& fields, std::string_view line, std::uint64_t seq) {
  return fields.id.empty() ? fmt::format("\"{}\"", derived_id(line, seq)) : std::string(fields.id);
}

std::string time_json(std::string_view timestamp) {
  if (const auto text = json::as_string(timestamp)) {
    const auto ms = parse_iso_time(*text);
    return ms ? std::to_string(*ms) : "null";
  }
  if (const auto ms = json::as_int(timestamp)) return std::to_string(*ms);
  constexpr double exact = 9007199254740992.0;  // 2^53
  const auto real = json::as_double(timestamp);
  if (real && std::abs(*real) < exact) return std::to_string(static_cast<std::int64_t>(std::floor(*real)));
  return "null";
}

std::string time_json(const Fields& fields) {
  std::string time = time_json(fields.timestamp);
  if (time != "null" || fields.shape != Shape::nested) return time;
  return time_json(json::find(fields.message, "timestamp").value_or(""));
}

// Other programs may have cut a character in half; what we send is UTF-8.
std::string repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence(text, at);
    out.append(length == 0 ? "\xEF\xBF\xBD" : text.substr(at, length));
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string_view beginning(std::string_view line) {
  std::size_t end = std::min(line.size(), shown_of_damage);
  if (end < line.size())  // not through the middle of a character
    for (std::size_t back = 0; back < 3 && end > back; ++back)
      if (const std::size_t at = end - back - 1; utf8_sequence(line, at) > back + 1) return line.substr(0, at);
  return line.substr(0, end);
}

std::string view_damage(std::string_view line, std::uint64_t seq, View view) {
  if (view == View::raw) return fmt::format(R"({{"seq":{},"line":{}}})", seq, json::quote(line));
  return fmt::format(R"({{"seq":{},"id":"{}","parentId":null,"type":"unreadable","bytes":{},"text":{}}})", seq,
                     derived_id(line, seq), line.size(), json::quote(beginning(line)));
}

std::string view_full(const Fields& fields, std::string_view line, std::string_view id, std::uint64_t seq) {
  const std::string_view type = fields.shape == Shape::other ? fields.type : "\"message\"";
  std::string out;
  out.reserve(line.size() + 64);
  out += fmt::format(R"({{"seq":{},"id":{},"parentId":{},"type":{},"timestamp":{})", seq, id, fields.parent_id, type,
                     time_json(fields));
  const bool role_from_type = fields.shape == Shape::flat && !fields.type.empty();
  if (role_from_type) out.append(",\"role\":").append(fields.role);
  for (const json::Member& member : json::members(fields.shape == Shape::nested ? fields.message : line)) {
    if (taken_by_message(member) || (role_from_type && named(member, "role"))) continue;
    out.append(",\"").append(member.name).append("\":").append(member.value);
  }
  out += '}';
  return out;
}

// What was said: a string, or the text parts of an array, a line each.
std::string spoken(std::string_view message) {
  const auto content = json::find(message, "content");
  if (!content) return json::string_at(message, "text").value_or("");
  if (auto text = json::as_string(*content)) return *text;
  std::string all;
  for (const std::string_view part : json::elements(*content)) {
    if (!is_object(part) || json::string_at(part, "type") != "text") continue;
    const auto text = json::string_at(part, "text");
    if (!text || text->empty()) continue;
    if (!all.empty()) all += '\n';
    all += *text;
  }
  return all;
}

std::optional<std::string> view_chat(const Fields& fields, std::string_view line, std::string_view id,
                                     std::uint64_t seq) {
  if (fields.shape != Shape::nested && fields.shape != Shape::flat) return {};
  const std::string_view message = fields.shape == Shape::nested ? fields.message : line;
  const std::string role = fields.shape == Shape::nested ? json::string_at(message, "role").value_or("")
                                                         : json::as_string(fields.role).value_or("");
  if (role != "user" && role != "assistant") return {};
  const std::string text = spoken(message);
  if (text.empty()) return {};
  return fmt::format(R"({{"seq":{},"id":{},"timestamp":{},"role":"{}","text":{}}})", seq, id, time_json(fields), role,
                     json::quote(text));
}

}  // namespace

std::string derived_id(std::string_view line, std::uint64_t seq) {
  const std::string number = std::to_string(seq);
  auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(number.data()), number.size());
  crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(line.data()), line.size());
  return fmt::format("{:08x}", crc);
}

std::optional<std::string> view_entry(std::string_view line, std::uint64_t seq, View view) {
  Fields fields = read(line);
  if (fields.shape == Shape::unreadable) {
    if (view == View::chat) return {};
    return view_damage(line, seq, view);
  }
  const std::string id = id_json(fields, line, seq);  // of the line as it is stored
  std::string repair;
  if (invalid_utf8(line)) {
    repair = repaired(line);
    line = repair;
    fields = read(line);
  }
  const std::string shown_id = invalid_utf8(id) ? repaired(id) : id;
  if (view == View::raw) return fmt::format(R"({{"seq":{},"line":{}}})", seq, line);
  if (view == View::chat) return view_chat(fields, line, shown_id, seq);
  return view_full(fields, line, shown_id, seq);
}

std::string entry_type(std::string_view line) {
  const Fields fields = read(line);
  if (fields.shape == Shape::unreadable) return "unreadable";
  return fields.shape == Shape::other ? json::as_string(fields.type).value_or("") : "message";
}

std::string entry_id(std::string_view line, std::uint64_t seq) {
  const Fields fields = read(line);
  if (fields.shape == Shape::unreadable || fields.id.empty()) return derived_id(line, seq);
  std::string id = json::as_string(fields.id).value_or("");
  return invalid_utf8(id) ? repaired(id) : id;
}

}  // namespace sessiond
