#include "daemon/decide/run_book.hpp"
#include "policy/overflow.hpp"

#include <algorithm>
#include <cassert>
#include <functional>

#include "store/json/raw_json.hpp"
#include "transcripts/changes.hpp"

namespace sessiond::decide {
namespace {

constexpr std::size_t most_ended = 10'000;  // of an agent: its file is written whole

bool is_of_runs(journal::EventType type) {
  return type >= journal::EventType::run_queued && type <= journal::EventType::approval_resolved;
}

std::int64_t number(std::optional<std::string_view> value) { return json::as_int(value.value_or("null")).value_or(0); }

std::string text_at(std::string_view object, std::string_view name) {
  return json::string_at(object, name).value_or("");
}

std::string stored_session(const SessionRuns& runs) {
  json::ObjectWriter out;
  out.integer("fence", static_cast<std::int64_t>(runs.fence));
  if (runs.active) out.raw("active", stored_run(*runs.active));
  if (!runs.partial.empty()) out.string("partial", runs.partial);
  if (runs.calls != 0) out.integer("calls", static_cast<std::int64_t>(runs.calls));
  const auto put_list = [&out](std::string_view name, const auto& list, auto text_of) {
    if (list.empty()) return;
    std::string array = "[";
    for (const auto& each : list) array.append(array.size() > 1 ? "," : "").append(text_of(each));
    out.raw(name, array + "]");
  };
  put_list("steered", runs.steered, [](const Steered& steered) {
    json::ObjectWriter each;
    each.string("entryId", steered.entry_id);
    each.string("text", steered.text);
    return each.text();
  });
  put_list("queued", runs.queued, stored_run);
  put_list("overflows", runs.overflows, overflow_json);
  put_list("ended", runs.ended, [](const std::shared_ptr<const std::string>& run) { return *run; });
  put_list("approvals", runs.approvals.all(), stored_approval);
  if (runs.opening.is_known()) {
    json::ObjectWriter opening;
    opening.boolean("open", runs.opening.is_open);
    if (!runs.opening.next.empty()) opening.string("next", runs.opening.next);
    if (runs.opening.shut_down_at != 0) {
      opening.string("reason", runs.opening.reason);
      opening.integer("shutDownAt", runs.opening.shut_down_at);
    }
    out.raw("opening", opening.text());
  }
  if (!runs.last_runner.empty()) out.string("lastRunner", runs.last_runner);
  if (runs.takeover) out.raw("takeover", stored_takeover(*runs.takeover));
  put_list("finished", runs.finished, [](const Finished& finished) {
    json::ObjectWriter each;
    each.string("runId", finished.run_id);
    each.integer("fence", static_cast<std::int64_t>(finished.fence));
    each.string("token", finished.token);
    return each.text();
  });
  return out.text();
}

Finished read_finished(std::string_view text) {
  return {.run_id = text_at(text, "runId"),
          .fence = static_cast<std::uint64_t>(number(json::find(text, "fence"))),
          .token = text_at(text, "token")};
}

SessionRuns read_session(std::string_view text) {
  SessionRuns runs;
  const json::Index members(text);
  runs.fence = static_cast<std::uint64_t>(number(members.find("fence")));
  if (const auto active = members.find("active")) runs.active = read_run(*active);
  runs.partial = members.string_at("partial").value_or("");
  runs.calls = static_cast<std::uint64_t>(number(members.find("calls")));
  for (const std::string_view each : json::elements(members.find("steered").value_or("[]")))
    runs.steered.push_back({text_at(each, "entryId"), text_at(each, "text")});
  for (const std::string_view each : json::elements(members.find("queued").value_or("[]")))
    runs.queued.push_back(read_run(each));
  for (const std::string_view each : json::elements(members.find("overflows").value_or("[]")))
    runs.overflows.push_back(read_overflow(each));
  if (const auto overflow = members.find("overflow")) runs.overflows = {read_overflow(*overflow)};  // earlier versions
  for (const std::string_view each : json::elements(members.find("ended").value_or("[]")))
    runs.ended.push_back(std::make_shared<const std::string>(each));
  for (const std::string_view each : json::elements(members.find("approvals").value_or("[]")))
    runs.approvals.put(read_approval(each));
  if (const auto opening = members.find("opening"))
    runs.opening = {.is_open = json::find(*opening, "open") == "true",
                    .next = text_at(*opening, "next"),
                    .reason = text_at(*opening, "reason"),
                    .shut_down_at = number(json::find(*opening, "shutDownAt"))};
  runs.last_runner = members.string_at("lastRunner").value_or("");
  if (const auto takeover = members.find("takeover")) runs.takeover = read_takeover(*takeover);
  const auto finished = members.find("finished").value_or("[]");
  if (json::kind(finished) == json::Kind::object) runs.finished.push_back(read_finished(finished));  // earlier versions
  for (const std::string_view each : json::elements(finished)) runs.finished.push_back(read_finished(each));
  return runs;
}

// The response of an ended run is as people left it, too.
void change_response(SessionRuns& runs, std::string_view target, const std::function<std::string()>& text) {
  const std::string id = text_at(target, "id");
  const std::string session_id = text_at(target, "sessionId");
  const auto topic = json::string_at(target, "topic");
  for (std::shared_ptr<const std::string>& run : runs.ended) {
    if (text_at(*run, "responseEntryId") != id) continue;  // it stands before the text, so no long text is read
    if (text_at(*run, "sessionId") != session_id || json::string_at(*run, "topic") != topic) continue;
    json::Edit edit;
    if (text)
      edit.put_string("response", text());
    else
      edit.remove("response");
    run = std::make_shared<const std::string>(json::apply(*run, edit));
  }
}

// People have edited or deleted a message: what is kept of its text becomes as they left it, and a deleted one is given
// to no run any more. Queued runs lose it by events of their own.
void change_input(SessionRuns& runs, const journal::Event& event) {
  const std::string_view target = json::find(event.data, "target").value_or("{}");
  const bool is_deleted = event.envelope.type == journal::EventType::message_deleted;
  std::optional<std::string> read;
  const auto text = [&read, &event]() -> const std::string& {  // long ones are read only if anything keeps it
    if (!read) read = transcripts::edited_text({.edit = std::string(event.data)});
    return *read;
  };
  change_response(runs, target, is_deleted ? std::function<std::string()>() : text);
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
    if (run.topic == topic && index < run.texts.size())
      run.texts[index] = is_deleted ? "" : policy::overflow_line(text());
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

// The source of the next SessionStart of a session that was made by this event; empty: as its entry says.
std::string_view source_after(std::string_view created) {
  const std::string reason = text_at(created, "reason");
  const bool has_messages = number(json::find(json::find(created, "entry").value_or("{}"), "messageCount")) > 0;
  return reason == "restore" || (reason == "import" && has_messages) ? "resume" : "";
}

// Takes off what the runner has confirmed.
void confirm(SessionRuns& runs, std::string_view ids) {
  for (const std::string_view id : json::elements(ids)) {
    const std::string confirmed = json::as_string(id).value_or("");
    std::erase_if(runs.steered, [&](const Steered& each) { return each.entry_id == confirmed; });
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

// Notes what an event tells of dropped inputs.
void take_dropped(SessionRuns& runs, const json::Index& data) {
  for (const std::string_view told : json::elements(data.find("overflow").value_or("[]"))) {
    const json::Index one(told);
    drop(runs,
         runs::Overflow::Of{.reply_to = std::string(one.find("replyTo").value_or("")),
                            .topic = one.string_at("topic").value_or("")},
         one.string_at("text").value_or(""), one.string_at("entryId").value_or(""));
  }
  // As an earlier version told it.
  std::vector<std::string> ids;
  for (const std::string_view id : json::elements(data.find("droppedIds").value_or("[]")))
    ids.push_back(json::as_string(id).value_or(""));
  auto id = ids.begin();
  for (const std::string_view text : json::elements(data.find("dropped").value_or("[]")))
    drop(runs, std::nullopt, json::as_string(text).value_or(""), id == ids.end() ? "" : std::move(*id++));
}

}  // namespace

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

void RunBook::start(SessionRuns& runs, const std::string& key, const json::Index& data, Run run) {
  runs.fence = next_fence(key);
  runs.last_runner = run.runner;
  std::erase_if(runs.queued, [&run](const Run& each) { return each.id == run.id; });
  runs.partial.clear();
  runs.calls = 0;
  runs.steered.clear();
  if (const auto* told = runs.overflow_for(run); told != nullptr && data.find("overflowTold"))
    runs.overflows.erase(runs.overflows.begin() + (told - runs.overflows.data()));
  runs.opening.begin();
  runs.active = std::move(run);
}

void RunBook::finish(SessionRuns& runs, const std::string& key, const json::Index& data, Run run) {
  if (runs.active && runs.active->id == run.id) {
    if (data.find("byRunner")) runs.finished.push_back({run.id, runs.fence, runs.active->token});
    runs.active.reset();
    runs.partial.clear();
    runs.steered.clear();
    runs.approvals.end_run();
  }
  std::erase_if(runs.queued, [&run](const Run& each) { return each.id == run.id; });
  if (data.find("unlisted")) return;
  runs.ended.push_back(std::make_shared<const std::string>(run_json(key, run)));
  ++ended_;
  const std::size_t most = ended_ > most_ended ? 1 : keep_;  // a full book keeps the last of each session
  while (runs.ended.size() > most) {
    std::erase_if(runs.finished, [id = text_at(*runs.ended.front(), "runId")](const Finished& finished) {
      return finished.run_id == id;
    });
    runs.ended.pop_front();
    --ended_;
  }
}

namespace {

// Takes in what a runner, or the person who speaks in place of the agent, has said. Returns whether it is about runs.
bool take_said(SessionRuns& runs, const journal::Event& event) {
  bool is_about_runs = false;
  if (runs.active && event.envelope.said_by_run) {  // what is said in an entry is no partial text any more
    runs.partial.clear();
    runs.text_seq = event.envelope.seq;
    if (event.envelope.delivers || json::find(event.data, "mirrored")) runs.active->is_settled = true;
    is_about_runs = true;
  }
  if (!runs.takeover) return is_about_runs;
  const auto word = json::find(event.data, "word");
  if (word) {
    PersonsWord said = read_word(*word, event.envelope.topic);
    const auto seq = json::int_at(json::find(event.data, "message").value_or("{}"), "seq");
    const auto before_it = static_cast<std::uint64_t>(seq.value_or(0));
    said.seen_seq = said.seen_seq == 0 ? before_it : std::min(said.seen_seq, before_it);
    runs.takeover->say(std::move(said));
  }
  return is_about_runs || word;
}

// The same of session.takeover: that of another person, or a longer one of this.
void hold_by(std::optional<Takeover>& there, std::string_view data) {
  Takeover now = read_takeover(data);
  if (there) {
    now.waiting = std::move(there->waiting);
    now.words = std::move(there->words);
  }
  there = std::move(now);
}

}  // namespace

void RunBook::apply(const journal::Event& event, ToldRun* told) {
  using journal::EventType;
  const EventType type = event.envelope.type;
  const std::string& key = event.envelope.key;
  if (type == EventType::message_appended) {
    const auto found = sessions_.find(key);
    if (found == sessions_.end() || event.envelope.seq <= seq_ || !take_said(found->second, event)) return;
  } else if (type == EventType::session_takeover) {
    if (event.envelope.seq <= seq_) return;
    hold_by(sessions_[key].takeover, event.data);
    list_open(key);
  } else if (type == EventType::session_handback) {
    const auto found = sessions_.find(key);
    if (found == sessions_.end() || event.envelope.seq <= seq_) return;
    found->second.takeover.reset();
    list_open(key);
  } else if (type == EventType::message_held) {
    const auto found = sessions_.find(key);
    if (found == sessions_.end() || event.envelope.seq <= seq_ || !found->second.takeover) return;
    found->second.takeover->hold(read_held(event.data, event.envelope.topic));
  } else if (type == EventType::session_reset || type == EventType::context_cleared) {
    const auto found = sessions_.find(key);
    if (found == sessions_.end() || event.envelope.seq <= seq_) return;
    found->second.overflows.clear();
    if (found->second.takeover) found->second.takeover->forget_transcripts();
    found->second.opening.is_open = false;
    found->second.opening.next = text_at(event.data, "reason") == "import" ? "resume" : "clear";
  } else if (type == EventType::topic_deleted) {
    const auto found = sessions_.find(key);
    if (found == sessions_.end() || event.envelope.seq <= seq_) return;
    std::erase_if(found->second.overflows, [&event](const runs::Overflow& overflow) {
      return overflow.of && overflow.of->topic == event.envelope.topic;
    });
    if (found->second.takeover) found->second.takeover->forget_transcripts(event.envelope.topic);
  } else if (type == EventType::session_updated) {
    if (!event.data.starts_with(R"({"shutdown":)") || event.envelope.seq <= seq_) return;
    const std::string_view shutdown = *json::find(event.data, "shutdown");
    sessions_[key].opening = {.next = "resume",
                              .reason = text_at(shutdown, "reason"),
                              .shut_down_at = json::int_at(shutdown, "at").value_or(0)};
  } else if (type == EventType::session_created) {
    const std::string_view source = source_after(event.data);
    if (event.envelope.seq <= seq_ || source.empty()) return;
    sessions_[key].opening.next = source;
  } else if (type == EventType::session_resumed) {
    if (event.envelope.seq <= seq_) return;
    if (Opening& opening = sessions_[key].opening; opening.next.empty()) opening.next = "resume";
  } else if (type == EventType::hook_called) {
    if (event.envelope.seq <= seq_ || json::string_at(event.data, "event") != "SessionStart") return;
    sessions_[key].opening.begin();
  } else if (type == EventType::message_edited || type == EventType::message_deleted) {
    const auto found = sessions_.find(key);
    if (found == sessions_.end() || event.envelope.seq <= seq_) return;
    change_input(found->second, event);
  } else if (type == EventType::session_deleted) {
    const auto found = sessions_.find(key);
    if (found == sessions_.end() || event.envelope.seq <= seq_) return;
    fence_floor_ = std::max(fence_floor_, found->second.fence);
    ended_ -= found->second.ended.size();
    sessions_.erase(found);
    list_open(key);
  } else if (!is_of_runs(type) || event.envelope.seq <= seq_) {
    return;
  } else {
    SessionRuns& runs = sessions_[key];
    const bool is_told = told != nullptr && told->seq == event.envelope.seq;
    const json::Index data(is_told ? told->more : event.data);
    const auto run = [&] { return is_told ? std::move(told->run) : read_run(data); };
    switch (type) {
      case EventType::run_queued:
        put_in_queue(runs.queued, run());
        break;
      case EventType::run_started:
        start(runs, key, data, run());
        break;
      case EventType::run_finished:
        finish(runs, key, data, run());
        break;
      case EventType::run_aborting:
        if (!runs.active) break;
        runs.active->status = RunStatus::aborting;
        if (const Run aborting = run(); aborting.superseded) {
          runs.active->superseded = true;
          runs.active->is_settled = aborting.is_settled;
        } else {
          runs.active->stopped_by = aborting.stopped_by;
        }
        break;
      case EventType::run_progress:
        if (!data.find("text")) break;
        runs.partial.resize(std::min(runs.partial.size(), static_cast<std::size_t>(number(data.find("atByte")))));
        runs.partial += data.string_at("text").value_or("");
        runs.text_seq = event.envelope.seq;
        break;
      case EventType::step_started:
        if (!runs.active) break;
        runs.active->steps = number(data.find("step"));
        runs.active->in_step = true;
        break;
      case EventType::step_finished:
        if (runs.active) runs.active->in_step = false;
        break;
      case EventType::directive_injected:
        runs.steered.push_back({data.string_at("entryId").value_or(""), data.string_at("text").value_or("")});
        break;
      case EventType::approval_requested:
      case EventType::approval_resolved:
        runs.approvals.put(read_approval(event.data));
        break;
      default:
        break;
    }
    if (const auto calls = data.find("n")) runs.calls = static_cast<std::uint64_t>(number(calls));
    if (const auto confirmed = data.find("steered")) confirm(runs, *confirmed);
    take_dropped(runs, data);
    list_open(key);
  }
  seq_ = event.envelope.seq;
  dirty_ = true;
}

std::string RunBook::to_json() {
  dirty_ = false;
  std::string sessions = "{";
  for (const auto& [key, runs] : sessions_) {
    if (runs.is_empty()) continue;
    if (sessions.size() > 1) sessions += ',';
    json::append_quoted(sessions, key);
    sessions.append(":").append(stored_session(runs));
  }
  json::ObjectWriter out;
  out.integer("seq", static_cast<std::int64_t>(seq_));
  out.integer("fenceFloor", static_cast<std::int64_t>(fence_floor_));
  out.raw("sessions", sessions + "}");
  return out.text();
}

Result<RunBook> RunBook::from_json(std::string_view text) {
  const auto seq = json::int_at(text, "seq");
  const auto sessions = json::find(text, "sessions");
  if (!seq || !sessions || json::kind(*sessions) != json::Kind::object) return fail(Code::degraded, "it has no runs");
  RunBook book;
  book.seq_ = static_cast<std::uint64_t>(*seq);
  book.fence_floor_ = static_cast<std::uint64_t>(json::int_at(text, "fenceFloor").value_or(0));
  for (const json::Member& member : json::members(*sessions)) {
    const std::string key = json::unescape(member.name);
    SessionRuns& runs = book.sessions_[key] = read_session(member.value);
    book.ended_ += runs.ended.size();
    book.list_open(key);
  }
  return book;
}

}  // namespace sessiond::decide
