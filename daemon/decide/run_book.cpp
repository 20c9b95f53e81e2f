#include "daemon/decide/run_book.hpp"
#include "policy/overflow.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <unordered_map>
#include <utility>
#include <variant>

#include "store/json/fields.hpp"
#include "transcripts/changes.hpp"

namespace sessiond::decide {
namespace {

constexpr std::size_t most_ended = 10'000;  // of an agent: all of them are in memory

std::int64_t number(std::optional<std::string_view> value) { return json::as_int(value.value_or("null")).value_or(0); }

std::string text_at(std::string_view object, std::string_view name) {
  return json::string_at(object, name).value_or("");
}

std::string head_name(std::string_view key) { return "s " + std::string(key); }

std::string head_json(const SessionRuns& runs) {
  json::ObjectWriter out;
  json::write_fields(out, runs);
  std::vector<std::string> ids;
  ids.reserve(runs.queued.size());
  for (const Run& run : runs.queued) ids.push_back(run.id);
  if (!ids.empty()) out.strings("queue", ids);
  return out.text();
}

std::string name_of_run(char kind, std::string_view key, std::string_view run_id) {
  return std::string(1, kind).append(" ").append(key).append(" ").append(run_id);
}

EndedRun read_ended(std::uint64_t seq, std::shared_ptr<const std::string> json) {
  const json::Index members(*json);
  const auto status = run_status(members.string_at("status").value_or(""));
  return {.seq = seq,
          .id = members.string_at("runId").value_or(""),
          .status = status.value_or(RunStatus::done),
          .response_entry = members.string_at("responseEntryId").value_or(""),
          .json = json};
}

// Reads a session's runs as earlier versions kept them, all in one.
SessionRuns read_session(std::string_view text) {
  auto runs = json::from_json<SessionRuns>(text);
  if (const auto overflow = json::find(text, "overflow")) runs.overflows = {json::from_json<runs::Overflow>(*overflow)};
  for (const std::string_view run : json::elements(json::find(text, "queued").value_or("[]")))
    runs.queued.push_back(json::from_json<Run>(run));
  for (const std::string_view run : json::elements(json::find(text, "ended").value_or("[]")))
    runs.ended.push_back(read_ended(runs.ended.size() + 1, std::make_shared<const std::string>(run)));
  const auto finished = json::find(text, "finished").value_or("[]");
  if (json::kind(finished) == json::Kind::object) runs.finished = {json::from_json<Finished>(finished)};
  for (const std::string_view each : json::elements(finished)) runs.finished.push_back(json::from_json<Finished>(each));
  return runs;
}

// The source of the next SessionStart of a session that was made by this event; empty: as its entry says.
std::string_view source_after(std::string_view created) {
  const std::string reason = text_at(created, "reason");
  const bool has_messages = number(json::find(json::find(created, "entry").value_or("{}"), "messageCount")) > 0;
  return reason == "restore" || (reason == "import" && has_messages) ? "resume" : "";
}

// Takes off what the runner has confirmed.
void confirm(SessionRuns& runs, const std::vector<std::string>& ids) {
  for (const std::string& id : ids)
    std::erase_if(runs.steered, [&id](const Steered& each) { return each.entry_id == id; });
}

// Takes in text that the active run has said.
void add_partial(SessionRuns& runs, const RunProgress::Said& said, std::uint64_t seq) {
  runs.partial.resize(std::min<std::size_t>(runs.partial.size(), said.at_byte));
  runs.partial += said.text;
  runs.text_seq = seq;
}

void abort_active(SessionRuns& runs, const Run& aborting) {
  if (!runs.active) return;
  runs.active->status = RunStatus::aborting;
  if (aborting.superseded) {
    runs.active->superseded = true;
    runs.active->is_settled = aborting.is_settled;
  } else {
    runs.active->stopped_by = aborting.stopped_by;
  }
}

// Notes an input that a full queue has dropped.
void drop(SessionRuns& runs, const std::optional<runs::Overflow::Of>& of, std::string_view text, std::string id) {
  constexpr std::size_t most = 32;  // addresses; of more the oldest is forgotten
  const auto is_same = [&of](const runs::Overflow& overflow) {
    return overflow.of && of ? overflow.is_for({of->reply_to, of->topic}) : !overflow.of && !of;
  };
  auto there = std::ranges::find_if(runs.overflows, is_same);
  if (there == runs.overflows.end()) {
    if (runs.overflows.size() == most) runs.overflows.erase(runs.overflows.begin());
    there = runs.overflows.insert(runs.overflows.end(), runs::Overflow{.of = of});
  }
  there->add(text, std::move(id));
}

void change_inputs(Run& run, const RunInputs& told) {
  run.texts.resize(run.input.size());
  for (const std::string& id : told.left) {
    const auto found = std::ranges::find(run.input, id);
    if (found == run.input.end()) continue;
    run.texts.erase(run.texts.begin() + (found - run.input.begin()));
    run.input.erase(found);
  }
  run.input.insert(run.input.end(), told.joined.begin(), told.joined.end());
  run.texts.insert(run.texts.end(), told.texts.begin(), told.texts.end());
  run.ready_at = told.ready_at;
}

void drop(SessionRuns& runs, const std::vector<DroppedInput>& overflow) {
  for (const DroppedInput& dropped : overflow) drop(runs, dropped.of, dropped.text, dropped.entry_id);
}

}  // namespace

// The response of an ended run is as people left it, too.
void RunBook::change_response(SessionRuns& runs, const std::string& key, std::string_view target,
                              const std::function<std::string()>& text) {
  const std::string id = text_at(target, "id");
  const std::string session_id = text_at(target, "sessionId");
  const auto topic = json::string_at(target, "topic");
  for (EndedRun& run : runs.ended) {
    if (run.response_entry != id) continue;
    if (text_at(*run.json, "sessionId") != session_id || json::string_at(*run.json, "topic") != topic) continue;
    json::Edit edit;
    if (text)
      edit.put_string("response", text());
    else
      edit.remove("response");
    run.json = std::make_shared<const std::string>(json::apply(*run.json, edit));
    unwritten_.add(name_of_run('r', key, run.id));
  }
}

// People have edited or deleted a message: what is kept of its text becomes as they left it, and a deleted one is given
// to no run any more. Queued runs lose it by events of their own.
void RunBook::change_input(SessionRuns& runs, const journal::Event& event) {
  const std::string_view target = json::find(event.data, "target").value_or("{}");
  const bool is_deleted = event.envelope.type == journal::EventType::message_deleted;
  std::optional<std::string> read;
  const auto text = [&read, &event]() -> const std::string& {  // long ones are read only if anything keeps it
    if (!read) read = transcripts::edited_text({.edit = std::string(event.data)});
    return *read;
  };
  unwritten_.forget();  // lines of before may have its text: what was said, dropped or waited
  change_response(runs, event.envelope.key, target, is_deleted ? std::function<std::string()>() : text);
  if (text_at(target, "sessionId") != event.envelope.session_id) return;
  const std::string id = text_at(target, "id");
  const auto topic = json::string_at(target, "topic");
  for (runs::Overflow& overflow : runs.overflows) {
    if (is_deleted)
      overflow.forget(id);
    else
      overflow.edit(id, text());
  }
  std::erase_if(runs.overflows, [](const runs::Overflow& overflow) { return overflow.dropped == 0; });
  if (runs.takeover && is_deleted) runs.takeover->forget(id, topic);
  if (runs.takeover && !is_deleted) runs.takeover->edit(id, topic, policy::overflow_line(text()));
  for (Run& run : runs.queued) {
    const auto index = static_cast<std::size_t>(std::ranges::find(run.input, id) - run.input.begin());
    if (run.topic != topic || index >= run.texts.size()) continue;
    run.texts[index] = is_deleted ? "" : policy::overflow_line(text());
    unwritten_.add(name_of_run('q', event.envelope.key, run.id));
  }
  if (!runs.active || runs.active->topic != topic) return;
  if (is_deleted) {
    if (std::ranges::find(runs.active->input, id) != runs.active->input.end()) runs.active->deleted.push_back(id);
    std::erase_if(runs.steered, [&id](const Steered& each) { return each.entry_id == id; });
  } else if (const auto steered = std::ranges::find(runs.steered, id, &Steered::entry_id);
             steered != runs.steered.end()) {
    steered->text = text();
  }
}

const SessionRuns* RunBook::find(std::string_view key) const {
  const auto found = sessions_.find(key);
  return found == sessions_.end() ? nullptr : &found->second;
}

std::uint64_t RunBook::next_fence(std::string_view key) const {
  const SessionRuns* runs = find(key);
  return 1 + (runs == nullptr || runs->fence == 0 ? fence_floor_ : runs->fence);
}

void RunBook::list_open(const std::string& key) {
  if (const auto listed = waiting_since_.find(key); listed != waiting_since_.end()) {
    waiting_.erase({listed->second, key});
    waiting_since_.erase(listed);
  }
  active_.erase(key);
  const SessionRuns* runs = find(key);
  if (runs != nullptr && runs->active) active_.insert(key);
  taken_over_.erase(key);
  if (runs != nullptr && runs->takeover) taken_over_.insert(key);
  if (runs == nullptr || !runs->may_start()) return;
  const std::int64_t since = runs->queued.front().created_at;
  waiting_.emplace(since, key);
  waiting_since_.emplace(key, since);
}

void RunBook::start(SessionRuns& runs, const std::string& key, const RunTold& told) {
  const Run& run = told.run;
  runs.fence = next_fence(key);
  runs.last_runner = run.runner;
  std::erase_if(runs.queued, [&run](const Run& each) { return each.id == run.id; });
  runs.partial.clear();
  runs.calls = 0;
  runs.steered.clear();
  if (const auto* overflow = runs.overflow_for(run); overflow != nullptr && told.overflow_told)
    runs.overflows.erase(runs.overflows.begin() + (overflow - runs.overflows.data()));
  runs.opening.begin();
  runs.active = run;
}

void RunBook::finish(SessionRuns& runs, const Change& change, const RunTold& told) {
  const Run& run = told.run;
  const std::string& key = change.envelope.key;
  if (runs.active && runs.active->id == run.id) {
    if (told.by_runner) {
      runs.finished.push_back({run.id, runs.fence, runs.active->token});
      unwritten_.add(name_of_run('f', key, run.id));
    }
    runs.active.reset();
    runs.partial.clear();
    runs.steered.clear();
    runs.approvals.end_run();
  }
  std::erase_if(runs.queued, [&run](const Run& each) { return each.id == run.id; });
  if (told.unlisted) return;
  runs.ended.push_back({.seq = change.envelope.seq,
                        .id = run.id,
                        .status = run.status,
                        .response_entry = run.response_entry,
                        .json = std::make_shared<const std::string>(run_json(key, run))});
  unwritten_.add(name_of_run('r', key, run.id));
  ++ended_;
  const std::size_t most = ended_ > most_ended ? 1 : keep_;  // a full book keeps the last of each session
  while (runs.ended.size() > most) {
    const EndedRun oldest = std::move(runs.ended.front());
    runs.ended.pop_front();
    if (std::erase_if(runs.finished, [&oldest](const Finished& each) { return each.run_id == oldest.id; }) != 0)
      unwritten_.add(name_of_run('f', key, oldest.id));
    forget_ended(key, oldest);
  }
}

// What the session keeps of its messages is about to go. It leaves the lines of before, too.
void RunBook::forget_lines_of(const SessionRuns& runs) {
  if (!runs.overflows.empty() || runs.takeover) unwritten_.forget();
}

void RunBook::forget_ended(const std::string& key, const EndedRun& run) {
  unwritten_.add(name_of_run('r', key, run.id));
  --ended_;
}

namespace {

// Takes in what a runner, or the person who speaks in place of the agent, has said. Returns whether it is about runs.
bool take_said(SessionRuns& runs, const journal::Envelope& about, const MessageAppended& said) {
  const bool is_by_run = runs.active && said.said_by_run;
  if (is_by_run) {  // what is said in an entry is not partial text any more
    runs.partial.clear();
    runs.text_seq = about.seq;
    if (said.delivers || said.mirrored) runs.active->is_settled = true;
  }
  if (!runs.takeover || !said.word) return is_by_run;
  PersonsWord word{*said.word, about.topic};
  const auto before_it = static_cast<std::uint64_t>(json::int_at(said.message, "seq").value_or(0));
  word.seen_seq = word.seen_seq == 0 ? before_it : std::min(word.seen_seq, before_it);
  runs.takeover->say(std::move(word));
  return true;
}

// The same of session.takeover: that of another person, or a longer one of this.
void hold_by(std::optional<Takeover>& there, Takeover now) {
  if (there) {
    now.waiting = std::move(there->waiting);
    now.words = std::move(there->words);
  }
  there = std::move(now);
}

}  // namespace

SessionRuns* RunBook::find_mutable(const std::string& key) {
  const auto found = sessions_.find(key);
  return found == sessions_.end() ? nullptr : &found->second;
}

void RunBook::apply(const Change& change) {
  if (change.envelope.seq <= seq_) return;
  if (!std::visit([&](const auto& said) { return take(change, said); }, change.said())) return;
  seq_ = change.envelope.seq;
  unwritten_.add(head_name(change.envelope.key));
}

bool RunBook::take(const Change& change, const RunTold& told) {
  const std::string& key = change.envelope.key;
  SessionRuns& runs = sessions_[key];
  switch (change.envelope.type) {
    case journal::EventType::run_queued:
      put_in_queue(runs.queued, told.run);
      break;
    case journal::EventType::run_started:
      start(runs, key, told);
      break;
    case journal::EventType::run_aborting:
      abort_active(runs, told.run);
      break;
    default:
      finish(runs, change, told);
      break;
  }
  unwritten_.add(name_of_run('q', key, told.run.id));
  drop(runs, told.overflow);
  list_open(key);
  return true;
}

bool RunBook::take(const Change& change, const RunInputs& inputs) {
  SessionRuns* runs = find_mutable(change.envelope.key);
  if (runs == nullptr) return false;
  const auto run = std::ranges::find(runs->queued, inputs.run_id, &Run::id);
  if (run != runs->queued.end()) {
    change_inputs(*run, inputs);
    unwritten_.add(name_of_run('q', change.envelope.key, run->id));
  }
  drop(*runs, inputs.overflow);
  return true;
}

bool RunBook::take(const Change& change, const RunProgress& progress) {
  SessionRuns& runs = sessions_[change.envelope.key];
  if (progress.said) add_partial(runs, *progress.said, change.envelope.seq);
  if (progress.call != 0) runs.calls = progress.call;
  confirm(runs, progress.steered);
  return true;
}

bool RunBook::take(const Change& change, const RunnerTold& told) {
  SessionRuns& runs = sessions_[change.envelope.key];
  const bool starts = change.envelope.type == journal::EventType::step_started;
  if (runs.active && starts) runs.active->steps = json::int_at(told.as_sent, "step").value_or(0);
  if (runs.active && (starts || change.envelope.type == journal::EventType::step_finished))
    runs.active->in_step = starts;
  if (told.call != 0) runs.calls = told.call;
  return true;
}

bool RunBook::take(const Change& change, const DirectiveInjected& injected) {
  sessions_[change.envelope.key].steered.push_back(injected.steered);
  return true;
}

bool RunBook::take(const Change& change, const Approval& approval) {
  sessions_[change.envelope.key].approvals.put(approval);
  return true;
}

bool RunBook::take(const Change& change, const TakeoverTold& told) {
  hold_by(sessions_[change.envelope.key].takeover, told.takeover);
  list_open(change.envelope.key);
  return true;
}

bool RunBook::take(const Change& change, const HandbackTold& /*told*/) {
  SessionRuns* runs = find_mutable(change.envelope.key);
  if (runs == nullptr) return false;
  runs->takeover.reset();
  list_open(change.envelope.key);
  return true;
}

bool RunBook::take(const Change& change, const MessageHeld& held) {
  SessionRuns* runs = find_mutable(change.envelope.key);
  if (runs == nullptr || !runs->takeover) return false;
  runs->takeover->hold(held.message);
  return true;
}

bool RunBook::take(const Change& change, const HookTold& hook) {
  if (change.envelope.type != journal::EventType::hook_called || hook.event != "SessionStart") return false;
  sessions_[change.envelope.key].opening.begin();
  return true;
}

bool RunBook::take(const Change& change, const ShutdownTold& told) {
  sessions_[change.envelope.key].opening = {.next = "resume", .reason = told.reason, .shut_down_at = told.at};
  return true;
}

bool RunBook::take(const Change& change, const SessionResumed& /*resumed*/) {
  if (Opening& opening = sessions_[change.envelope.key].opening; opening.next.empty()) opening.next = "resume";
  return true;
}

bool RunBook::take(const Change& change, const MessageAppended& said) {
  SessionRuns* runs = find_mutable(change.envelope.key);
  return runs != nullptr && take_said(*runs, change.envelope, said);
}

bool RunBook::take(const Change& change, Raw /*said*/) {
  using journal::EventType;
  const std::string& key = change.envelope.key;
  SessionRuns* runs = find_mutable(key);
  switch (change.envelope.type) {
    case EventType::session_created: {
      const std::string_view source = source_after(change.data);
      if (source.empty()) return false;
      sessions_[key].opening.next = source;
      return true;
    }
    case EventType::session_reset:
    case EventType::context_cleared:
      if (runs == nullptr) return false;
      forget_lines_of(*runs);
      runs->overflows.clear();
      if (runs->takeover) runs->takeover->forget_transcripts();
      runs->opening.is_open = false;
      runs->opening.next = text_at(change.data, "reason") == "import" ? "resume" : "clear";
      return true;
    case EventType::topic_deleted:
      if (runs == nullptr) return false;
      forget_lines_of(*runs);
      std::erase_if(runs->overflows, [&change](const runs::Overflow& overflow) {
        return overflow.of && overflow.of->topic == change.envelope.topic;
      });
      if (runs->takeover) runs->takeover->forget_transcripts(change.envelope.topic);
      return true;
    case EventType::message_edited:
    case EventType::message_deleted:
      if (runs == nullptr) return false;
      change_input(*runs, change);
      return true;
    case EventType::session_deleted:
      if (runs == nullptr) return false;
      fence_floor_ = std::max(fence_floor_, runs->fence);
      for (const Run& run : runs->queued) unwritten_.add(name_of_run('q', key, run.id));
      for (const EndedRun& run : runs->ended) forget_ended(key, run);
      for (const Finished& finished : runs->finished) unwritten_.add(name_of_run('f', key, finished.run_id));
      unwritten_.forget();
      sessions_.erase(key);
      list_open(key);
      return true;
    default:
      return false;
  }
}

namespace {

// Finds members of a list by their id. A session may have 10 000 runs that wait, and as many that have ended.
template <class List, auto id>
class IdIndex {
 public:
  const List::value_type* find(const List& list, std::string_view wanted) {
    if (of_ != &list) {
      of_ = &list;
      by_id_.clear();
      for (const auto& each : list) by_id_.emplace(each.*id, &each);
    }
    const auto found = by_id_.find(wanted);
    return found == by_id_.end() ? nullptr : found->second;
  }

