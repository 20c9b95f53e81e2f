#include "policy/context/sendable.hpp"

#include <fmt/format.h>

#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

std::string text_part(std::string_view text) {
  return fmt::format(R"({{"type":"text","text":{}}})", json::quote(std::string(text)));
}

// The content of a result, without blank text.
std::string mended_result(std::string_view content) {
  if (is_blank(content)) return content.starts_with('[') ? "[" + text_part(no_output) + "]" : json::quote(no_output);
  std::string out;
  for (const std::string_view part : json::elements(content))
    if (!is_blank_text(part)) out.append(out.empty() ? "[" : ",").append(part);
  return out + "]";
}

}  // namespace

std::string mended(const Entry& entry) {
  const auto with = [&entry](const std::string& content) {
    return json::apply(entry.message, {.set = {{"content", content}}});
  };
  const auto said = json::find(entry.message, "text");
  if (entry.content.empty() && said && !is_blank(*said)) return with(std::string(*said));
  if (entry.role == Role::tool && entry.results.front().part.empty()) return with(mended_result(entry.content));
  if (entry.content.starts_with('[')) {
    std::string out = "[";
    auto result = entry.results.begin();
    for (const std::string_view part : json::elements(entry.content)) {
      if (is_blank_text(part)) continue;
      if (out.size() > 1) out += ',';
      if (result == entry.results.end() || result->part.data() != part.data()) {
        out += part;
        continue;
      }
      const std::string_view content = result++->content;
      const bool stays = !is_blank(content) &&
                         (!content.starts_with('[') || std::ranges::none_of(json::elements(content), is_blank_text));
      out += stays ? std::string(part) : json::apply(part, {.set = {{"content", mended_result(content)}}});
    }
    if (out.size() > 1) return with(out + "]");
  }
  if (!entry.calls.empty()) return with("null");  // OpenAI's: the calls are a member of their own
  const std::string names = names_of_attachments(json::find(entry.message, "attachments").value_or("[]"));
  return with(entry.content.starts_with('"') ? json::quote(names) : "[" + text_part(names) + "]");
}

}  // namespace sessiond::context
