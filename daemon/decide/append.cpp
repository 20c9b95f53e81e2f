#include "daemon/decide/append.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/decide/apply.hpp"
#include "daemon/decide/run_steps.hpp"
#include "daemon/decide/steps.hpp"
#include "daemon/decide/token_counters.hpp"
#include "policy/context/doom_loop.hpp"
#include "policy/context/window.hpp"
#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/sums.hpp"

namespace sessiond::decide {
namespace {

// Returns whether a stored line has the same content as a new entry with its id, apart from what the daemon filled in.
bool same_content(std::string_view line, const transcripts::NewEntry& entry) {
  if (json::string_at(line, "type").value_or("") != entry.type) return false;
  if (entry.type == "message") {
    std::string stored(json::find(line, "message").value_or("{}"));
    if (entry.stamp && !json::find(entry.body, "timestamp"))
      stored = json::apply(stored, {.set = {}, .unset = {"timestamp"}});
    return json::same(stored, entry.body);
  }
  const std::string rest = json::apply(line, {.set = {}, .unset = {"type", "id", "parentId", "timestamp"}});
  return json::same(rest, "{" + entry.body + "}");
}

class EntryAppender {
 public:
  EntryAppender(DecisionBuilder& builder, const Session& session, const AppendRequest& request,
                const FetchedLines& fetched, bool fresh)
      : builder_(builder),
        session_(session),
        request_(request),
        fetched_(fetched),
        counters_(static_cast<const Counters&>(session)),
        has_first_message_(session.has_first_message),
        needs_(session.needs) {
    done_.file = AgentState::file_of(session, request.topic);
    known_ = fresh && !has_appended();
    if (known_) return;
    if (builder.context().rests_on != nullptr && !fresh) *builder.context().rests_on = done_.file;
    const TranscriptEnd* end = builder.transcript_end(done_.file);
    known_ = end != nullptr;
    if (known_) end_ = *end;
  }

  // Called once.
  Result<AppendResult> run() {
    if (request_.topic && !builder_.state().may_use(session_, done_.file)) {
      return fail(Code::session_exists, fmt::format("the transcript of the topic {} is taken", *request_.topic));
    }
    if (request_.to_stream && request_.topic == session_.own_topic())
      return fail(Code::reserved_name,
                  fmt::format("the conversation of {} has the place of the stream", session_.key()));
    if (!known_) {
      need(Need::What::transcript_end);
      return std::move(done_);
    }
    if (!session_.entry_count && !request_.to_stream && builder_.context().durable) {
      builder_.out.need = Need{Need::What::counts, session_.key()};
      return std::move(done_);
    }
    if (request_.expected_seq && *request_.expected_seq != end_.count) {
      return fail(Code::precondition_failed,
                  fmt::format("expectedSeq is {}, but the next entry gets {}", *request_.expected_seq, end_.count));
    }
    topic_is_new_ = end_.size == 0 && request_.topic && *request_.topic != session_.own_topic();
    if (topic_is_new_) {
      const auto* topics = builder_.state().transcripts.topics(session_.session_id);
      if (topics != nullptr && topics->size() >= limits::topics && !topics->contains(*request_.topic))
        return fail_at("/topic", fmt::format("{} has {} topics; a session may have {}", session_.key(), topics->size(),
                                             limits::topics));
    }
    TRY(know_ids());
    if (builder_.out.need) return std::move(done_);
    if (end_.count != 0 && !end_.meter && !has_appended()) {
      need(Need::What::meter);
      return std::move(done_);
    }
    if (end_.count == 0)
      meter_ = std::make_shared<context::Meter>();
    else if (end_.meter)
      meter_ = std::make_shared<context::Meter>(*end_.meter);
    const std::size_t most = request_.entries.size() + 2;  // and topic.created, and the header's line
    builder_.out.events.reserve(builder_.out.events.size() + most);
    builder_.out.line_positions.reserve(builder_.out.line_positions.size() + most);
    for (std::size_t i = 0; i < request_.entries.size(); ++i) {
      offer_ = i < request_.deliveries.size() && request_.deliveries[i] ? &*request_.deliveries[i] : nullptr;
      TRY(append(request_.entries[i]));
      offer_ = nullptr;
      TRY(note_own_word(request_.entries[i]));
      warn_of_loop();
    }
    if (request_.is_too_long && is_due()) tell_due();
    if (!unknown_calls_.empty()) {
      need(Need::What::calls, {unknown_calls_.begin(), unknown_calls_.end()});
      return std::move(done_);
    }
    if (const std::uint64_t most_bytes = builder_.context().rules->log.stream_bytes;
        request_.to_stream && end_.size > most_bytes)
      return fail(Code::content_too_large,
                  fmt::format("the stream has {} bytes then; limits.streamBytes is {}", end_.size, most_bytes));
    end_.meter = std::move(meter_);
    if (done_.ids.size() > done_.duplicates) note_end();
    return std::move(done_);
  }

