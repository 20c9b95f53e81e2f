#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::transcripts {
namespace {

constexpr std::size_t longest_type = 64;
constexpr std::array<std::string_view, 5> short_roles = {"user", "assistant", "system", "tool", "toolResult"};

std::string at(std::string_view pointer, std::string_view name) {
  return std::string(pointer).append("/").append(name);
}

Result<std::string> read_id(std::string_view value, std::string pointer) {
  std::string id = json::as_string(value).value_or("");
  if (store::valid_entry_id(id)) return id;
  const std::string detail = "must be 1 to 128 of A-Z a-z 0-9 . _ : -";
  Problem problem{.code = Code::invalid_id, .detail = fmt::format("{}: {}", pointer, detail)};
  problem.errors.push_back({std::move(pointer), detail});
  return std::unexpected(std::move(problem));
}

Result<std::int64_t> read_time(std::string_view value, std::string pointer) {
  const auto text = json::as_string(value);
  const auto ms = text ? parse_iso_time(*text) : json::as_int(value);
  if (ms && *ms >= 0 && *ms <= store::last_time_ms) return *ms;
  return fail_at(std::move(pointer), "must be an ISO 8601 time or milliseconds since 1970, up to the year 9999");
}

Result<void> read_head(const EntryMembers& given, std::string_view pointer, NewEntry& parsed) {
  if (!given.id.empty()) {
    TRY(parsed.id, read_id(given.id, at(pointer, "id")));
  }
  if (given.parent_id == "null") {
    parsed.parent_id = "";
  } else if (!given.parent_id.empty()) {
    TRY(parsed.parent_id, read_id(given.parent_id, at(pointer, "parentId")));
  }
  if (!given.timestamp.empty()) {
    TRY(parsed.time, read_time(given.timestamp, at(pointer, "timestamp")));
  }
  return {};
}

bool calls_tools(std::string_view message) {
  const auto calls = json::find(message, "tool_calls");
  return calls && is_array(*calls) && *calls != "[]";
}

// Checks the content of a message that stands at `place`.
Result<void> check_content(std::string_view content, std::string_view message, std::string_view place) {
  if (is_string(content)) return {};
  if (content == "null" && calls_tools(message)) return {};  // OpenAI's
  if (!is_array(content)) return fail_at(at(place, "content"), "must be a string or an array of objects");
  std::size_t index = 0;
  for (const std::string_view part : json::elements(content)) {
    if (!is_object(part)) return fail_at(fmt::format("{}/content/{}", place, index), "must be an object");
    ++index;
  }
  return {};
}

// An entry that is read: its members, and where it stands in the body.
struct Given : EntryMembers {
  std::span<const json::Member> all{};
  std::string_view pointer{};
};

Result<void> read_full_message(const Given& given, NewEntry& parsed) {
  const std::string place = at(given.pointer, "message");
  if (!is_object(given.message)) return fail_at(place, "must be an object");
  const std::string_view message = given.message;
  const std::vector<json::Member> all = json::all_members(message);
  const EntryMembers inner = entry_members(all);
  parsed.role = json::as_string(inner.role).value_or("");
  if (parsed.role.empty()) return fail_at(at(place, "role"), "must be a non-empty string");
  if (!inner.content.empty()) {
    TRY(check_content(inner.content, message, place));
  } else {
    const bool says_something = std::ranges::any_of(
        all, [](const json::Member& member) { return !named(member, "role") && !named(member, "timestamp"); });
    if (!says_something) return fail_at(at(place, "content"), "must be a string or an array of objects");
  }
  if (!inner.timestamp.empty() && json::kind(inner.timestamp) == json::Kind::number) {
    TRY(read_time(inner.timestamp, at(place, "timestamp")));
  }
  parsed.body = message;
  for (const json::Member& member : given.all) {
    if (belongs_to_entry(member) || named(member, "message")) continue;
    if (!parsed.extra.empty()) parsed.extra += ',';
    parsed.extra += fmt::format("\"{}\":{}", member.name, member.value);
  }
  parsed.type = "message";
  if (is_object(inner.usage)) parsed.usage = inner.usage;
  parsed.names_dropped = !inner.dropped.empty();
  return {};
}

// Reads {"role",…} and {"type":"user",…}: all members but the entry's own become the message.
Result<void> read_short_message(std::string_view entry, const Given& given, std::string_view role, NewEntry& parsed) {
  const std::string_view pointer = given.pointer;
  std::string name = json::as_string(role).value_or("");
  if (name.empty()) return fail_at(at(pointer, "role"), "must be a non-empty string");
  if (!given.text.empty() && !given.content.empty())
    return fail_at(at(pointer, "text"), "text and content exclude each other");
  parsed.body.reserve(entry.size() + 48);
  parsed.body.append("{\"role\":").append(role);
  if (!given.text.empty()) {
    if (std::ranges::find(short_roles, name) == short_roles.end())
      return fail_at(at(pointer, "role"), fmt::format("must be one of {}", fmt::join(short_roles, ", ")));
    if (!is_string(given.text)) return fail_at(at(pointer, "text"), "must be a string");
    if (given.text.size() == 2) return fail_at(at(pointer, "text"), "is empty");
    parsed.body.append(R"(,"content":[{"type":"text","text":)").append(given.text).append("}]");
  } else if (!given.content.empty()) {
    TRY(check_content(given.content, entry, pointer));
    parsed.body.append(",\"content\":").append(given.content);
  } else {
    return fail_at(at(pointer, "text"), "is missing; give text or content");
  }
  parsed.plain = true;
  for (const json::Member& member : given.all) {
    const bool placed = named(member, "role") || named(member, "content") || named(member, "text");
    if (placed || belongs_to_entry(member)) continue;
    append_member(parsed.body, member);
    parsed.plain = parsed.plain && !named(member, "seq");
  }
  parsed.body += '}';
  parsed.stamp = true;
  parsed.type = "message";
  parsed.role = std::move(name);
  if (is_object(given.usage)) parsed.usage = given.usage;
  parsed.names_dropped = !given.dropped.empty();
  return {};
}

Result<void> read_other(const Given& given, std::string type, NewEntry& parsed) {
  const std::string_view pointer = given.pointer;
  const bool printable =
      std::ranges::all_of(type, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; });
  if (type.empty() || type.size() > longest_type || !printable)
    return fail_at(at(pointer, "type"), fmt::format("must be a name of 1 to {} bytes", longest_type));
  if (type == "session") return fail_at(at(pointer, "type"), "must not be session: that is the header");
  if (type == "unreadable")
    return fail_at(at(pointer, "type"), "must not be unreadable: damaged lines are shown with it");
  parsed.type = std::move(type);
  for (const json::Member& member : given.all) {
    if (belongs_to_entry(member)) continue;
    if (!parsed.body.empty()) parsed.body += ',';
    parsed.body += fmt::format("\"{}\":{}", member.name, member.value);
  }
  return {};
}

