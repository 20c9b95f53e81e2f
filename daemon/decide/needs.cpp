#include "daemon/decide/needs.hpp"

#include "store/json/raw_json.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::decide {
namespace {

// Returns what waits in the other topics, with a comma behind each.
std::string others(std::string_view needs, const std::optional<std::string>& topic) {
  std::string out;
  if (json::kind(needs) != json::Kind::array) return out;
  for (const std::string_view need : json::elements(needs))
    if (json::kind(need) == json::Kind::object && json::string_at(need, "topic") != topic) out.append(need).append(",");
  return out;
}

}  // namespace

std::string with_need(std::string_view needs, const std::optional<std::string>& topic, std::uint64_t seq,
                      std::int64_t since) {
  if (json::kind(needs) == json::Kind::array)
    for (const std::string_view need : json::elements(needs))
      if (json::kind(need) == json::Kind::object && json::string_at(need, "topic") == topic) return std::string(needs);
  json::ObjectWriter need;
  need.integer("seq", static_cast<std::int64_t>(seq));
  need.string_or_null("topic", topic);
  need.integer("since", since);
  return "[" + others(needs, topic) + need.text() + "]";
}

std::string without_need(std::string_view needs, const std::optional<std::string>& topic) {
  std::string rest = others(needs, topic);
  if (rest.empty()) return rest;
  rest.back() = ']';
  return "[" + rest;
}

std::string after_deletion(std::string_view needs, const NeedsChange& change, std::int64_t since) {
  if (json::kind(needs) != json::Kind::array) return std::string(needs);
  for (const std::string_view need : json::elements(needs)) {
    if (json::kind(need) != json::Kind::object || json::string_at(need, "topic") != change.topic ||
        json::int_at(need, "seq") != static_cast<std::int64_t>(change.deleted))
      continue;
    const std::string rest = without_need(needs, change.topic);
    return change.next ? with_need(rest, change.topic, *change.next, since) : rest;
  }
  return std::string(needs);
}

}  // namespace sessiond::decide