 private:
  void need(Need::What what, std::vector<std::string> ids = {}) {
    builder_.out.need = Need{what, done_.file, std::move(ids), builder_.state().order_of(session_, done_.file)};
  }

  // Returns whether this decision has appended to the transcript before. It may be unmeasured then.
  bool has_appended() const {
    return std::ranges::find(builder_.out.transcript_updates, done_.file, &TranscriptUpdate::file) !=
           builder_.out.transcript_updates.end();
  }

  // Returns whether the transcript is the session's own, not that of a topic.
  bool is_own() const { return !request_.topic || *request_.topic == session_.own_topic(); }

  void note_end() {
    auto& updates = builder_.out.transcript_updates;
    const auto mine = std::ranges::find(updates, done_.file, &TranscriptUpdate::file);
    if (mine == updates.end()) {
      updates.push_back({.file = done_.file, .end = std::move(end_), .ids = std::move(new_ids_)});
      return;
    }
    mine->end = std::move(end_);
    mine->ids.insert(mine->ids.end(), new_ids_.begin(), new_ids_.end());
  }

  void header() {
    if (end_.size != 0) return;
    if (topic_is_new_) builder_.emit(journal::EventType::topic_created, session_, "{}", request_.topic);
    const std::string own_cwd = json::string_at(*session_.entry(), "cwd").value_or("");
    const std::string& cwd = own_cwd.empty() ? builder_.context().rules->cwd : own_cwd;
    std::string line = transcripts::header_line(session_.session_id, builder_.context().now, cwd, {});
    place_line(builder_, end_, done_.file, builder_.next_seq(),
               {.line = line, .made = journal::MadeLine{.text = std::move(line)}});
    end_.has_header = true;
    end_.started = builder_.context().now;
  }

  // Makes sure that it is known which of the given ids the transcript has. Asks for all lines that may have one at
  // once.
  Result<void> know_ids() {
    std::unordered_set<std::string_view> own;
    std::vector<std::string> unknown;
    for (const transcripts::NewEntry& entry : request_.entries) {
      if (entry.id.empty()) continue;
      if (!end_.ids && end_.size != 0) {
        need(Need::What::entry_ids);
        return {};
      }
      if (!end_.ids) end_.ids = std::make_shared<transcripts::IdSet>();
      if (!own.insert(entry.id).second)
        return fail(Code::entry_id_conflict, fmt::format("this request has two entries with the id {}", entry.id));
      if (end_.ids->contains(transcripts::id_hash(entry.id)) && !fetched_.contains(entry.id))
        unknown.push_back(entry.id);
    }
    if (!unknown.empty()) need(Need::What::lines, std::move(unknown));
    return {};
  }

  // Returns whether the transcript has the entry already. entry_id_conflict if it has another entry with that id.
  Result<bool> duplicate(const transcripts::NewEntry& entry) {
    const auto line = fetched_.find(entry.id);
    if (entry.id.empty() || line == fetched_.end()) return false;
    if (line->second.line.empty()) return false;  // another id with the same hash
    if (same_content(line->second.line, entry)) {
      note_seq(line->second.seq);
      return true;
    }
    return fail(Code::entry_id_conflict, fmt::format("the transcript has another entry with the id {}", entry.id));
  }

  Result<void> append(const transcripts::NewEntry& entry) {
    TRY(const auto twice, duplicate(entry));
    if (twice) {
      ++done_.duplicates;
      done_.again.push_back(entry.id);
      done_.ids.push_back(entry.id);
      return {};
    }
    std::string held;
    std::optional<context::Entry> read_now;
    const context::Entry& read = entry.seen ? entry.seen->entry : read_now.emplace(read_as_context(entry, held));
    TRY(check_files(entry, read));
    const bool branches = entry.parent_id && *entry.parent_id != end_.last_id;
    has_turns_ = !meter_ || meter_->all_turns() != 0;
    const Context& context = builder_.context();
    const std::string id = entry.id.empty() ? context.ids->entry_id() : entry.id;
    const Measured measured = measure(id, read, branches);
    TRY(check_pairs(read, measured));
    header();
    transcripts::Written written =
        transcripts::write_entry(entry, id, entry.parent_id.value_or(end_.last_id), end_.count, context.now);
    const std::int64_t cost_before = counters_.cost_microcents.value_or(0);
    emit(entry, id, read, written);
    place_line(builder_, end_, done_.file, builder_.next_seq() - 1,
               {.unstamped = written.exact && written.unstamped,
                .line = written.exact ? std::string() : written.line,
                .made = journal::MadeLine{.text = std::move(written.line), .id = id, .seq = end_.count}});
    end_.last_id = id;
    ++end_.count;
    end_.last_seq = builder_.next_seq() - 1;
    if (end_.ids) new_ids_.push_back(transcripts::id_hash(id));
    done_.ids.push_back(id);
    note_seq(end_.count - 1);
    if (!measured.was_due && is_due()) tell_due();
    if (const std::int64_t cost = counters_.cost_microcents.value_or(0); cost != cost_before)
      tell_cost(builder_, session_, request_.topic, cost_before, cost);
    return {};
  }

