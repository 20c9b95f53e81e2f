#include "daemon/api/bridge_fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "policy/secret_scan.hpp"
#include "store/names.hpp"
#include "store/utf8.hpp"

namespace sessiond::api {

std::optional<std::string> checked_topic(Fields& fields) {
  auto topic = fields.string("topic");
  if (!topic) return {};
  if (auto fine = store::check_topic(*topic); !fine) fields.fault("topic", fine.error().detail);
  return topic;
}

void check_content(Fields& fields, const std::optional<std::string>& text, std::optional<std::string_view> content,
                   std::string& into) {
  if (text && content) fields.fault("content", "and text exclude each other");
  if (!content || *content == "null") return;
  if (json::kind(*content) != json::Kind::array && json::kind(*content) != json::Kind::string)
    fields.fault("content", "must be an array of parts or a string");
  if (*content == "[]" || *content == "\"\"") fields.fault("content", "is empty");
  into = json::compact(*content);
}

void check_not_empty(Fields& fields, const std::optional<std::string>& text, std::string_view other, bool has_other) {
  if (has_other || fields.has("content") || (text ? !text->empty() : fields.has("text"))) return;
  fields.fault("text", text ? "is empty" : fmt::format("text, content or {} is needed", other));
}

decide::Person person_of(Fields& fields, std::string_view name) {
  constexpr std::size_t longest = 4096;
  decide::Person person;
  const auto raw = fields.raw(name);
  if (!raw || *raw == "null") return person;
  if (auto text = json::as_string(*raw)) {
    if (text->size() > longest) fields.fault(name, fmt::format("is longer than {} bytes", longest));
    person.id = std::move(*text);
    person.json = json::quote(person.id);
    return person;
  }
  if (json::kind(*raw) != json::Kind::object) {
    fields.fault(name, "must be a string or an object");
    return person;
  }
  json::ObjectWriter shown;
  for (const json::Member& member : json::members(*raw)) {
    const std::string field = json::unescape(member.name);
    std::string* const into = field == "id"         ? &person.id
                              : field == "name"     ? &person.name
                              : field == "username" ? &person.username
                                                    : nullptr;
    const auto text = json::as_string(member.value);
    if (into == nullptr || !text || text->size() > longest) {
      fields.fault(name, fmt::format("has id, name and username, each a string of at most {} bytes", longest));
      return {};
    }
    *into = *text;
    shown.string(field, *text);
  }
  if (person.id.empty()) fields.fault(name, "needs an id");
  person.has_id = true;
  person.json = shown.text();
  return person;
}

std::string person_name(Fields& fields) {
  constexpr std::size_t longest_name = 100;  // code points
  const std::string name = fields.string("name", 4 * longest_name).value_or("");
  if (store::count_code_points(name) > longest_name)
    fields.fault("name", fmt::format("has more than {} characters", longest_name));
  if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
    fields.fault("name", "has control characters");
  return std::string(store::trim(name));
}

std::string agent_of(Fields& fields) {
  const std::string named = fields.string("agent").value_or("main");
  auto agent = store::normalize_agent_id(named);
  if (agent && !policy::find_secret(named)) return std::move(*agent);
  fields.fault("agent", "is not a valid agent id");
  return {};
}

}  // namespace sessiond::api
