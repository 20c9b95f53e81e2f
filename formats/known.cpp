#include "formats/known.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "formats/document.hpp"
#include "formats/json_lines.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::formats {
namespace {

// "a, b and c".
std::string listed(std::initializer_list<std::string_view> names) {
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), *(names.end() - 1));
}

std::optional<std::string_view> format_of_object(std::string_view document) {
  const json::Index members(document);
  const auto is = [&members](std::string_view name, json::Kind kind) {
    const auto value = members.find(name);
    return value && json::kind(*value) == kind;
  };
  if (const auto metadata = members.find("metadata");
      metadata && json::kind(*metadata) == json::Kind::object && json::find(*metadata, "id"))
    return "json";
  if (members.string_at("type") == "session") return "jsonl";
  if (members.find("id") && is("messages", json::Kind::array))
    return members.find("workerId") || members.find("workspaceId") ? "manager" : "robota";
  if (is("sessions", json::Kind::object)) return "index";
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> format_of(std::string_view text) {
  if (is_utf16(text)) return "json";
  const std::string_view document = store::trim(documents_in(text).front().text);
  if (!document.starts_with('{')) return std::nullopt;
  return check_document(document) ? format_of_object(document) : "json";
}

std::string not_known() {
  return fmt::format("not a known format; known are {}, and with `sessiond import --from` {}", listed(body_formats),
                     listed(foreign_programs));
}

Problem naming_known(Problem problem, std::string_view document) {
  if (format_of(document)) return problem;
  const std::string known = fmt::format(" ({})", not_known());
  problem.detail += known;
  for (Fault& fault : problem.errors) fault.detail += known;
  return problem;
}

}  // namespace sessiond::formats