  Result<void> check_files(const transcripts::NewEntry& entry, const context::Entry& read) const {
    const std::int64_t most = builder_.context().rules->context.files_per_message;
    if (read.files <= most) return {};
    const auto index = &entry - request_.entries.data();
    return fail_at(request_.in_list ? fmt::format("/entries/{}", index) : "",
                   fmt::format("has {} files; a message may have {} (context.maxFilesPerMessage)", read.files, most));
  }

  static context::Entry read_as_context(const transcripts::NewEntry& entry, std::string& held) {
    if (entry.type == "message") return context::read_entry(entry.type, entry.body);
    held = "{" + entry.body + "}";
    return context::read_entry(entry.type, held);
  }

  // An entry as the meter has taken it in.
  struct Measured {
    std::optional<context::Taken> taken{};  // nothing: there is no meter
    std::uint64_t turn = 0;                 // of the meter, before the entry
    std::uint64_t messages = 0;             // with calls, before the entry
    bool was_due = true;                    // before the entry, or it is not known
  };

  // Says which calls and results have no counterpart, or refuses the entry.
  Result<void> check_pairs(const context::Entry& entry, const Measured& measured) {
    const context::PairRule rule = builder_.context().rules->context.pairs;
    if (request_.by_daemon || rule == context::PairRule::off || !measured.taken) return {};
    const bool is_strict = rule == context::PairRule::strict;
    if (!meter_->is_cut()) {
      for (std::size_t index = 0; index < entry.results.size(); ++index) {
        if (measured.taken->owners[index].is_shown()) continue;
        const std::string& id = entry.results[index].call_id;
        if (is_strict && !entry.person) TRY(check_call(id));
        if (!warn(Code::unmatched_tool_result, id) && !is_strict) break;
      }
    }
    if (is_strict)
      for (const context::ToolCall& call : entry.calls) called_.insert(call.id);
    const bool is_held = entry.person && meter_->runs.any();  // the results may come before it is handed to a run
    const bool ends_turn = entry.person && !is_held && !measured.taken->answers_any();
    if ((entry.role != context::Role::assistant && !ends_turn) || !meter_->calls.has_open(measured.turn)) return {};
    for (const context::KeptCall& call : meter_->calls.open()) {
      const bool is_of_turn = call.message >= measured.turn && call.message < measured.messages;
      if (is_of_turn && !warn(Code::unmatched_tool_call, call.id)) break;
    }
    return {};
  }

  // Refuses a result of a call that no message makes. Notes an id that has to be looked up.
  Result<void> check_call(const std::string& id) {
    if (called_.contains(id)) return {};
    const auto looked_up = fetched_.find(call_name(id));
    if (end_.count == 0 || (looked_up != fetched_.end() && looked_up->second.line.empty()))
      return fail(Code::unmatched_tool_result,
                  fmt::format("no message calls a tool by the id {} (messages.pairs is strict)",
                              id.substr(0, context::most_remembered)));
    if (looked_up == fetched_.end()) unknown_calls_.insert(id);
    return {};
  }

  // Returns false when the answer names no more.
  bool warn(Code code, const std::string& id) {
    constexpr std::size_t most = 100;
    if (done_.warnings.size() == most) return false;
    done_.warnings.push_back({code, id.substr(0, context::most_remembered)});
    return true;
  }

