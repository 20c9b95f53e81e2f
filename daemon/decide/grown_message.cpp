#include "daemon/decide/grown_message.hpp"

#include <fmt/format.h>

#include "policy/context/entry.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {
namespace {

std::string_view message_in(std::string_view entry) { return json::find(entry, "message").value_or("{}"); }

// The response of the model that an entry's message is of; "": none.
std::string response_of(std::string_view entry) {
  if (json::string_at(entry, "type") != "message") return {};
  const std::string_view message = message_in(entry);
  return json::string_at(message, "role") == "assistant" ? json::string_at(message, "responseId").value_or("") : "";
}

std::string_view content_of(std::string_view entry) { return json::find(message_in(entry), "content").value_or("[]"); }

}  // namespace

std::string part_id(std::string_view id, std::size_t number) { return fmt::format("{}.{}", id, number); }

bool is_part_of(std::string_view part, std::string_view first) {
  if (part.empty() || first.empty()) return false;
  const std::string response = response_of(first);
  return !response.empty() && response_of(part) == response;
}

std::optional<std::string> further_part(std::string_view message, const std::vector<std::string_view>& stored,
                                        std::string_view id, std::string_view parent) {
  const auto parts = json::elements(content_of(message));
  auto part = parts.begin();
  for (const std::string_view entry : stored) {
    if (!is_part_of(message, entry)) return {};
    for (const std::string_view there : json::elements(content_of(entry))) {
      if (part == parts.end() || !json::same(*part, there)) return {};
      ++part;
    }
  }
  if (part == parts.end()) return {};
  std::string content;
  for (; part != parts.end(); ++part) content.append(content.empty() ? "[" : ",").append(*part);
  json::Edit changed{.set = {{"content", content + "]"}}, .unset = {"usage"}};
  json::Edit edit;
  edit.put_string("id", id);
  edit.put_string("parentId", parent);
  edit.put("message", json::apply(message_in(message), changed));
  return json::apply(message, edit);
}

}  // namespace sessiond::decide