Result<void> read_shape(std::string_view entry, const Given& given, NewEntry& parsed) {
  if (given.type.empty()) {
    if (given.role.empty()) return fail_at(at(given.pointer, "type"), "is missing; the short form has a role instead");
    return read_short_message(entry, given, given.role, parsed);
  }
  auto type = json::as_string(given.type);
  if (!type) return fail_at(at(given.pointer, "type"), "must be a string");
  if (*type == "message") return read_full_message(given, parsed);
  if ((*type == "user" || *type == "assistant") && !given.content.empty())
    return read_short_message(entry, given, given.type, parsed);
  return read_other(given, std::move(*type), parsed);
}

}  // namespace

Result<void> parse_entry_into(NewEntry& parsed, std::string_view value, std::string_view pointer) {
  assert(json::check(value));
  std::string held;
  const std::string_view entry = json::compacted(value, held);  // makes it one line
  if (!is_object(entry)) return fail_at(std::string(pointer), "must be an object");
  const std::vector<json::Member> all = json::all_members(entry);
  const Given given{entry_members(all), all, pointer};
  TRY(read_head(given, pointer, parsed));
  return read_shape(entry, given, parsed);
}

Result<NewEntry> parse_entry(std::string_view value, std::string_view pointer) {
  NewEntry parsed;
  TRY(parse_entry_into(parsed, value, pointer));
  return parsed;
}

void see(NewEntry& entry) {
  auto seen = std::make_shared<SeenEntry>();
  const bool is_message = entry.type == "message";
  seen->text = is_message ? entry.body : "{" + entry.body + "}";
  seen->entry = context::read_entry(entry.type, seen->text);
  const auto all = json::members(entry.body);
  entry.plain =
      entry.plain ||
      (is_message && std::ranges::none_of(all, [](const json::Member& member) { return taken_by_message(member); }));
  if (is_message) {
    seen->said = text_of(json::find(entry.body, "content").value_or("\"\""));
    seen->is_answer = is_answer(entry.body);
    seen->is_hint = is_hint(entry.body);
  }
  entry.seen = std::move(seen);
}

std::string said_in(const NewEntry& entry) {
  return entry.seen ? entry.seen->said : text_of(json::find(entry.body, "content").value_or("\"\""));
}

bool is_hint(std::string_view message) { return json::string_at(message, "audience") == "agent"; }

bool is_answer(std::string_view message) {
  const json::Index members(message);
  const auto state = members.string_at("state");
  if (members.string_at("role") != "assistant" || state == "interrupted" || state == "superseded") return false;
  return !text_of(members.find("content").value_or("\"\"")).empty();
}

NewEntry custom_entry(std::string_view custom_type, std::string_view data) {
  NewEntry entry{.type = "custom", .body = fmt::format(R"("customType":{},"data":{})", json::quote(custom_type), data)};
  if (context::is_run_note(custom_type)) return entry;
  auto seen = std::make_shared<SeenEntry>(SeenEntry{.text = "{" + entry.body + "}"});
  seen->entry.message = seen->text;  // all that is read of it
  entry.seen = std::move(seen);
  return entry;
}

bool is_of_daemon(const NewEntry& entry) {
  if (entry.type == "message") return false;
  return json::string_at("{" + entry.body + "}", "customType").value_or("").starts_with("sessiond.");
}

}  // namespace sessiond::transcripts