  Measured measure(const std::string& id, const context::Entry& entry, bool branches) {
    if (branches || entry.checkpoint) meter_.reset();  // the next decision asks for it
    if (!meter_) return {};
    // Behind a compaction it is told again, if that was not enough.
    const bool is_first = !meter_->checkpoint.empty() && meter_->checkpoint == end_.last_id;
    Measured measured{.turn = meter_->turn,
                      .messages = meter_->calls.messages(),
                      .was_due = request_.is_too_long || (!is_first && is_due())};
    measured.taken = meter_->add(id, entry, builder_.context().rules->context.doom_count);
    if (meter_->misplaced) {
      meter_.reset();
      return {};
    }
    return measured;
  }

  bool tells_due() const {
    return builder_.context().rules->context.compaction.when != context::CompactionTime::run_start;
  }

  context::Due due() {
    return context::due(*meter_, window().tokens, builder_.context().rules->context.compaction, request_.is_too_long);
  }
  bool is_due() { return tells_due() && meter_ && meter_->all_messages() > 1 && due().compaction; }

  const context::Window& window() {
    if (!window_)
      window_ = context::window_of(session_.context_tokens, *session_.entry_with_old_counters(),
                                   builder_.context().rules->context);
    return *window_;
  }

  void tell_due() {
    json::ObjectWriter data;
    data.integer("used", meter_->used());
    data.integer("window", window().tokens);
    data.integer("messages", meter_->all_messages());
    data.integer("turns", meter_->all_turns());
    data.string("reason", due().reason);
    builder_.emit(journal::EventType::compaction_due, session_, data.text(), request_.topic);
  }

  // A person's message that the runner writes belongs to its run as if it had been handed it.
  Result<void> note_own_word(const transcripts::NewEntry& entry) {
    if (entry.role != "user" || done_.ids.empty()) return {};
    const Run* run = request_.run;
    const SessionRuns* runs = builder_.state().runs.find(session_.key());
    if (const RunHold* hold = builder_.context().run; run == nullptr && hold != nullptr && !request_.by_daemon &&
                                                      runs != nullptr && runs->active &&
                                                      runs->active->id == hold->run_id)
      run = &*runs->active;
    std::string held;
    if (run == nullptr || run->topic != request_.topic) return {};
    if (!(entry.seen ? entry.seen->entry.person : read_as_context(entry, held).person)) return {};
    const std::string& id = done_.ids.back();
    if (std::ranges::find(done_.again, id) != done_.again.end()) return {};
    const AppendResult before = done_;
    TRY(append(input_note(builder_, *run, {id})));
    done_ = before;  // the answer tells of the request's own entries
    return {};
  }

  // Warns a model that calls a tool again and again, when its calls have their results.
  void warn_of_loop() {
    const auto loop = meter_ ? meter_->take_doom() : std::nullopt;
    if (!loop) return;
    if (builder_.context().rules->context.doom_inject) {
      transcripts::NewEntry warning{.type = "message", .role = "user", .stamp = true};
      warning.body =
          fmt::format(R"({{"role":"user","content":{},"synthetic":true}})", json::quote(context::warning_of(*loop)));
      const AppendResult before = done_;
      (void)append(warning);  // it has no id, so nothing can be wrong with it
      done_ = before;         // the answer tells of the request's own entries
    }
    json::ObjectWriter data;
    data.string("tool", loop->tool);
    data.integer("count", loop->count);
    data.raw("callIds", json::array_of(loop->call_ids));
    builder_.emit(journal::EventType::doom_loop_detected, session_, data.text(), request_.topic);
  }

  void note_seq(std::uint64_t seq) {
    const bool first = std::exchange(has_seqs_, true);
    done_.first_seq = first ? std::min(done_.first_seq, seq) : seq;
    done_.last_seq = first ? std::max(done_.last_seq, seq) : seq;
    done_.seq = seq;
  }

