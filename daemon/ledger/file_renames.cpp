#include "daemon/ledger/file_renames.hpp"

#include <algorithm>

#include "store/json/raw_json.hpp"

namespace sessiond::ledger {
namespace {

bool archives_files(journal::EventType type) {
  using enum journal::EventType;
  return type == session_reset || type == context_cleared || type == session_deleted || type == topic_deleted ||
         type == archive_destroyed;
}

}  // namespace

bool restores_files(const journal::Event& event) {
  return event.envelope.type == journal::EventType::session_created && json::find(event.data, "archivedAs").has_value();
}

bool renames_files(const journal::Event& event) {
  const journal::EventType type = event.envelope.type;
  return archives_files(type) || restores_files(event);
}

bool renames_files(std::string_view event) {
  const auto type = journal::type_of(event);
  if (type != journal::EventType::session_created) return type && archives_files(*type);
  return json::find(json::find(event, "data").value_or("{}"), "archivedAs").has_value();
}

std::vector<std::pair<std::string, std::string>> archived_files(const journal::Event& event,
                                                                std::span<const journal::LinePosition> positions) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto take = [&out](const std::string& name) {
    const std::size_t end = name.rfind(".jsonl.");
    if (end == std::string::npos || name.find('/') != std::string::npos) return;
    out.emplace_back(name.substr(0, end + 6), name);
  };
  for (const auto raw : json::elements(json::find(event.data, "archivedAs").value_or("[]")))
    take(json::as_string(raw).value_or(""));
  if (!json::find(event.data, "archivedMore")) return out;
  for (const journal::LinePosition& position : positions)
    if (position.seq == event.envelope.seq) std::ranges::for_each(position.archives, take);
  return out;
}

bool purges_files(const journal::Event& event) { return json::find(event.data, "purged") == "true"; }

}  // namespace sessiond::ledger
