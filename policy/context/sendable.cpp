#include "policy/context/sendable.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

std::string text_part(std::string_view text) {
  return fmt::format(R"({{"type":"text","text":{}}})", json::quote(std::string(text)));
}

// Returns the content of a result without blank text.
std::string mended_result(std::string_view content) {
  if (is_blank(content)) return content.starts_with('[') ? "[" + text_part(no_output) + "]" : json::quote(no_output);
  if (!content.starts_with('[')) return std::string(content);
  return json::change_elements(content, [](std::string_view part) {
    return is_blank_text(part) ? std::nullopt : std::optional<std::string>(part);
  });
}

// Returns a part as it can be sent; nothing if it is blank. `is_result`: it is the result of a call.
std::optional<std::string> mended_part(std::string_view part, bool is_result) {
  if (is_blank_text(part)) return std::nullopt;
  if (!is_result) return std::string(part);
  const std::string_view content = json::find(part, "content").value_or("");
  std::string mended = mended_result(content);
  return mended == content ? std::string(part) : json::apply(part, {.set = {{"content", std::move(mended)}}});
}

// Returns a content that begins with a mark of who has written it.
std::string marked(std::string_view content, const std::string& mark) {
  if (content.starts_with('"')) return json::quote(mark + json::as_string(content).value_or(""));
  bool is_marked = false;
  std::string parts = json::change_elements(content, [&](std::string_view part) {
    if (is_marked || !part.starts_with('{') || json::string_at(part, "type") != "text")
      return std::optional<std::string>(part);
    is_marked = true;
    const std::string text = mark + json::string_at(part, "text").value_or("");
    return std::optional(json::apply(part, {.set = {{"text", json::quote(text)}}}));
  });
  if (is_marked) return parts;
  return "[" + text_part(mark) + (parts == "[]" ? "" : ",") + parts.substr(1);
}

}  // namespace

std::string mended(const Entry& entry) {
  const auto with = [&entry](std::string content) {
    if (const std::string mark = mark_of(entry); !mark.empty()) content = marked(content, mark);
    json::Edit edit{.set = {{"content", std::move(content)}}, .unset = {"text", "fromMe"}};
    if (!entry.author.empty()) {  // no model has said it
      edit.put_string("role", "user");
      for (const char* member : {"author", "api", "provider", "model", "usage", "stopReason"}) edit.remove(member);
    }
    return json::apply(entry.message, edit);
  };
  const auto said = json::find(entry.message, "text");
  if (entry.content.empty() && said && !is_blank(*said)) return with(std::string(*said));
  if (entry.role == Role::tool && entry.results.front().part.empty()) return with(mended_result(entry.content));
  if (entry.content.starts_with('[')) {
    auto result = entry.results.begin();
    std::string parts = json::change_elements(entry.content, [&](std::string_view part) {
      const bool is_result = result != entry.results.end() && result->part.data() == part.data();
      if (is_result) ++result;
      return mended_part(part, is_result);
    });
    if (parts != "[]") return with(std::move(parts));
  } else if (entry.fit == Fit::as_it_is) {
    return with(std::string(entry.content));
  }
  if (!entry.calls.empty()) return with("null");  // OpenAI's: the calls are a member of their own
  const auto attachments = json::find(entry.message, "attachments");
  std::string names = attachments && attachments->starts_with('[') ? names_of_attachments(*attachments) : "";
  if (names.empty()) names = empty_message;
  return with(entry.content.starts_with('"') ? json::quote(names) : "[" + text_part(names) + "]");
}

}  // namespace sessiond::context