  void emit(const transcripts::NewEntry& entry, const std::string& id, const context::Entry& read,
            transcripts::Written& written) {
    if (request_.to_stream)
      return builder_.emit(journal::EventType::message_appended, session_,
                           MessageAppended{.message = std::move(written.message)}, request_.topic);
    CountedEdit edit;
    edit.counted.set(Counter::updated_at, moved_to(session_, builder_.context().now));
    // Only messages of people count. If the clock was set back, the time goes back, too.
    if (read.person) edit.counted.set(Counter::last_interaction_at, builder_.context().now);
    const auto count = [&edit](Counter name, std::optional<std::int64_t>& counter, std::int64_t more) {
      counter = policy::add_counted(counter.value_or(0), more);
      edit.counted.set(name, *counter);
    };
    if (context::is_message(entry.type, read)) count(Counter::message_count, counters_.message_count, 1);
    count(Counter::entry_count, counters_.entry_count, 1);
    if (read.usage && !entry.usage.empty()) {
      count_usage(counters_, *read.usage, {.shared = builder_.context().rules->shared, .is_context = is_own()}, edit);
      if (const std::int64_t cost = policy::cost_of(entry.usage); cost > 0)
        count(Counter::cost_microcents, counters_.cost_microcents, cost);
    } else if (builder_.context().rules->shared && counters_.usage_totals && !counters_.tokens_fresh) {
      mark_stale(counters_, true, edit);  // totalTokens is a sum, of the time when the store was not shared
    }
    if (entry.type == "compaction") {
      count(Counter::compaction_count, counters_.compaction_count, 1);
      if (is_own()) mark_stale(counters_, builder_.context().rules->shared, edit);
    }
    if (context::tells_model(read)) {
      window_.reset();  // it may be another model's now
      if (context::is_name(read.provider)) edit.rest.put("modelProvider", std::string(read.provider));
      edit.rest.put("model", std::string(read.model));
    }
    if (read.person && !transcripts::is_hint(entry)) note_first(read.content, id, edit.rest);
    note_needs(entry, edit.rest);
    MessageAppended told = request_.told;
    if (const RunHold* run = builder_.context().run; run != nullptr && !request_.by_daemon) {
      told.run_id = run->run_id;
      told.said_by_run = entry.role == "assistant";
    }
    if (read.person) told.used = client_of(builder_.context());
    if (offer_ != nullptr) {
      told.offer = *offer_;
      told.delivers = offer_->status != DeliveryOffer::Status::denied;
      if (told.delivers) told.age_created_at = builder_.context().age_now;
    }
    told.counted = edit.counted;
    told.message = std::move(written.message);
    builder_.emit(journal::EventType::message_appended, session_, std::move(told), request_.topic,
                  std::move(edit.rest));
  }

  // Keeps the beginning of the session's first message of a person. Of a session that had messages before there was
  // such a field it is not known.
  void note_first(std::string_view content, const std::string& id, json::Edit& edit) {
    if (std::exchange(has_first_message_, true) || has_turns_) return;
    const std::string text = transcripts::beginning_of(content);
    if (text.empty()) return;
    edit.put_string("firstMessage", text);
    edit.put_string("firstMessageId", id);
  }

  // Returns whether the entry is the one of the request that waits for an answer.
  bool asks(const transcripts::NewEntry& entry) {
    if (!request_.needs_answer || asks_ || transcripts::is_hint(entry)) return false;
    return asks_ = true;
  }

  // Notes that the entry waits for an answer, or is one.
  void note_needs(const transcripts::NewEntry& entry, json::Edit& edit) {
    std::string now = needs_;
    if (request_.needs)
      now = after_deletion(needs_, *request_.needs, builder_.context().now);
    else if (asks(entry))
      now = with_need(needs_, request_.topic, end_.count, builder_.context().now);
    else if (request_.needs_after)
      now = *request_.needs_after;
    else if (!needs_.empty() && entry.role == "assistant" && transcripts::is_answer(entry))
      now = without_need(needs_, request_.topic);
    if (now == needs_) return;
    needs_ = std::move(now);
    if (needs_.empty())
      edit.remove("needs");
    else
      edit.put("needs", needs_);
  }

  // Notes where a line goes: behind all others. `position` has only what is said of the line itself.
  DecisionBuilder& builder_;
  const Session& session_;
  const AppendRequest& request_;
  const FetchedLines& fetched_;
  Counters counters_;  // the session's, with the entries so far
  AppendResult done_;
  TranscriptEnd end_;
  const DeliveryOffer* offer_ = nullptr;  // of the entry that is being appended; null: it is not delivered
  bool known_ = false;
  bool topic_is_new_ = false;
  bool has_seqs_ = false;                  // first_seq and last_seq are set
  std::shared_ptr<context::Meter> meter_;  // null: unknown
  std::optional<context::Window> window_{};
  bool has_turns_ = false;  // there were, or may have been, messages of people before the entry
  // Ids of calls, where messages.pairs is strict: of this request, and those that have to be looked up.
  std::set<std::string, std::less<>> called_{}, unknown_calls_{};
  std::vector<std::uint32_t> new_ids_;
  bool has_first_message_;
  bool asks_ = false;  // an entry waits for an answer, and no further one does
  std::string needs_;  // of the session, with the entries so far; empty: nothing waits
};

}  // namespace

Result<AppendResult> append_entries(DecisionBuilder& builder, const Session& session, const AppendRequest& request,
                                    const FetchedLines& fetched, bool fresh) {
  return EntryAppender(builder, session, request, fetched, fresh).run();
}

}  // namespace sessiond::decide
