#include "policy/context/row_edits.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "policy/media.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

// Returns a content with one text in place of all its text parts. Other parts stay or go.
std::string content_with(std::string_view content, std::string_view text, bool keeps_others) {
  if (!content.starts_with('[')) return json::quote(text);
  std::string out = fmt::format(R"([{{"type":"text","text":{}}})", json::quote(text));
  if (keeps_others)
    for (const std::string_view part : json::elements(content))
      if (!part.starts_with('{') || json::string_at(part, "type") != "text") out.append(",").append(part);
  return out + "]";
}

// Gives a row another message. Its status, and who said it, stay those of the message as it was.
void rewrite(Rows& rows, Row& row, const json::Edit& edit) {
  const std::string_view status = row.entry.status;
  const bool person = row.entry.person;
  rows.replace(row, json::apply(row.entry.message, edit));
  row.entry.status = status;
  row.entry.person = person;
}

std::string notice_of(std::string_view kind, std::string_view name) {
  return fmt::format("[Old {} content cleared{}{}]", kind, name.empty() ? "" : ": ", name);
}

// Puts notices in place of media, and counts them.
class ClearMedia {
 public:
  explicit ClearMedia(const std::function<bool(const Media&)>& clears) : clears_(clears) {}

  std::string in_content(std::string_view content) {
    return json::change_elements(content, [this](std::string_view part) { return std::optional(in_part(part)); });
  }
  std::string in_attachments(std::string_view attachments) {
    return json::change_elements(attachments, [this](std::string_view item) {
      const std::string_view kind = media_kind(item);
      json::ObjectWriter notice;
      notice.string("type", kind.empty() ? "file" : kind);
      if (const std::string name = name_of_media(item); !name.empty()) notice.string("name", name);
      notice.boolean("cleared", true);
      return std::optional(notice_or(item, kind.empty() ? "file" : kind, true, notice.text()));
    });
  }
  bool has_changed() const { return has_changed_; }

 private:
  std::string in_part(std::string_view part) {
    if (!part.starts_with('{')) return std::string(part);
    const std::string_view kind = media_kind(part);
    if (kind.empty()) return in_result(part);
    const std::string_view type =
        json::string_at(part, "type").value_or("").starts_with("input_") ? "input_text" : "text";
    json::ObjectWriter notice;
    notice.string("type", type);
    notice.string("text", notice_of(kind, kind == "file" ? name_of_media(part) : ""));
    return notice_or(part, kind, false, notice.text());
  }
  // A part that is a result has content of its own.
  std::string in_result(std::string_view part) {
    const auto content = json::find(part, "content");
    if (!content || !content->starts_with('[')) return std::string(part);
    const bool before = std::exchange(has_changed_, false);
    std::string changed = in_content(*content);
    const bool here = std::exchange(has_changed_, has_changed_ || before);
    return here ? json::apply(part, {.set = {{"content", std::move(changed)}}}) : std::string(part);
  }
  std::string notice_or(std::string_view media, std::string_view kind, bool attached, std::string notice) {
    const auto bytes = static_cast<std::int64_t>(policy::inlined_bytes(media));
    const Media one{
        .kind = kind, .attached = attached, .bytes = bytes, .saved = bytes - static_cast<std::int64_t>(notice.size())};
    if (!clears_(one)) return std::string(media);
    has_changed_ = true;
    return notice;
  }

  const std::function<bool(const Media&)>& clears_;
  bool has_changed_ = false;
};

}  // namespace

std::string text_of(std::string_view content) {
  if (auto text = json::as_string(content)) return *text;
  std::string all;
  if (!content.starts_with('[')) return all;
  for (const std::string_view part : json::elements(content)) {
    if (!part.starts_with('{') || json::string_at(part, "type") != "text") continue;
    const std::string text = json::string_at(part, "text").value_or("");
    if (text.empty()) continue;
    if (!all.empty()) all += '\n';
    all += text;
  }
  return all;
}

void set_texts(Rows& rows, Row& row, const std::vector<NewText>& changes) {
  const Entry& entry = row.entry;
  const auto content_of = [&entry](const NewText& change) {
    return content_with(entry.results[change.result].content, change.text, change.keeps_others);
  };
  std::string content;
  if (entry.results.front().part.empty()) {
    content = content_of(changes.front());
  } else {
    auto change = changes.begin();
    content = json::change_elements(entry.content, [&](std::string_view part) -> std::optional<std::string> {
      if (change == changes.end() || part.data() != entry.results[change->result].part.data()) return std::string(part);
      return json::apply(part, {.set = {{"content", content_of(*change++)}}});
    });
  }
  rewrite(rows, row, {.set = {{"content", content}}});
}

std::string said_in(std::string_view content) {
  if (auto text = json::as_string(content)) return *text;
  std::string all;
  if (!content.starts_with('[')) return all;
  for (const std::string_view part : json::elements(content)) {
    if (!part.starts_with('{') || !is_text(json::string_at(part, "type").value_or(""))) continue;
    if (!all.empty()) all += '\n';
    all += json::string_at(part, "text").value_or("");
  }
  return all;
}

void set_said(Rows& rows, Row& row, std::string_view text) {
  std::string content = json::quote(text);
  if (row.entry.content.starts_with('[')) {
    bool is_put = false;
    content = json::change_elements(row.entry.content, [&](std::string_view part) -> std::optional<std::string> {
      const std::string type = part.starts_with('{') ? json::string_at(part, "type").value_or("") : "";
      if (is_thinking(type)) return std::nullopt;
      if (!is_text(type)) return std::string(part);
      if (std::exchange(is_put, true)) return std::nullopt;
      return json::apply(part, {.set = {{"text", json::quote(text)}}});
    });
  }
  rewrite(rows, row, {.set = {{"content", content}}});
}

void clear_media(Rows& rows, Row& row, const std::function<bool(const Media&)>& clears) {
  const Entry& entry = row.entry;
  if (entry.files == 0 && (entry.results.empty() || entry.results.front().part.empty())) return;
  ClearMedia clear(clears);
  json::Edit edit;
  if (entry.content.starts_with('[')) edit.set.push_back({"content", clear.in_content(entry.content)});
  if (const auto attachments = json::find(entry.message, "attachments"); attachments && attachments->starts_with('['))
    edit.set.push_back({"attachments", clear.in_attachments(*attachments)});
  if (clear.has_changed()) rewrite(rows, row, edit);
}

std::string ToolNames::of(const ToolResult& result) {
  if (!result.name.empty()) return result.name;
  if (names_.empty())
    for (const Row& row : rows_)
      for (const ToolCall& call : row.entry.calls) names_[call.id] = call.name;
  return names_[result.call_id];
}

}  // namespace sessiond::context
