#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/number.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::size_t head_bytes = 200;  // approximate size of the members of a line or a Message beside its body

void append_number(std::string& out, std::int64_t number) {
  const fmt::format_int digits(number);
  out.append(digits.data(), digits.size());
}

// Appends id and parentId, which both forms have.
void append_ids(std::string& out, std::string_view id, std::string_view parent_id) {
  out += "\"id\":";
  json::append_quoted(out, id);
  out += ",\"parentId\":";
  if (parent_id.empty()) {
    out += "null";
  } else {
    json::append_quoted(out, parent_id);
  }
}

// Appends a Message up to its timestamp. What follows begins with a comma.
void append_message_head(std::string& out, std::uint64_t seq, std::string_view ids, std::string_view type,
                         std::int64_t time) {
  out += "{\"seq\":";
  append_number(out, static_cast<std::int64_t>(seq));
  out.append(",").append(ids).append(",\"type\":").append(type).append(",\"timestamp\":");
  append_number(out, time);
}

// Returns the text between the braces of a compact object.
std::string_view inside(std::string_view object) { return object.substr(1, object.size() - 2); }

// Which members of a message object collide with the Message's own.
struct Collisions {
  std::size_t count = 0;
  bool has_time = false;       // it has a timestamp of its own
  bool own_time_last = false;  // its timestamp is its last member and equals the entry's, byte for byte
  std::size_t end = 1;         // where the last member but one ends
};

Collisions collisions_of(std::string_view body, std::string_view time) {
  Collisions found;
  std::size_t end = 1;
  for (const json::Member& member : json::members(body)) {
    found.own_time_last = member.name == "timestamp" && member.value == time;
    found.end = end;
    end = static_cast<std::size_t>(member.value.data() + member.value.size() - body.data());
    if (!taken_by_message(member)) continue;
    ++found.count;
    if (named(member, "timestamp")) found.has_time = true;
  }
  return found;
}

// Returns the timestamp that is the message's last member (ms, up to the year 9999).
std::optional<std::int64_t> own_time(const NewEntry& entry) {
  if (entry.type != "message" || entry.plain) return {};
  constexpr std::string_view name = "\"timestamp\":";
  constexpr std::size_t longest = name.size() + 20;  // with the digits of a number and the brace
  const std::string_view body = entry.body;
  const std::string_view end = body.substr(body.size() - std::min(body.size(), longest));
  const std::size_t at = end.rfind(name);
  if (at == std::string_view::npos) return {};
  const std::string_view digits = end.substr(at + name.size(), end.size() - 1 - (at + name.size()));
  const auto time = store::parse_number<std::int64_t>(digits);
  const bool fits = time && *time >= 0 && *time <= store::last_time_ms && store::decimal(*time) == digits;
  return fits ? time : std::nullopt;
}

Written write_message(const NewEntry& entry, std::string_view ids, std::uint64_t seq, std::int64_t time) {
  const std::string time_text = store::decimal(time);
  const Collisions collisions = entry.plain ? Collisions{} : collisions_of(entry.body, time_text);
  Written written;
  std::string& line = written.line;
  line.reserve(entry.body.size() + entry.extra.size() + head_bytes);
  line.append("{\"type\":\"message\",").append(ids).append(",\"timestamp\":\"").append(iso_time(time));
  line.append("\",\"message\":{").append(inside(entry.body));
  if (!collisions.has_time && entry.stamp) {
    if (entry.body.size() > 2) line += ',';
    line.append("\"timestamp\":").append(time_text);
  }
  line += '}';
  if (!entry.extra.empty()) line.append(",").append(entry.extra);
  line += "}\n";

  std::string& message = written.message;
  message.reserve(entry.body.size() + head_bytes);
  append_message_head(message, seq, ids, "\"message\"", time);
  const bool only_own_time = collisions.count == 1 && collisions.own_time_last;
  if (collisions.count == 0 || only_own_time) {
    const std::size_t end = only_own_time ? collisions.end : entry.body.size() - 1;
    if (end > 1) message.append(",").append(entry.body, 1, end - 1);
  } else {
    for (const json::Member& member : json::members(entry.body))
      if (!taken_by_message(member)) append_member(message, member);
    written.exact = false;
  }
  message += '}';
  written.unstamped = !collisions.has_time && !entry.stamp;
  if (!entry.extra.empty()) written.exact = false;
  return written;
}

Written write_other(const NewEntry& entry, std::string_view ids, std::uint64_t seq, std::int64_t time) {
  const std::string type = json::quote(entry.type);
  Written written;
  std::string& line = written.line;
  line.reserve(entry.body.size() + head_bytes);
  line.append("{\"type\":").append(type).append(",").append(ids);
  line.append(",\"timestamp\":\"").append(iso_time(time)).append("\"");
  if (!entry.body.empty()) line.append(",").append(entry.body);
  line += '}';

  std::string& message = written.message;
  message.reserve(entry.body.size() + head_bytes);
  append_message_head(message, seq, ids, type, time);
  std::size_t own = 4;  // type, id, parentId, timestamp
  for (const json::Member& member : json::members(line)) {
    if (own > 0) {
      --own;
    } else if (taken_by_message(member)) {
      written.exact = false;
    } else {
      append_member(message, member);
    }
  }
  message += '}';
  line += '\n';
  return written;
}

}  // namespace

Written write_entry(const NewEntry& entry, std::string_view id, std::string_view parent_id, std::uint64_t seq,
                    std::int64_t now) {
  std::string ids;
  ids.reserve(head_bytes);
  append_ids(ids, id, parent_id);
  const std::int64_t time = entry.time ? *entry.time : own_time(entry).value_or(now);
  return entry.type == "message" ? write_message(entry, ids, seq, time) : write_other(entry, ids, seq, time);
}

std::string line_of(std::string_view message, bool unstamped) {
  // Reads the Message's own members in the order in which write_entry writes them.
  std::array<std::string_view, 5> own;
  auto member = json::members(message).begin();
  for (std::string_view& value : own) {
    if (member == std::default_sentinel) return {};  // we did not make this Message
    value = member->value;
    ++member;
  }
  const auto& [seq, id, parent_id, type, time] = own;
  const auto ms = json::as_int(time);
  const std::size_t close = message.rfind('}');
  if (!ms || close == std::string_view::npos) return {};
  const auto rest_begin = static_cast<std::size_t>(time.data() + time.size() - message.data());
  if (rest_begin > close) return {};
  const std::string_view rest = message.substr(rest_begin, close - rest_begin);  // "", or begins with a comma

  std::string line;
  line.reserve(message.size() + head_bytes);
  line.append("{\"type\":").append(type).append(",\"id\":").append(id).append(",\"parentId\":").append(parent_id);
  line.append(",\"timestamp\":\"").append(iso_time(*ms)).append("\"");
  if (type == "\"message\"") {
    line += ",\"message\":{";
    if (!rest.empty()) line.append(rest.substr(1));
    if (!unstamped) line.append(rest.empty() ? "" : ",").append("\"timestamp\":").append(time);
    line += '}';
  } else {
    line.append(rest);
  }
  line += "}\n";
  return line;
}

std::string header_line(std::string_view session_id, std::int64_t now, std::string_view cwd,
                        std::string_view parent_session) {
  json::ObjectWriter header;
  header.string("type", "session");
  header.integer("version", 3);
  header.string("id", session_id);
  header.string("timestamp", iso_time(now));
  header.string("cwd", cwd);
  if (!parent_session.empty()) header.string("parentSession", parent_session);
  return header.text() + '\n';
}

}  // namespace sessiond::transcripts
