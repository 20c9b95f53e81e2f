#include "daemon/ledger/memory_sessions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "daemon/decide/apply.hpp"
#include "daemon/runtime/log.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::ledger {
namespace {

constexpr int most_needs = 64;                      // facts one decision may ask for
constexpr std::uint64_t bytes_of_a_session = 1024;  // beside its entry and messages, about
constexpr std::uint64_t bytes_of_an_answer = 256;   // beside its body, about

// The files that the transcripts of a session would be.
std::vector<std::string> files_of(const decide::AgentState& state, const decide::Session& session) {
  std::vector<std::string> files{decide::AgentState::file_of(session, {})};
  if (const auto* topics = state.transcripts.topics(session.session_id))
    for (const std::string& topic : *topics) files.push_back(decide::AgentState::file_of(session, topic));
  return files;
}

std::string gone_name(std::string_view agent, std::string_view name) {
  return std::string(agent).append("\n").append(name);
}

// An event as streams get it: without a seq.
decide::Change passing(const decide::Change& event) {
  journal::Envelope envelope = event.envelope;
  envelope.seq = 0;
  return {journal::make_event(std::move(envelope), event.data), event.payload};
}

bool grows_by_its_data(journal::EventType type) {
  using enum journal::EventType;
  return type == session_updated || type == run_queued || type == run_started || type == run_progress ||
         type == approval_requested;
}

// Estimates how many bytes a decision adds to memory.
std::uint64_t growth_of(const decide::Decision& decision) {
  std::uint64_t bytes = 0;
  for (const journal::LinePosition& line : decision.line_positions)
    if (line.made) bytes += line.made->text.size();
  for (const journal::Event& event : decision.events)
    if (event.envelope.type == journal::EventType::session_created)
      bytes += event.data.size() + bytes_of_a_session;
    else if (grows_by_its_data(event.envelope.type))
      bytes += event.data.size();
  return bytes;
}

// Estimates how many bytes the runs of a session take, with what they have said so far and their approvals.
std::uint64_t bytes_of_runs(const decide::SessionRuns* runs) {
  if (runs == nullptr) return 0;
  std::uint64_t bytes = runs->partial.size();
  const auto add = [&bytes](const decide::Run& run) {
    bytes += sizeof run + run.instructions.size() + run.error.size() + run.response.size() + run.deliveries.size() +
             run.reply_to.size() + run.additional_context.size();
    for (const auto* list : {&run.texts, &run.input, &run.deleted})
      for (const std::string& text : *list) bytes += text.size() + sizeof text;
  };
  if (runs->active) add(*runs->active);
  for (const decide::Run& run : runs->queued) add(run);
  for (const decide::Steered& steered : runs->steered) bytes += steered.text.size() + sizeof steered;
  for (const auto& overflow : runs->overflows)
    for (const auto& line : overflow.lines) bytes += line.text.size() + sizeof line;
  for (const decide::EndedRun& ended : runs->ended) bytes += ended.json->size();
  for (const decide::Approval& approval : runs->approvals.all())
    bytes += sizeof approval + approval.args.size() + approval.reason.size() + approval.address.size();
  return bytes;
}

}  // namespace

const decide::AgentState* MemorySessions::of(std::string_view agent) const {
  const auto found = agents_.find(agent);
  return found == agents_.end() || found->second.state.size() == 0 ? nullptr : &found->second.state;
}

const decide::AgentState* MemorySessions::holding(std::string_view agent, std::string_view name) const {
  const decide::AgentState* state = of(agent);
  return state == nullptr || state->find(name) == nullptr ? nullptr : state;
}

bool MemorySessions::had(std::string_view agent, std::string_view name) const {
  return holding(agent, name) != nullptr || gone_.contains(gone_name(agent, store::folded_key(name))) ||
         gone_.contains(gone_name(agent, name));
}

void MemorySessions::note_gone(const std::string& agent, std::string_view name) {
  constexpr std::size_t most = 10'000;
  std::string noted = gone_name(agent, name);
  if (!gone_.insert(noted).second) return;
  gone_order_.push_back(std::move(noted));
  if (gone_order_.size() <= most) return;
  gone_.erase(gone_order_.front());
  gone_order_.pop_front();
}

std::vector<std::string> MemorySessions::agents() const {
  std::vector<std::string> ids;
  for (const auto& [id, agent] : agents_)
    if (agent.state.size() != 0) ids.push_back(id);
  return ids;
}

const transcripts::MemoryTranscript* MemorySessions::transcript(std::string_view agent, std::string_view file) const {
  const auto found = agents_.find(agent);
  if (found == agents_.end()) return nullptr;
  const auto transcript = found->second.transcripts.find(file);
  return transcript == found->second.transcripts.end() ? nullptr : &transcript->second;
}