 private:
  const List* of_ = nullptr;
  std::unordered_map<std::string_view, const typename List::value_type*> by_id_{};
};

}  // namespace

struct RunBook::Indexes {
  IdIndex<std::deque<Run>, &Run::id> queued{};
  IdIndex<std::deque<EndedRun>, &EndedRun::id> ended{};
  IdIndex<std::vector<Finished>, &Finished::run_id> finished{};
};

BookRecord RunBook::record(const std::string& name, Indexes& indexes) const {
  const std::string_view rest = std::string_view(name).substr(2);
  if (name.front() == 's') {
    const SessionRuns* runs = find(rest);
    if (runs == nullptr || runs->is_empty()) return {.key = name};
    return {.key = name, .value = std::make_shared<const std::string>(head_json(*runs))};
  }
  const std::size_t space = rest.rfind(' ');
  const SessionRuns* runs = find(rest.substr(0, space));
  const std::string_view id = rest.substr(space + 1);
  if (runs == nullptr) return {.key = name};
  if (name.front() == 'q') {
    const Run* run = indexes.queued.find(runs->queued, id);
    if (run == nullptr) return {.key = name};
    return {.key = name, .value = std::make_shared<const std::string>(json::to_json(*run))};
  }
  if (name.front() == 'f') {
    const Finished* finished = indexes.finished.find(runs->finished, id);
    if (finished == nullptr) return {.key = name};
    return {.key = name, .value = std::make_shared<const std::string>(json::to_json(*finished))};
  }
  const EndedRun* run = indexes.ended.find(runs->ended, id);
  if (run == nullptr) return {.key = name};
  return {.key = name, .value = run->json, .order = run->seq};
}

void RunBook::list_records() {
  std::set<std::string> names;
  for (const auto& [key, runs] : sessions_) {
    names.insert(head_name(key));
    for (const Run& run : runs.queued) names.insert(name_of_run('q', key, run.id));
    for (const EndedRun& run : runs.ended) names.insert(name_of_run('r', key, run.id));
    for (const Finished& finished : runs.finished) names.insert(name_of_run('f', key, finished.run_id));
  }
  unwritten_.list(std::move(names));
}

bool RunBook::take_changes(BookChanges& changes, BookSlice most) {
  if (unwritten_.lacks_list()) list_records();
  Indexes indexes;
  const auto record_of = [this, &indexes](const std::string& name) { return record(name, indexes); };
  if (!unwritten_.take(changes, most, record_of)) return false;
  json::ObjectWriter ending;
  ending.integer("end", static_cast<std::int64_t>(seq_));
  ending.integer("open", static_cast<std::int64_t>(active_.size() + waiting_.size() + taken_over_.size()));
  ending.integer("fenceFloor", static_cast<std::int64_t>(fence_floor_));
  if (changes.forgets) ending.boolean("forgets", true);
  changes.ending = ending.text();
  return true;
}

void RunBook::finish_reading() {
  for (auto& [key, runs] : sessions_) {
    std::ranges::sort(runs.ended, {}, &EndedRun::seq);
    std::map<std::string_view, std::size_t> places;
    for (const EndedRun& run : runs.ended) places.emplace(run.id, places.size());
    std::ranges::sort(runs.finished, {}, [&places](const Finished& finished) { return places[finished.run_id]; });
    ended_ += runs.ended.size();
    list_open(key);
  }
}

Result<RunBook> RunBook::from_records(std::span<const BookRecord> records, std::string_view ending) {
  RunBook book;
  book.seq_ = static_cast<std::uint64_t>(json::int_at(ending, "end").value_or(0));
  book.fence_floor_ = static_cast<std::uint64_t>(json::int_at(ending, "fenceFloor").value_or(0));
  std::map<std::string_view, std::string_view> waiting;  // by the name of the record
  for (const BookRecord& record : records)
    if (record.key.starts_with("q ")) waiting.emplace(record.key, *record.value);
  for (const BookRecord& record : records) {  // first the sessions: reading one replaces it
    if (!record.key.starts_with("s ")) continue;
    const std::string key = record.key.substr(2);
    SessionRuns& runs = book.sessions_[key] = json::from_json<SessionRuns>(*record.value);
    for (const std::string_view id : json::elements(json::find(*record.value, "queue").value_or("[]"))) {
      const auto found = waiting.find(name_of_run('q', key, json::as_string(id).value_or("")));
      if (found == waiting.end()) return fail(Code::degraded, "it has no run that waits");
      runs.queued.push_back(json::from_json<Run>(found->second));
    }
  }
  for (const BookRecord& record : records) {
    const char kind = record.key.front();
    if (kind == 's' || kind == 'q') continue;
    const std::size_t space = record.key.rfind(' ');
    if (space < 2 || (kind != 'r' && kind != 'f')) return fail(Code::degraded, "it has no runs");
    SessionRuns& runs = book.sessions_[record.key.substr(2, space - 2)];
    if (kind == 'r')
      runs.ended.push_back(read_ended(record.order, record.value));
    else
      runs.finished.push_back(json::from_json<Finished>(*record.value));
  }
  book.finish_reading();
  book.unwritten_.start_clean();
  return book;
}

Result<RunBook> RunBook::from_json(std::string_view text) {
  const auto seq = json::int_at(text, "seq");
  const auto sessions = json::find(text, "sessions");
  if (!seq || !sessions || json::kind(*sessions) != json::Kind::object) return fail(Code::degraded, "it has no runs");
  RunBook book;
  book.seq_ = static_cast<std::uint64_t>(*seq);
  book.fence_floor_ = static_cast<std::uint64_t>(json::int_at(text, "fenceFloor").value_or(0));
  for (const json::Member& member : json::members(*sessions))
    book.sessions_[json::unescape(member.name)] = read_session(member.value);
  book.finish_reading();
  book.list_records();
  return book;
}

}  // namespace sessiond::decide
