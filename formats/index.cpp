#include "formats/index.hpp"

#include <fmt/format.h>

#include "formats/json_lines.hpp"
#include "policy/pointer.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {

Result<std::vector<IndexedSession>> read_index(std::string_view document) {
  document = without_byte_order_mark(document);
  TRY(check_document(document));
  TRY(const auto version, text_member(document, "", "version"));
  if (version && *version != "1.0") return fail_at("/version", fmt::format("is {}, and only 1.0 is read", *version));
  const auto sessions = json::find(document, "sessions");
  if (!sessions) return fail_at("/sessions", "is missing");
  if (!transcripts::is_object(*sessions)) return fail_at("/sessions", "must be an object");
  std::vector<IndexedSession> all;
  for (const json::Member& member : json::members(*sessions)) {
    IndexedSession session{.id = json::unescape(member.name)};
    const std::string pointer = policy::pointer_to("/sessions", session.id);
    if (!transcripts::is_object(member.value)) return fail_at(pointer, "must be an object");
    TRY(session.name, text_member(member.value, pointer, "name"));
    TRY(session.description, text_member(member.value, pointer, "description"));
    all.push_back(std::move(session));
  }
  return all;
}

std::string index_element(const SessionFacts& facts) {
  Survey survey("json");
  survey.messages = json::int_at(facts.entry, "messageCount").value_or(0);
  survey.first_message = json::string_at(facts.entry, "firstMessage").value_or("");
  return json::quote(facts.id) + ":" + metadata_of(facts, survey);
}

std::int64_t last_activity(std::string_view entry) {
  return ShownSession({.entry = std::string(entry)}, Survey("json")).active;
}

std::string index_end(std::int64_t updated_at) {
  return fmt::format("}},\"updatedAt\":\"{}\"}}\n", transcripts::iso_time(updated_at));
}

}  // namespace sessiond::formats
