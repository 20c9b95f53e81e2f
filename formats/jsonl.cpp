#include "formats/jsonl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "formats/document.hpp"
#include "formats/json_lines.hpp"
#include "formats/known.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

bool is_header(std::string_view line) {
  if (!line.contains("\"session\"")) return false;  // most
  return json::check(line, {.max_depth = json::foreign_depth}) && transcripts::is_object(store::trim(line)) &&
         json::string_at(line, "type") == "session";
}

// The objects on a line, if a header is among them; else the line.
std::vector<std::string_view> around_headers(std::string_view line) {
  auto objects = line.contains("\"session\"") ? objects_on(line) : std::vector{line};
  return objects.size() > 1 && std::ranges::any_of(objects, is_header) ? objects : std::vector{line};
}

}  // namespace

Result<SessionHead> read_header(std::string_view line) {
  TRY(check_document(line));
  SessionHead head;
  TRY(head.id, id_member(line, ""));
  head.header = json::apply(line, {.unset = {"sessiond"}});
  const auto ours = json::find(line, "sessiond");
  if (!ours) {
    head.header = line;
    return head;
  }
  if (!transcripts::is_object(*ours)) return fail_at("/sessiond", "must be an object");
  TRY(auto key, text_member(*ours, "/sessiond", "key"));
  TRY(head.topic, text_member(*ours, "/sessiond", "topic"));
  head.key = std::move(key).value_or("");
  if (head.topic && !store::is_stream_topic(*head.topic))
    if (const auto valid = store::check_topic(*head.topic); !valid)
      return fail_at("/sessiond/topic", valid.error().detail);
  if (const auto entry = json::find(*ours, "entry")) {
    if (!transcripts::is_object(*entry)) return fail_at("/sessiond/entry", "must be an object");
    head.entry = json::compact(*entry);
  }
  return head;
}

std::string header_with(const SessionHead& head) {
  json::ObjectWriter ours;
  if (!head.key.empty()) ours.string("key", head.key);
  if (head.topic) {
    ours.string("topic", *head.topic);
  } else {
    ours.raw("entry", head.entry);
  }
  const std::string header = head.header.empty() ? header_of(head.id, 0) : head.header;
  return json::apply(header, {.set = {{"sessiond", ours.text()}}});
}

Result<void> JsonlReader::begin(std::string_view header) {
  auto head = read_header(header);
  skipping_ = !head;
  if (head) {
    open_ = true;
    return sink_.session(std::move(*head));
  }
  sink_.skip({.id = json::string_at(header, "id").value_or(""),
              .why = fmt::format("line {}: {}", line_, head.error().detail)});
  return {};
}

Result<void> JsonlReader::line(std::string_view line) {
  if (++line_ == 1) line = without_byte_order_mark(line);
  for (const std::string_view each : around_headers(line)) TRY(take(each));
  return {};
}

Result<void> JsonlReader::take(std::string_view line) {
  if (is_header(line)) {
    TRY(end());
    return begin(line);
  }
  if (open_) return sink_.entry(std::string(line));
  if (skipping_ || line.empty()) return {};
  skipping_ = true;
  if (line_ == 1 && is_utf16(line)) {
    sink_.skip({.why = std::string(utf16_why)});
    return {};
  }
  std::string why = fmt::format("line {}: a transcript begins with a line whose /type is session", line_);
  if (line_ == 1) why += fmt::format(" ({})", not_known());
  sink_.skip({.why = std::move(why)});
  return {};
}

Result<void> JsonlReader::end() {
  skipping_ = false;
  if (!std::exchange(open_, false)) return {};
  return sink_.end();
}

Result<void> read_jsonl(std::string_view text, Sink& sink) {
  JsonlReader reader(sink);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    TRY(reader.line(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.end();
}

}  // namespace sessiond::formats