const answers::Answer* MemorySessions::find_answer(const answers::Digest& scope) const {
  const auto found = answers_.find(scope);
  return found == answers_.end() ? nullptr : &found->second.answer;
}

std::uint64_t MemorySessions::bytes() const {
  std::uint64_t bytes = line_bytes_ + answer_bytes_ + run_bytes_;
  for (const auto& [id, agent] : agents_) bytes += agent.state.entry_bytes() + agent.state.size() * bytes_of_a_session;
  return bytes;
}

std::uint64_t MemorySessions::bytes_of(const Agent& agent, const decide::Session& session) const {
  std::uint64_t bytes = session.entry()->size() + bytes_of_a_session;
  for (const std::string& file : files_of(agent.state, session))
    if (const auto found = agent.transcripts.find(file); found != agent.transcripts.end())
      bytes += found->second.bytes();
  const auto runs = agent.run_bytes.find(session.key());
  return runs == agent.run_bytes.end() ? bytes : bytes + runs->second;
}

// Null: the transcript has changed since it had so many bytes.
decide::TranscriptEnd* MemorySessions::end_of(std::string_view agent, const std::string& file, std::uint64_t bytes) {
  const transcripts::MemoryTranscript* now = transcript(agent, file);
  if (now == nullptr || now->bytes() != bytes) return nullptr;
  return &agents_.find(agent)->second.state.transcripts.find_or_add(file);
}

asio::awaitable<Result<void>> MemorySessions::fetch(std::string agent, decide::Need need, Facts& facts) {
  using Transcript = const transcripts::MemoryTranscript;
  Transcript* there = transcript(agent, need.file);
  const auto copy = there == nullptr ? std::make_shared<Transcript>() : std::make_shared<Transcript>(*there);
  const auto read = [&](auto call) { return read_memory(env_, copy, std::move(call)); };
  switch (need.what) {
    case decide::Need::What::meter: {
      const decide::AgentState* state = of(agent);
      const std::string name = state == nullptr ? "" : state->transcript_name_of(need.file);
      CO_TRY(auto meter, co_await read([count = env_.rules.context.doom_count, &need, &name](Transcript& transcript) {
               return transcripts::measure(transcript, count, need.order.waiting, name);
             }));
      meter.take_doom();  // a loop of calls that ended before is not warned of any more
      if (decide::TranscriptEnd* end = end_of(agent, need.file, copy->bytes()))
        end->meter = std::make_shared<const context::Meter>(std::move(meter));
      break;
    }
    case decide::Need::What::entry_ids: {
      CO_TRY(auto ids,
             co_await read([](Transcript& transcript) -> Result<transcripts::IdSet> { return transcript.ids(); }));
      if (decide::TranscriptEnd* end = end_of(agent, need.file, copy->bytes()))
        end->ids = std::make_shared<transcripts::IdSet>(std::move(ids));
      break;
    }
    case decide::Need::What::shown: {
      CO_TRY(facts.lines[decide::shown_name(need.ids.front())], co_await read([&need](Transcript& transcript) {
               return transcripts::read_shown_line(transcript, need.name, need.ids.front());
             }));
      break;
    }
    case decide::Need::What::calls: {
      CO_TRY(const auto there, co_await read([&need](Transcript& transcript) {
               return transcripts::find_calls(transcript, {need.ids.begin(), need.ids.end()});
             }));
      for (const std::string& id : need.ids) facts.lines[decide::call_name(id)].line = there.contains(id) ? "call" : "";
      break;
    }
    case decide::Need::What::lines: {
      CO_TRY(auto found, co_await read([ids = need.ids](Transcript& transcript) { return transcript.find(ids); }));
      for (const std::string& id : need.ids) facts.lines[id] = std::move(found[id]);
      break;
    }
    case decide::Need::What::kept: {
      CO_TRY(facts.kept[need.file + '\n' + need.ids.front()], co_await read([&need](Transcript& transcript) {
               return transcripts::look_up_kept(transcript, need.ids.front(), need.name, need.order);
             }));
      break;
    }
    case decide::Need::What::transcript_end:
    case decide::Need::What::id_files:
    case decide::Need::What::behind:  // no import goes on with one
    case decide::Need::What::sdk_session:
    case decide::Need::What::counts:   // they have both from the start
    case decide::Need::What::history:  // no log is kept of ephemeral sessions
      break;                           // decide() knows them
  }
  co_return Result<void>{};
}

