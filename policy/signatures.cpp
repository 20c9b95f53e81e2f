#include "policy/signatures.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "store/json/raw_json.hpp"

namespace sessiond::policy {
namespace {

bool drop_signatures(std::string_view value, WithoutSignatures& to);

// Members that hold what a tool was called with or has answered: the user's data, whatever its names.
bool is_data_of_tool(std::string_view name, bool in_call) {
  return name == "details" || (in_call && (name == "arguments" || name == "args" || name == "input"));
}

bool drop_in_object(std::string_view object, WithoutSignatures& to) {
  std::string& out = to.text;
  const bool in_call = json::find(object, "name").has_value();
  bool dropped = false;
  bool first = true;
  out += '{';
  for (const json::Member& member : json::members(object)) {
    std::string held;
    const std::string_view name = json::name_of(member, held);
    if (is_signature(name)) {
      dropped = true;
      continue;
    }
    out += std::exchange(first, false) ? "\"" : ",\"";
    out.append(member.name).append("\":");
    if (is_data_of_tool(name, in_call)) {
      out += member.value;
      continue;
    }
    const std::size_t begin = out.size();
    if (!drop_signatures(member.value, to)) continue;
    dropped = true;
    std::string stored = out.substr(begin);
    if (name == "content" && stored.starts_with("[{"))
      to.contents.push_back({.stored = json::compact(stored), .sent = std::string(member.value)});
  }
  out += '}';
  return dropped;
}

bool drop_signatures(std::string_view value, WithoutSignatures& to) {
  std::string& out = to.text;
  const json::Kind kind = json::kind(value);
  if (kind == json::Kind::object && may_hold_signature(value)) return drop_in_object(value, to);
  if (kind != json::Kind::array || !may_hold_signature(value)) {
    out += value;
    return false;
  }
  bool dropped = false;
  bool first = true;
  out += '[';
  for (const std::string_view element : json::elements(value)) {
    if (json::kind(element) == json::Kind::object && json::string_at(element, "type") == "redacted_thinking") {
      dropped = true;
      continue;
    }
    if (!std::exchange(first, false)) out += ',';
    dropped = drop_signatures(element, to) || dropped;
  }
  out += ']';
  return dropped;
}

}  // namespace

bool is_signature(std::string_view member) {
  constexpr std::array<std::string_view, 4> names{"signature", "thinkingSignature", "thoughtSignature",
                                                  "encrypted_content"};
  return std::ranges::find(names, member) != names.end();
}

bool may_hold_signature(std::string_view json) {
  return json.contains("ignature\"") || json.contains("encrypted_content\"") || json.contains("redacted_thinking\"");
}

WithoutSignatures without_signatures(std::string_view json) {
  WithoutSignatures out;
  if (!may_hold_signature(json)) return out;
  out.text.reserve(json.size());
  if (!drop_signatures(json, out)) out.text.clear();
  return out;
}

}  // namespace sessiond::policy
