#include "daemon/decide/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>

#include "daemon/decide/free_id.hpp"
#include "daemon/decide/naming.hpp"
#include "daemon/decide/takeover_steps.hpp"
#include "daemon/decide/token_counters.hpp"
#include "daemon/decide/view.hpp"
#include "policy/entry_objects.hpp"
#include "policy/entry_rules.hpp"
#include "policy/entry_size.hpp"
#include "policy/runs/entry_fields.hpp"
#include "store/delivery/delivery.hpp"
#include "store/names.hpp"
#include "store/seal/sealed.hpp"
#include "store/try.hpp"
#include "transcripts/sealed_lines.hpp"
#include "transcripts/staged.hpp"

namespace sessiond::decide {

Decision answer_session(DecisionBuilder& builder, const Session& session, int status) {
  builder.out.status = status;
  const bool is_handed_back = std::ranges::any_of(builder.out.events, [](const journal::Event& event) {
    return event.envelope.type == journal::EventType::session_handback;
  });
  builder.out.body = session_json(builder.state().id(), session,
                                  {.takeover = is_handed_back ? "" : shown_takeover(builder.state(), session)});
  builder.out.etag = etag(session);
  if (status == 201)
    builder.out.location = fmt::format("/v1/agents/{}/sessions/{}", builder.state().id(), session.key());
  return std::move(builder.out);
}

Decision answer_edited(DecisionBuilder& builder, Session session) {
  Decision out = answer_session(builder, session, 200);
  if (out.events.size() == 1) out.edited = std::make_shared<Session>(std::move(session));
  return out;
}

std::string error_json(std::string_view code, std::string_view message) {
  json::ObjectWriter out;
  out.string("code", code);
  out.string("message", message);
  return out.text();
}

const std::string* value_of(const json::Edit& edit, std::string_view name) {
  const auto found = std::ranges::find(edit.set, name, &json::Edit::Set::name);
  return found == edit.set.end() ? nullptr : &found->value;
}

std::vector<Fault> form_faults(const json::Edit& edit, std::string_view before, std::string_view pointer_prefix) {
  std::vector<Fault> faults = runs::field_faults(edit, pointer_prefix);
  std::ranges::move(policy::object_faults(edit, before, pointer_prefix), std::back_inserter(faults));
  return faults;
}

Result<void> check_new_entry(const Rules& rules, std::string_view agent, json::Edit& edit) {
  TRY(check_name(rules, edit, "/entry"));
  TRY(policy::check_edit_size(edit.set.size() + edit.unset.size(), "{}", "/entry"));
  TRY(policy::check_entry_edit(edit, policy::Import::no, "/entry", form_faults(edit, "{}", "/entry")));
  TRY(runs::check_binding("{}", edit, "/entry"));
  policy::normalize_entry_edit(edit);
  policy::complete_objects(edit, rules.of_agent(agent).fs_scope);
  return delivery::normalize_patch(edit, json::Index("{}"), "/entry", delivery::Nested::complete);
}

Result<void> check_entry_growth(const DecisionBuilder& builder, std::string_view before, std::string_view after,
                                std::string_view pointer) {
  if (auto fine = policy::check_entry_size(before, after, pointer); !fine || after.size() <= before.size()) return fine;
  const std::uint64_t most = builder.context().rules->entry_bytes_per_agent;
  if (builder.state().entry_bytes() + after.size() - before.size() <= most) return {};
  return fail_at(std::string(pointer),
                 fmt::format("the entries of agent {} have {} bytes; limits.entryBytesPerAgent is {}",
                             builder.state().id(), builder.state().entry_bytes(), most));
}

Result<const Session*> resolve(const AgentState& state, const Target& target) {
  const Session* session = state.find(target.key);
  if (session == nullptr)
    return fail(Code::session_not_found, fmt::format("agent {} has no session {}", state.id(), target.key));
  const auto fits = [now = etag(*session)](const std::string& wanted) { return wanted == "*" || wanted == now; };
  if (!target.if_match.empty() && std::ranges::none_of(target.if_match, fits)) {
    return std::unexpected(Problem{
        .code = Code::precondition_failed,
        .detail = fmt::format("If-Match is {}, the session is at {}", fmt::join(target.if_match, ", "), etag(*session)),
        .etag = etag(*session)});
  }
  return session;
}

Result<void> check_open(const Session& session) {
  if (session.archived_at)
    return fail(Code::session_archived, fmt::format("{} is archived; unarchive it first", session.key()));
  return {};
}

Result<const Session*> resolve_open(const AgentState& state, const Target& target) {
  TRY(const auto session, resolve(state, target));
  TRY(check_open(*session));
  return session;
}

json::Edit changes_of(const json::Index& fields, json::Edit wanted, SameValue same) {
  std::erase_if(wanted.set, [&](const json::Edit::Set& member) {
    const auto held = fields.find(member.name);
    return held && same(*held, member.value);
  });
  std::erase_if(wanted.unset, [&](const std::string& name) { return !fields.find(name); });
  return wanted;
}

Result<void> change_entry(DecisionBuilder& builder, Session& session, json::Edit changes) {
  if (changes.empty()) return {};
  if (value_of(changes, "updatedAt") == nullptr) changes.put_int("updatedAt", moved_to(session, builder.context().now));
  const sessions::RawEntry before = session.entry();
  const std::string sdk_session = session.sdk_session_id;
  builder.update(session, std::move(changes));
  TRY(claim_sdk_session(builder, session, sdk_session));
  return check_entry_growth(builder, *before, *session.entry(), "");
}

Result<void> check_room(const DecisionBuilder& builder) {
  const std::uint64_t most = builder.context().rules->sessions_per_agent;
  if (builder.state().size() >= most) {
    return fail_at("", fmt::format("agent {} has {} sessions; limits.sessionsPerAgent is {}", builder.state().id(),
                                   builder.state().size(), most));
  }
  return {};
}

void name_thread_file(const DecisionBuilder& builder, const std::string& key, const std::string& session_id,
                      json::Edit& entry) {
  const auto& sessions_dir = builder.context().sessions_dir;
  const store::KeyParts parts = store::parse_key(key);
  const bool adds_topic = !parts.thread.empty() || (parts.channel == "discord" && parts.chat_type == "channel");
  if (!sessions_dir || !builder.context().durable || !adds_topic || !parts.topic.empty() ||
      value_of(entry, "sessionFile") != nullptr)
    return;
  std::erase(entry.unset, "sessionFile");
  entry.put_string("sessionFile", sessions_dir() + store::transcript_file(session_id, ""));
}

const KeyPolicies::Policy* policy_of(const DecisionBuilder& builder, std::string_view key) {
  const KeyPolicies* policies = builder.context().policies;
  return (policies != nullptr ? *policies : builder.state().policies).find(builder.state().id(), key);
}

Result<void> check_guarded_as(const DecisionBuilder& builder, std::string_view key, std::string_view above) {
  const KeyPolicies::Policy* kept = policy_of(builder, key);
  const auto guardrails = json::find(above, "guardrails");
  if (builder.context().sight.sets_policy || kept == nullptr || !guardrails || *guardrails == "null") return {};
  json::Edit edit;
  keep_policy(*kept, above, edit);
  std::erase_if(edit.set, [](const auto& member) { return member.name != "guardrails"; });
  std::erase_if(edit.unset, [](const auto& name) { return name != "guardrails"; });
  return runs::check_keeps_policy(above, edit);
}

namespace {

// Gives a new session the guardrails and the turnCap of its key. Returns whether an operator has set them.
Result<bool> give_policy(const DecisionBuilder& builder, const std::string& key, json::Edit& edit,
                         const json::Edit* request) {
  const bool sets = builder.context().sight.sets_policy;
  json::Edit named;
  if (request != nullptr)
    std::ranges::copy_if(request->set, std::back_inserter(named.set), [](const json::Edit::Set& member) {
      return std::ranges::find(runs::policy_fields, member.name) != runs::policy_fields.end();
    });
  const KeyPolicies::Policy* kept = policy_of(builder, key);
  if (kept == nullptr)
    return sets && std::ranges::any_of(runs::policy_fields,
                                       [&edit](std::string_view field) { return value_of(edit, field) != nullptr; });
  keep_policy(*kept, json::apply("{}", edit), edit);
  if (!sets) TRY(runs::check_keeps_policy(json::apply("{}", edit), named));
  for (json::Edit::Set& member : named.set) edit.put(member.name, std::move(member.value));
  if (const std::string* parent = value_of(edit, "spawnedBy"))
    if (const Session* above = builder.state().find_key(json::as_string(*parent).value_or("")))
      TRY(check_guarded_as(builder, key, *above->entry()));
  return true;
}

}  // namespace

Result<Session> create_session(DecisionBuilder& builder, const std::string& key, const std::string& session_id,
                               json::Edit edit, std::string_view reason, std::string_view pointer,
                               const json::Edit* request) {
  if (const Session* there = builder.state().find_key(key))
    return fail(Code::session_exists, fmt::format("{} is already there", there->key()));
  const std::int64_t now = builder.context().now;
  TRY(check_room(builder));
  TRY(const bool policy_is_set, give_policy(builder, key, edit, request));
  put_slug(builder, key, "{}", edit);
  json::Edit entry;
  entry.put_string("sessionId", session_id);
  entry.put_int("updatedAt", now);
  entry.put_int("createdAt", now);
  entry.put_int("sessionStartedAt", now);
  put_counts(entry, {});
  if (std::string earlier = earlier_sessions(builder, key); !earlier.empty())
    entry.put("previousSessions", std::move(earlier));
  // Without entryCount, messageCount is of an older daemon: both are put right when a transcript is opened.
  if (value_of(edit, "messageCount") != nullptr && value_of(edit, "entryCount") == nullptr)
    std::erase_if(entry.set, [](const json::Edit::Set& member) { return member.name == "entryCount"; });
  const auto ours = static_cast<std::ptrdiff_t>(entry.set.size());
  for (auto& member : edit.set) {  // a member of the client can only repeat one of ours
    const auto end = entry.set.begin() + ours;
    if (const auto own = std::ranges::find(entry.set.begin(), end, member.name, &json::Edit::Set::name); own != end) {
      own->value = std::move(member.value);
    } else {
      entry.set.push_back(std::move(member));
    }
  }
  name_thread_file(builder, key, session_id, entry);
  if (!builder.context().durable) {
    entry.put("ephemeral", "true");
    entry.put("durable", "false");
  }
  const std::string raw = json::apply("{}", entry);
  TRY(check_entry_growth(builder, "{}", raw, pointer));
  json::ObjectWriter data;
  data.raw("entry", raw);
  data.string("reason", reason);
  if (policy_is_set) data.boolean(policy_set_member, true);
  json::Edit rev;
  rev.put_int("rev", static_cast<std::int64_t>(builder.next_seq()));
  Session session(key, std::make_shared<const std::string>(json::apply(raw, rev)));
  TRY(claim_sdk_session(builder, session, ""));
  builder.emit(journal::EventType::session_created, session, data.text());
  return session;
}

void tell_cost(DecisionBuilder& builder, const Session& session, const std::optional<std::string>& topic,
               std::int64_t before, std::int64_t now) {
  const runs::CostCap* cap = builder.context().rules->runs.cost_cap_of(builder.state().id());
  if (cap == nullptr || before >= cap->microcents || now < cap->microcents) return;
  json::ObjectWriter data;
  data.integer("costMicrocents", now);
  data.integer("maxCostMicrocents", cap->microcents);
  data.string("onExceed", cap->fails ? "fail" : "warn");
  builder.emit(journal::EventType::cost_exceeded, session, data.text(), topic);
}

void put_counts(json::Edit& entry, const transcripts::Counts& counts) {
  entry.put_int("messageCount", counts.messages);
  entry.put_int("entryCount", counts.entries);
}

std::vector<std::string> counted_files(const AgentState& state, const Session& session) {
  std::vector<std::string> files{AgentState::file_of(session, {})};
  const auto* topics = state.transcripts.topics(session.session_id);
  if (topics == nullptr) return files;
  for (const std::string& topic : *topics) {
    std::string file = AgentState::file_of(session, topic);
    if (!store::is_stream_topic(topic) && file != files.front() && state.may_use(session, file))
      files.push_back(std::move(file));
  }
  return files;
}

Decision decide_counts(const AgentState& state, const Session& session, const transcripts::Counts& counts,
                       const Context& context) {
  DecisionBuilder builder(state, context);
  json::Edit edit;
  edit.put_int("updatedAt", session.updated_at);
  put_counts(edit, counts);
  if (session.rev != 0) edit.put_int("rev", static_cast<std::int64_t>(session.rev));
  std::string data;
  json::ObjectWriter writer(data);
  json::append_edit(writer, edit);
  writer.close();
  builder.emit(journal::EventType::session_updated, session, data, {}, std::move(edit));
  return std::move(builder.out);
}

void put_sums(json::Edit& entry, const transcripts::EntrySums& sums, bool shared) {
  put_counts(entry, sums.counts);
  entry.put_int("inputTokens", sums.input);
  entry.put_int("outputTokens", sums.output);
  entry.put(std::string(totals_member),
            policy::UsageTotals{.input = sums.input, .output = sums.output, .total = sums.total}.json());
  entry.put_int("totalTokens", sums.total);
  fit_tokens(entry, shared, sums.last_prompt);
  if (sums.cost > 0) entry.put_int("costMicrocents", sums.cost);
  if (sums.compactions > 0) entry.put_int("compactionCount", sums.compactions);
  if (sums.first_message.empty()) return;
  entry.put_string("firstMessage", sums.first_message);
  entry.put_string("firstMessageId", sums.first_id);
}

void take_staged(DecisionBuilder& builder, std::string_view key, const std::string& session_id,
                 const std::vector<StagedFile>& files) {
  const std::string own(store::parse_key(key).topic);
  for (const StagedFile& file : files) {
    std::string name = store::transcript_file(session_id, file.topic.value_or(own));
    assert(transcripts::staged_for(file.name) == name);  // its lines are sealed for that name
    builder.out.line_positions.push_back(
        {.file = std::move(name), .agent = builder.state().id(), .seq = builder.next_seq(), .staged = file.name});
  }
}

void tell_staged(DecisionBuilder& builder, const Session& session, const std::vector<StagedFile>& files) {
  for (const StagedFile& file : files)
    if (file.topic) builder.emit(journal::EventType::topic_created, session, R"({"restored":true})", file.topic);
}

std::string text_part(std::string_view text) { return R"({"type":"text","text":)" + json::quote(text) + "}"; }
std::string content_of_text(std::string_view text) { return "[" + text_part(text) + "]"; }

void place_line(DecisionBuilder& builder, TranscriptEnd& end, const std::string& file, std::uint64_t seq,
                journal::LinePosition position) {
  if (!end.ends_in_newline) {
    ++end.size;  // TranscriptWriter writes the missing newline first
    end.ends_in_newline = true;
  }
  position.file = file;
  position.agent = builder.state().id();
  position.at = end.size;
  position.seq = seq;
  // Like ids, a nonce comes from the system's random source.
  if (builder.context().durable && seal::on()) position.draw = seal::draw();
  end.size += transcripts::line_size(position.made->text.size(), position.draw);
  builder.out.line_positions.push_back(std::move(position));
}

void keep_change(DecisionBuilder& builder, std::string_view session_id, const std::optional<std::string>& topic,
                 std::string_view custom_type, std::string_view data, bool fresh) {
  if (!builder.context().durable) return;
  const std::string file = store::changes_file(session_id, topic.value_or(""));
  const TranscriptEnd* known = builder.transcript_end(file);
  if (known == nullptr && !fresh) {
    builder.out.need = Need{Need::What::transcript_end, file};
    return;
  }
  TranscriptEnd end = known != nullptr ? *known : TranscriptEnd{};
  const std::string id = builder.context().ids->entry_id();
  const transcripts::NewEntry entry = transcripts::custom_entry(custom_type, data);
  const std::string line = transcripts::write_entry(entry, id, end.last_id, end.count, builder.context().now).line;
  const std::uint64_t seq = builder.next_seq() - 1;
  place_line(builder, end, file, seq,
             {.line = line, .made = journal::MadeLine{.text = line, .id = id, .seq = end.count}});
  end.last_id = id;
  end.last_seq = seq;
  ++end.count;
  auto& updates = builder.out.transcript_updates;
  const auto mine = std::ranges::find(updates, file, &TranscriptUpdate::file);
  if (mine == updates.end())
    updates.push_back({.file = file, .end = std::move(end)});
  else
    mine->end = std::move(end);
}

}  // namespace sessiond::decide
