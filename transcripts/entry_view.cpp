
#include <fmt/format.h>

#include <cmath>

#include "policy/context/entry.hpp"
#include "store/crc32.hpp"
#include "store/utf8.hpp"
#include "transcripts/changes.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/entry_shape.hpp"
#include "transcripts/members.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::size_t shown_of_damage = 200;  // bytes of an unreadable line that are shown

std::string time_json(std::string_view timestamp) {
  if (is_string(timestamp)) {
    const std::string_view raw = timestamp.substr(1, timestamp.size() - 2);
    const auto ms = raw.contains('\\') ? parse_iso_time(json::unescape(raw)) : parse_iso_time(raw);
    return ms ? std::to_string(*ms) : "null";
  }
  if (const auto ms = json::as_int(timestamp)) return std::to_string(*ms);
  constexpr double exact = 9007199254740992.0;  // 2^53
  const auto real = json::as_double(timestamp);
  if (real && std::abs(*real) < exact) return std::to_string(static_cast<std::int64_t>(std::floor(*real)));
  return "null";
}

std::string time_json(const EntryFields& fields) {
  std::string time = time_json(fields.timestamp);
  if (time != "null" || fields.shape != EntryShape::nested) return time;
  return time_json(json::find(fields.message, "timestamp").value_or(""));
}

std::string_view beginning(std::string_view line) {
  std::size_t end = std::min(line.size(), shown_of_damage);
  if (end < line.size())  // not through the middle of a character
    for (std::size_t back = 0; back < 3 && end > back; ++back)
      if (const std::size_t at = end - back - 1; store::utf8_sequence(line, at) > back + 1) return line.substr(0, at);
  return line.substr(0, end);
}

std::string view_damage(std::string_view line, std::uint64_t seq, View view) {
  if (view == View::raw) return fmt::format(R"({{"seq":{},"line":{}}})", seq, json::quote(line));
  return fmt::format(R"({{"seq":{},"id":"{}","parentId":null,"type":"unreadable","bytes":{},"text":{}}})", seq,
                     derived_id(line, seq), line.size(), json::quote(beginning(line)));
}

std::string view_full(const EntryFields& fields, std::string_view line, std::string_view id, std::uint64_t seq) {
  const std::string_view type = fields.shape == EntryShape::other ? fields.type : "\"message\"";
  std::string out;
  out.reserve(line.size() + 64);
  out.append("{\"seq\":").append(fmt::format_int(seq).c_str()).append(",\"id\":").append(id);
  out.append(",\"parentId\":").append(fields.parent_id).append(",\"type\":").append(type);
  out.append(",\"timestamp\":").append(time_json(fields));
  const bool role_from_type = fields.shape == EntryShape::flat && !fields.type.empty();
  if (role_from_type) out.append(",\"role\":").append(fields.role);
  for (const json::Member& member : json::members(fields.shape == EntryShape::nested ? fields.message : line)) {
    std::string held;
    const std::string_view name = name_of(member, held);
    if (taken_by_message(name) || (role_from_type && name == "role")) continue;
    append_member(out, member);
  }
  out += '}';
  return out;
}

// Returns the text of a message.
std::string spoken(std::string_view message) {
  const auto content = json::find(message, "content");
  return content ? text_of(*content) : json::string_at(message, "text").value_or("");
}

// A note is an entry {"type":"custom","customType":"note","data":{"text":"…","by":"…"}}.
std::optional<std::string> view_note(const EntryFields& fields, std::string_view line, std::string_view id,
                                     std::uint64_t seq) {
  if (fields.type != "\"custom\"" || text_at(line, "customType") != "note") return {};
  const std::string_view data = json::find(line, "data").value_or("{}");
  const std::string text = text_at(data, "text");
  if (text.empty()) return {};
  return fmt::format(R"({{"seq":{},"id":{},"timestamp":{},"role":"note","by":{},"text":{}}})", seq, id,
                     time_json(fields), json::quote(text_at(data, "by")), json::quote(text));
}

