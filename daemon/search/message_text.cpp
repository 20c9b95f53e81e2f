#include "daemon/search/message_text.hpp"

#include <algorithm>
#include <array>

#include "daemon/search/query.hpp"
#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::search {
namespace {

constexpr std::array<std::string_view, 6> role_names{"user", "assistant", "tool", "name", "label", "note"};

// The roles that a transcript may name, as search names them.
std::optional<Role> spoken_by(std::string_view role) {
  if (role == "user" || role == "human") return Role::user;
  if (role == "assistant" || role == "model") return Role::assistant;
  if (role == "tool" || role == "toolResult" || role == "function") return Role::tool;
  return {};
}

// Appends the text of a content: the string, or its text parts and results of tools, with newlines between.
void add_text(std::string_view content, std::string& out, int depth = 0) {
  if (content.empty()) return;
  const auto add = [&out](std::string_view text) {
    if (text.empty()) return;
    if (!out.empty()) out += '\n';
    out += text;
  };
  if (json::kind(content) == json::Kind::string) return add(json::as_string(content).value_or(""));
  if (json::kind(content) != json::Kind::array || depth > 2) return;
  for (const std::string_view part : json::elements(content)) {
    if (json::kind(part) != json::Kind::object) continue;
    const std::string type = json::string_at(part, "type").value_or("");
    if (type == "text" || type == "input_text" || type == "output_text")
      add(json::string_at(part, "text").value_or(""));
    if (type == "tool_result") add_text(json::find(part, "content").value_or(""), out, depth + 1);
  }
}

}  // namespace

std::string_view name(Role role) { return role_names.at(static_cast<std::size_t>(role)); }

std::optional<Role> role_of(std::string_view name) {
  const auto* const found = std::ranges::find(role_names, name);
  if (found == role_names.end()) return {};
  return static_cast<Role>(found - role_names.begin());
}

std::string findable(std::string text, std::size_t most_bytes) {
  text.resize(store::utf8_prefix(text, most_bytes));
  std::ranges::replace(text, '\0', ' ');
  return text;
}

MessageText read_message(std::string_view message, std::size_t most_bytes) {
  MessageText out;
  const json::Index members(message);
  out.id = members.string_at("id").value_or("");
  out.time = members.int_at("timestamp");
  const std::string type = members.string_at("type").value_or("");
  std::string text;
  if (type == "message") {
    out.role = spoken_by(members.string_at("role").value_or(""));
    if (!out.role) return out;
    out.from = members.find("from").value_or("");
    add_text(members.find("content").value_or(""), text);
  } else if (type == "custom" && members.string_at("customType") == "note") {
    const std::string_view note = members.find("data").value_or("");
    if (json::kind(note) != json::Kind::object) return out;
    out.role = Role::note;
    out.from = json::find(note, "by").value_or("");
    text = json::string_at(note, "text").value_or("");
  } else {
    return out;
  }
  out.text = findable(std::move(text), most_bytes);
  if (out.text.empty()) out.role.reset();
  return out;
}

std::string names_of(std::string_view from) {
  std::string names;
  const auto add = [&names](std::string_view name) {
    if (name.empty()) return;
    if (names.empty()) names = "\n";
    names += folded(name) + '\n';
  };
  if (from.empty()) return names;
  if (const auto text = json::as_string(from)) {
    add(*text);
  } else if (json::kind(from) == json::Kind::object) {
    for (const std::string_view name : {"id", "name", "username"}) add(json::string_at(from, name).value_or(""));
  }
  return names;
}

std::optional<MessageChange> read_change(std::string_view data, bool deleted, std::size_t most_bytes) {
  if (json::kind(data) != json::Kind::object) return {};
  const auto target = json::find(data, "target");
  if (!target || json::kind(*target) != json::Kind::object) return {};
  const auto session_id = json::string_at(*target, "sessionId");
  const auto seq = json::int_at(*target, "seq");
  if (!session_id || !seq || *seq < 0) return {};
  MessageChange change{.session_id = *session_id,
                       .topic = json::string_at(*target, "topic").value_or(""),
                       .entry = json::string_at(*target, "id").value_or(""),
                       .seq = static_cast<std::uint64_t>(*seq),
                       .deleted = deleted};
  if (deleted) return change;
  std::string text = json::string_at(data, "text").value_or("");
  if (const auto content = json::find(data, "content"); content && text.empty()) add_text(*content, text);
  change.text = findable(std::move(text), most_bytes);
  return change;
}

}  // namespace sessiond::search