Result<decide::Decision> MemorySessions::decide(const std::string& agent, std::string_view actor, const Decide& call,
                                                Facts& facts) {
  assert(env_.loop.is_current());
  Agent& there = agents_.try_emplace(agent, agent).first->second;
  const std::string as_of = commits_.journal().epoch() + '-' + std::to_string(commits_.durable());
  decide::Context now = commits_.context(actor, "api");
  now.next_seq = next_seq_;
  now.on_disk = &facts.ids;
  now.kept = &facts.kept;
  now.durable = false;
  now.as_of = as_of;
  for (int needs = 0; needs < most_needs; ++needs) {
    auto decided = call(there.state, now, facts.lines);
    if (!decided && there.state.size() == 0) agents_.erase(agent);
    if (!decided) return decided;
    if (decided->need && decided->need->what == decide::Need::What::transcript_end) {
      there.state.transcripts.find_or_add(
          decided->need->file);  // that of no file: known ends are kept with the session
      continue;
    }
    if (decided->need && decided->need->what == decide::Need::What::id_files) {
      facts.ids[decided->need->file];  // it has none
      continue;
    }
    if (decided->need) return decided;
    std::ranges::for_each(decided->events, decide::encode);
    const std::uint64_t most = env_.rules.ephemeral_bytes / 4 * 3;
    const std::uint64_t growth = growth_of(*decided);
    const decide::Session* about = growth == 0 ? nullptr : there.state.find_key(decided->events.back().envelope.key);
    if (growth != 0 && growth + (about == nullptr ? 0 : bytes_of(there, *about)) > most)
      return fail(
          Code::storage_full,
          fmt::format("the session would take more than {} bytes, three quarters of session.ephemeralBytes", most));
    return decided;
  }
  return fail(Code::internal, "a decision keeps asking for facts");
}

void MemorySessions::erase_transcript(Agent& agent, const std::string& file) {
  const auto found = agent.transcripts.find(file);
  if (found == agent.transcripts.end()) return;
  line_bytes_ -= found->second.bytes();
  agent.transcripts.erase(found);
}

void MemorySessions::apply_event(Agent& agent, const decide::Change& event) {
  const auto files = [&] {
    const decide::Session* session = agent.state.find_key(event.envelope.key);
    return session == nullptr ? std::vector<std::string>() : files_of(agent.state, *session);
  };
  const std::vector<std::string> before = files();
  if (event.envelope.type == journal::EventType::session_deleted) {
    note_gone(agent.state.id(), store::folded_key(event.envelope.key));
    note_gone(agent.state.id(), event.envelope.session_id);
  }
  decide::apply(agent.state, event);
  const std::vector<std::string> after = files();
  const bool cleared = event.envelope.type == journal::EventType::context_cleared;
  for (const std::string& file : before)
    if (cleared || std::ranges::find(after, file) == after.end()) erase_transcript(agent, file);
  // Nothing of it waits for the journal or goes to a file.
  if (decide::Session* session = agent.state.mutable_session(event.envelope.key)) session->last_seq = 0;
  agent.state.last_seq = 0;
  agent.state.dirty.clear();
  agent.state.changed_by_us.clear();
  agent.state.archives = {};
  agent.state.policies = {};  // they are in the durable state (apply_passing)
  count_runs(agent, event.envelope.key);
}

void MemorySessions::count_runs(Agent& agent, const std::string& key) {
  std::uint64_t& bytes = agent.run_bytes[key];
  run_bytes_ -= bytes;
  run_bytes_ += bytes = bytes_of_runs(agent.state.runs.find(key));
  if (bytes == 0) agent.run_bytes.erase(key);
}

void MemorySessions::apply(const std::string& agent, const decide::Decision& decision,
                           std::vector<answers::Answer> answers) {
  if (decision.events.empty()) {
    // A message of which nothing is stored is known all the same.
    const std::string key = json::string_at(decision.body, "sessionKey").value_or("");
    for (answers::Answer& answer : answers)
      if (answer.of_message()) keep(std::move(answer), agent, key);
    return make_room();
  }
  Agent& there = agents_.at(agent);
  assert(decision.events.front().envelope.seq == next_seq_);
  next_seq_ += decision.events.size();
  std::vector<decide::Change> events;
  for (const decide::Change& event : decision.events) {
    apply_event(there, event);
    events.push_back(passing(event));
  }
  for (const decide::TranscriptUpdate& update : decision.transcript_updates) decide::apply(there.state, update);
  for (const journal::LinePosition& line : decision.line_positions) {
    if (!line.made) continue;
    transcripts::MemoryTranscript& transcript = there.transcripts[line.file];
    if (line.made->seq)
      transcript.add(line.made->text, decision.events.back().envelope.time);
    else
      transcript.add_header(line.made->text);
    line_bytes_ += line.made->text.size();
  }
  for (answers::Answer& answer : answers) keep(std::move(answer), agent, decision.events.back().envelope.key);
  if (env_.on_passing_events) env_.on_passing_events(std::move(events));
  if (decision.events.back().envelope.type == journal::EventType::session_deleted) forget_deleted();
  make_room();
}