std::optional<std::string> view_chat(const EntryFields& fields, std::string_view line, std::string_view id,
                                     std::uint64_t seq, const ShownChange* change) {
  if (fields.shape == EntryShape::other) return view_note(fields, line, id, seq);
  if (fields.shape != EntryShape::nested && fields.shape != EntryShape::flat) return {};
  const std::string_view message = fields.shape == EntryShape::nested ? fields.message : line;
  const std::string role = fields.shape == EntryShape::nested ? json::string_at(message, "role").value_or("")
                                                              : json::as_string(fields.role).value_or("");
  if (role != "user" && role != "assistant") return {};
  const bool edited = change != nullptr && !change->edit.empty();
  const std::string text = edited ? edited_text(*change) : spoken(message);
  const std::string attachments = context::attachments_in(message);
  if (text.empty() && attachments.empty()) return {};
  const auto from = json::find(message, "from");
  std::string out = fmt::format(R"({{"seq":{},"id":{},"timestamp":{},"role":"{}",)", seq, id, time_json(fields), role);
  if (from) out.append("\"from\":").append(*from).append(",");
  if (change != nullptr && change->deleted) {
    out += R"("deleted":true)";
  } else {
    out.append("\"text\":").append(json::quote(text)).append(edited ? ",\"edited\":true" : "");
    if (role == "assistant" && json::string_at(message, "state") == "interrupted") out += R"(,"interrupted":true)";
    if (!attachments.empty()) out.append(",\"attachments\":").append(attachments);
  }
  return out.append(change == nullptr ? "" : reactions_member(*change)).append("}");
}

}  // namespace

std::string text_of(std::string_view content, std::size_t enough) {
  if (auto text = json::as_string(content)) return *text;
  std::string all;
  if (!is_array(content)) return all;
  for (const std::string_view part : json::elements(content)) {
    if (!is_object(part) || json::string_at(part, "type") != "text") continue;
    const auto text = json::string_at(part, "text");
    if (!text || text->empty()) continue;
    if (!all.empty()) all += '\n';
    all += *text;
    if (all.size() >= enough) break;
  }
  return all;
}

std::string with_text(std::string_view content, std::string_view text) {
  const std::string said_part = R"({"type":"text","text":)" + json::quote(text) + "}";
  if (!is_array(content)) return text.empty() ? "" : json::quote(text);
  std::string out = "[";
  bool said = text.empty();
  for (const std::string_view part : json::elements(content)) {
    const bool is_text = is_object(part) && json::string_at(part, "type") == "text";
    if (is_text && std::exchange(said, true)) continue;
    if (out.size() > 1) out += ',';
    out += is_text ? said_part : json::compact(part);
  }
  if (!said) out.insert(1, said_part + (out.size() > 1 ? "," : ""));
  return out.size() == 1 ? "" : out + "]";
}

std::string derived_id(std::string_view line, std::uint64_t seq) {
  return fmt::format("{:08x}", store::crc32_of(line, store::crc32_of(std::to_string(seq))));
}

std::optional<std::string> view_entry(std::string_view line, std::uint64_t seq, View view, const ShownChange* change) {
  EntryFields fields = read_fields(line);
  if (fields.shape == EntryShape::unreadable) {
    if (view == View::chat) return {};
    return view_damage(line, seq, view);
  }
  // Derived from the bytes as they are stored.
  const std::string derived = fields.id.empty() ? '"' + derived_id(line, seq) + '"' : std::string();
  std::string held;
  const std::string_view sent = view == View::raw ? store::as_utf8(line, held) : json::as_sent(line, held);
  if (sent.data() != line.data()) {
    line = sent;
    fields = read_fields(line);
  }
  if (view == View::raw) return fmt::format(R"({{"seq":{},"line":{}}})", seq, line);
  const std::string_view id = derived.empty() ? fields.id : derived;
  if (view == View::chat) return view_chat(fields, line, id, seq, change);
  return view_full(fields, line, id, seq);
}

std::string entry_type(std::string_view line) {
  const EntryFields fields = read_fields(line);
  if (fields.shape == EntryShape::unreadable) return "unreadable";
  return fields.shape == EntryShape::other ? json::as_string(fields.type).value_or("") : "message";
}

std::string entry_id(std::string_view line, std::uint64_t seq) { return entry_id(read_fields(line), line, seq); }

std::string entry_id(const EntryFields& fields, std::string_view line, std::uint64_t seq) {
  if (fields.shape == EntryShape::unreadable || fields.id.empty()) return derived_id(line, seq);
  std::string id = json::as_string(fields.id).value_or("");
  return store::invalid_utf8(id) ? store::replace_invalid_utf8(id) : id;
}

}  // namespace sessiond::transcripts
