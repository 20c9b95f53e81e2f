// Decisions of maintenance about files that no session has: archives, and transcripts whose session is not known.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/steps.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::decide {
namespace {

// A session that only names what an event is about.
Session shell(const std::string& key, const std::string& session_id) {
  json::ObjectWriter entry;
  entry.string("sessionId", session_id);
  return {key, std::make_shared<const std::string>(entry.text())};
}

// Emits an event that names archives: the first of them, and the others in a line position.
void emit_archives(DecisionBuilder& builder, journal::EventType type, const Session& about,
                   const std::vector<std::string>& names, std::string_view more) {
  if (names.size() > limits::archive_names) {
    builder.out.line_positions.push_back({.agent = builder.state().id(), .seq = builder.next_seq()});
    builder.out.line_positions.back().archives = {names.begin() + limits::archive_names, names.end()};
  }
  builder.emit(type, about, fmt::format("{{{},{}}}", archived_members(names), more));
}

bool has_session(const AgentState& state, const std::string& session_id, const std::vector<std::string>& files) {
  return state.find_session_id(session_id) != nullptr ||
         std::ranges::any_of(files, [&](const std::string& file) { return state.owner_of(file).has_value(); });
}

}  // namespace

Result<std::string> recovered_key(std::string_view agent, std::string_view session_id) {
  return store::canonical_key(fmt::format("recovered:{}", session_id), agent);
}

Result<Decision> decide(const AgentState& state, const DestroyArchive& command, const Context& context) {
  DecisionBuilder builder(state, context);
  const auto records = state.archives.of_id(command.session_id);
  const auto there = std::ranges::find_if(records, [&](const ArchiveRecord* record) {
    return !command.ending.empty() && ending_of(*record) == command.ending;
  });
  if (there == records.end()) return std::move(builder.out);
  builder.out.status = 204;
  std::string more = "\"reason\":" + json::quote(command.reason);
  if (!command.entry_as.empty()) more += ",\"entryAs\":" + json::quote(command.entry_as);
  if (state.find_session_id(command.session_id) == nullptr && !state.archives.has_archives(command.session_id, *there))
    more += ",\"log\":true";  // the last of the id: what lies beside it goes, too
  Session about = shell((*there)->key, command.session_id);
  if (!(*there)->channel.empty()) about.channel = (*there)->channel;
  about.channels = (*there)->channels;
  emit_archives(builder, journal::EventType::archive_destroyed, about, command.archives, more);
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const PruneOrphan& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto key, recovered_key(state.id(), command.session_id));
  const bool taken = state.find_key(key) != nullptr;
  if (taken || has_session(state, command.session_id, command.files)) return std::move(builder.out);
  builder.out.status = 204;
  const std::int64_t time = context.ids->archive_time(context.now);
  std::vector<std::string> names;
  names.reserve(command.files.size());
  for (const std::string& file : command.files) names.push_back(transcripts::archive_name(file, "pruned", time));
  emit_archives(builder, journal::EventType::session_deleted, shell(key, command.session_id), names,
                R"("purged":false,"reason":"orphan")");
  return std::move(builder.out);
}

Result<Decision> decide(const AgentState& state, const AdoptOrphan& command, const Context& context) {
  DecisionBuilder builder(state, context);
  if (has_session(state, command.session_id, command.files)) return std::move(builder.out);
  TRY(store::check_new_session_id(command.session_id));
  TRY(const auto key, recovered_key(state.id(), command.session_id));
  if (const Session* other = state.find_key(key))  // keys have no case, and ids do
    return fail(Code::session_exists, fmt::format("the session {} has the key {}: rename the transcript to adopt it",
                                                  other->session_id, key));
  TRY(const auto session, create_session(builder, key, command.session_id, command.entry, "adopt"));
  for (const std::string& file : command.files)
    if (const auto topic = store::topic_of_file(command.session_id, file))
      builder.emit(journal::EventType::topic_created, session, R"({"restored":true})", topic);
  return answer_session(builder, session, 201);
}

}  // namespace sessiond::decide