void MemorySessions::keep(answers::Answer answer, const std::string& agent, const std::string& key) {
  if (const auto known = answers_.find(answer.scope); known != answers_.end())
    answer_bytes_ -= known->second.answer.body.size() + bytes_of_an_answer;
  answer_bytes_ += answer.body.size() + bytes_of_an_answer;
  const answers::Digest scope = answer.scope;
  answer_order_.push_back(scope);
  answers_.insert_or_assign(scope, KeptAnswer{.answer = std::move(answer), .agent = agent, .key = key});
}

// Answers take a quarter of the room at most: then the oldest ones go. Beyond that, sessions go.
void MemorySessions::make_room() {
  const std::uint64_t most = env_.rules.ephemeral_bytes;
  while (answer_bytes_ > most / 4 && !answer_order_.empty()) {
    if (const auto found = answers_.find(answer_order_.front()); found != answers_.end()) {
      answer_bytes_ -= found->second.answer.body.size() + bytes_of_an_answer;
      answers_.erase(found);
    }
    answer_order_.pop_front();
  }
  while (bytes() > most && !agents_.empty()) remove_oldest();
}

// Deletes the session that was changed longest ago, of all agents.
void MemorySessions::remove_oldest() {
  Agent* of = nullptr;
  const decide::Session* oldest = nullptr;
  for (auto& [id, agent] : agents_) {
    const decide::Session* first = agent.state.size() == 0 ? nullptr : *agent.state.by_updated().begin();
    if (first == nullptr || (oldest != nullptr && oldest->updated_at <= first->updated_at)) continue;
    of = &agent;
    oldest = first;
  }
  if (of != nullptr) remove(*of, *oldest, "ephemeralBytes");
  forget_deleted();
}

void MemorySessions::give_way(const std::string& agent, const decide::Session& durable) {
  const auto found = agents_.find(agent);
  if (found == agents_.end()) return;
  decide::AgentState& state = found->second.state;
  if (const auto* same = state.find_key(durable.key())) remove(found->second, *same, "foreign");
  if (const auto* same = state.find_session_id(durable.session_id)) remove(found->second, *same, "foreign");
  forget_deleted();
}

void MemorySessions::give_way(const decide::AgentState& durable) {
  const decide::AgentState* memory = of(durable.id());
  if (memory == nullptr) return;
  std::vector<const decide::Session*> same;
  for (const auto& [key, session] : memory->by_name()) {
    if (const auto* by_key = durable.find_key(key)) same.push_back(by_key);
    if (const auto* by_id = durable.find_session_id(session->session_id)) same.push_back(by_id);
  }
  for (const decide::Session* one : same) give_way(durable.id(), *one);
}

// Deletes a session. Its answers are left for forget_deleted().
void MemorySessions::remove(Agent& agent, const decide::Session& session, std::string_view reason) {
  json::ObjectWriter data;
  data.raw("archivedAs", "[]");
  data.boolean("purged", true);
  data.string("reason", reason);
  const decide::Change event{journal::make_event({.seq = next_seq_++,
                                                  .time = store::unix_ms(),
                                                  .type = journal::EventType::session_deleted,
                                                  .agent = agent.state.id(),
                                                  .key = session.key(),
                                                  .session_id = session.session_id,
                                                  .channel = session.channel,
                                                  .channels = session.channels,
                                                  .chat_type = session.chat_type,
                                                  .lineage = env_.lineage.of(agent.state, session),
                                                  .actor = "sessiond",
                                                  .source = "api"},
                                                 data.text())};
  log::info("ephemeral_session_removed", {{"agent", agent.state.id()}, {"key", session.key()}, {"reason", reason}});
  apply_event(agent, event);
  if (env_.on_passing_events) env_.on_passing_events({passing(event)});
}

// Forgets the answers of sessions that are gone, and agents without sessions.
void MemorySessions::forget_deleted() {
  std::erase_if(answers_, [this](const auto& pair) {
    const auto& [answer, agent, key] = pair.second;
    const auto of = agents_.find(agent);
    if (of != agents_.end() && of->second.state.find_key(key) != nullptr) return false;
    answer_bytes_ -= answer.body.size() + bytes_of_an_answer;
    return true;
  });
  if (answer_order_.size() > 2 * answers_.size() + 64)
    std::erase_if(answer_order_, [this](const answers::Digest& scope) { return !answers_.contains(scope); });
  std::erase_if(agents_, [this](const auto& pair) {
    if (pair.second.state.size() != 0) return false;
    for (const auto& [key, bytes] : pair.second.run_bytes) run_bytes_ -= bytes;
    return true;
  });
}

}  // namespace sessiond::ledger
