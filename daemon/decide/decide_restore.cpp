// The decision about restoring a session from its archives.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/free_id.hpp"
#include "daemon/decide/message_channels.hpp"
#include "daemon/decide/naming.hpp"
#include "daemon/decide/sdk_session.hpp"
#include "daemon/decide/steps.hpp"
#include "daemon/decide/token_counters.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

bool is_recorded(const AgentState& state, const RestoreSession& command) {
  return std::ranges::any_of(state.archives.of_key(command.key), [&](const ArchiveRecord* record) {
    return record->seq == command.seq && record->session_id == command.session_id && !ending_of(*record).empty();
  });
}

// Returns the entry with which the session lives again.
std::string restored_entry(const DecisionBuilder& builder, const RestoreSession& command) {
  const Context& context = builder.context();
  json::Edit edit;
  edit.put_string("sessionId", command.session_id);
  edit.put_int("updatedAt", context.now);
  if (command.entry.empty()) edit.put_int("createdAt", context.now);
  if (command.entry.empty() && !command.channels.empty() && store::parse_key(command.key).channel.empty())
    edit.put("channels", json::array_of(MessageChannels::names_in(command.channels)));
  if (std::string earlier = earlier_sessions(builder, command.key, command.session_id); !earlier.empty()) {
    edit.put("previousSessions", std::move(earlier));
  } else {
    edit.remove("previousSessions");
  }
  // The message may have been edited or deleted since it was looked at.
  if (command.taken_back != builder.state().last_taken_back) {
    edit.remove("firstMessage");
    edit.remove("firstMessageId");
  }
  if (const auto slug = json::string_at(command.entry, "slug"); slug && builder.state().has_slug(*slug, command.key))
    edit.put_string("slug", free_slug_of(builder, command.key, json::string_at(command.entry, "name").value_or("")));
  if (const auto* kept = policy_of(builder, command.key)) keep_policy(*kept, command.entry, edit);
  if (command.counts)
    put_counts(edit, *command.counts);
  else
    edit.remove("entryCount");  // both are put right when a transcript is opened
  fit_tokens(command.entry, context.rules->shared, edit);
  return json::apply(command.entry.empty() ? "{}" : command.entry, edit);
}

Session session_of(const DecisionBuilder& builder, const std::string& key, const std::string& entry) {
  json::Edit rev;
  rev.put_int("rev", static_cast<std::int64_t>(builder.next_seq()));
  return {key, std::make_shared<const std::string>(json::apply(entry, rev))};
}

// Takes the fields of the SDK session out of an entry. Returns the names of those that it had.
std::vector<std::string> leave_out_sdk_session(std::string& entry) {
  std::vector<std::string> names;
  json::Edit edit;
  for (const std::string_view field : sdk_session_fields) {
    if (!json::find(entry, field)) continue;
    names.emplace_back(field);
    edit.remove(names.back());
  }
  entry = json::apply(entry, edit);
  return names;
}

}  // namespace

Result<Decision> decide(const AgentState& state, const RestoreSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  const Session* there = state.find_key(command.key);
  const bool seen =
      there != nullptr && (context.sight.whole_agent || context.sight.sees(there->key(), there->audience()));
  if (seen)
    return fail(Code::session_exists, fmt::format("there is a session {} now: reset or delete it first", there->key()));
  if (there != nullptr || !is_recorded(state, command))
    return fail(Code::session_not_found, fmt::format("agent {} has no session {}", state.id(), command.key));
  TRY(claim_session_id(builder, command.session_id, command.key, nullptr));
  if (builder.out.need) return std::move(builder.out);
  if (context.on_disk->at(command.session_id).transcripts)
    return fail(Code::session_exists,
                fmt::format("a transcript of {} is there already: move it away first", command.session_id));
  TRY(check_room(builder));
  std::string entry = restored_entry(builder, command);
  TRY(check_entry_growth(builder, "{}", entry, ""));
  Session session = session_of(builder, command.key, entry);
  std::vector<std::string> left_out;
  if (!claim_sdk_session(builder, session, "")) {  // another session took it meanwhile
    left_out = leave_out_sdk_session(entry);
    session = session_of(builder, command.key, entry);
  }
  if (builder.out.need) return std::move(builder.out);

  std::string data = fmt::format(R"({{"entry":{},"reason":"restore",{}{})", entry,
                                 policy_of(builder, command.key) == nullptr ? "" : R"("policySet":true,)",
                                 archived_members(command.archives));
  if (!command.entry_as.empty()) data += ",\"entryAs\":" + json::quote(command.entry_as);
  const std::string told = left_out.empty() ? "" : ",\"leftOut\":" + json::array_of(left_out);
  data += told;
  if (command.archives.size() > limits::archive_names) {
    builder.out.line_positions.push_back({.agent = state.id(), .seq = builder.next_seq()});
    builder.out.line_positions.back().archives = {command.archives.begin() + limits::archive_names,
                                                  command.archives.end()};
  }
  for (const ReadArchive& archive : command.read)
    builder.out.line_positions.push_back({.file = archive.file,
                                          .agent = state.id(),
                                          .seq = builder.next_seq(),
                                          .length = archive.size,
                                          .inode = archive.inode});
  builder.emit(journal::EventType::session_created, session, data + "}");
  for (const std::string& topic : command.topics)
    builder.emit(journal::EventType::topic_created, session, R"({"restored":true})", topic);
  builder.out.through_checkpoint = true;
  Decision out = answer_session(builder, session, 200);
  out.body.insert(out.body.size() - 1, told);
  return out;
}

}  // namespace sessiond::decide
