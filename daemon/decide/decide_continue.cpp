// The decision about more entries of a transcript that was imported. They are stored as they are: nothing is checked,
// warned of or answered as with a message that someone says now.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "daemon/decide/steps.hpp"
#include "daemon/decide/token_counters.hpp"
#include "policy/context/entry.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"
#include "transcripts/changes.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::decide {
namespace {

class TranscriptContinuer {
 public:
  TranscriptContinuer(DecisionBuilder& builder, const Session& session, const ContinueTranscript& command,
                      const FetchedLines& fetched)
      : builder_(builder),
        session_(session),
        command_(command),
        fetched_(fetched),
        file_(AgentState::file_of(session, command.topic)),
        counters_(static_cast<const Counters&>(session)) {}

  // Called once. Returns the number of entries that were appended; meaningless if builder.out.need is set.
  Result<std::size_t> run() {
    if (command_.topic && !builder_.state().may_use(session_, file_))
      return fail(Code::session_exists, fmt::format("the transcript of the topic {} is taken", *command_.topic));
    if (builder_.context().rests_on != nullptr) *builder_.context().rests_on = file_;
    const TranscriptEnd* end = builder_.state().transcripts.find(file_);
    if (end == nullptr) return need(Need::What::transcript_end);
    end_ = *end;
    if (end_.size != 0 && !end_.ids) return need(Need::What::entry_ids);
    std::vector<std::string> unknown;
    for (const ImportedLine& line : command_.lines)
      if (!line.id.empty() && end_.ids && end_.ids->contains(transcripts::id_hash(line.id)) &&
          !fetched_.contains(line.id))
        unknown.push_back(line.id);
    if (!unknown.empty()) return need(Need::What::lines, std::move(unknown));
    const auto first = std::ranges::find_if(command_.lines, [](const ImportedLine& line) { return !line.id.empty(); });
    if (first == command_.lines.end() && end_.size != 0 && !command_.lines.empty())
      return fail(Code::session_exists, "is there, and none of the entries has an id, by which a new one is known");
    bool known = first != command_.lines.end() && is_there(first->id);
    for (const ImportedLine& line : command_.lines) {
      if (!line.id.empty()) known = is_there(line.id);
      if (!known) append(line);
    }
    if (appended_ == 0) return appended_;
    if (first_is_changed_) forget_first();
    end_.meter.reset();
    builder_.out.transcript_updates.push_back({.file = file_, .end = std::move(end_), .ids = std::move(new_ids_)});
    return appended_;
  }

 private:
  std::size_t need(Need::What what, std::vector<std::string> ids = {}) {
    builder_.out.need = Need{what, file_, std::move(ids)};
    return 0;
  }

  bool is_there(const std::string& id) const {
    const auto line = fetched_.find(id);
    return line != fetched_.end() && !line->second.line.empty();
  }

  void append(const ImportedLine& line) {
    const auto changed = transcripts::target_in(line.line);
    first_is_changed_ = first_is_changed_ || (changed && changed->what != "reaction" && changed->id == first_id_);
    if (end_.size == 0) begin();
    const std::uint64_t seq = end_.count;
    std::string held;
    const std::string text(store::as_utf8(line.line, held));  // the journal holds nothing else
    emit(line, json::compact(transcripts::view_entry(text, seq, transcripts::View::full).value_or("{}")));
    const std::string id = line.id.empty() ? transcripts::entry_id(text, seq) : line.id;
    place_line(builder_, end_, file_, builder_.next_seq() - 1,
               {.line = text + '\n', .made = journal::MadeLine{.text = text + '\n', .id = id, .seq = seq}});
    end_.last_id = id;
    ++end_.count;
    end_.last_seq = builder_.next_seq() - 1;
    if (end_.ids) new_ids_.push_back(transcripts::id_hash(id));
    ++appended_;
  }

  // People have edited or deleted the first message. The entry may not show it as it was.
  void forget_first() {
    json::Edit edit;
    edit.remove("firstMessage");
    edit.remove("firstMessageId");
    Session session = session_;
    builder_.update(session, std::move(edit));
  }

  void begin() {
    if (command_.topic && *command_.topic != session_.own_topic())
      builder_.emit(journal::EventType::topic_created, session_, "{}", command_.topic);
    const std::string line = command_.header + '\n';
    place_line(builder_, end_, file_, builder_.next_seq(), {.line = line, .made = journal::MadeLine{.text = line}});
    end_.has_header = true;
  }

  void emit(const ImportedLine& line, const std::string& message) {
    json::Edit edit;
    const std::int64_t at = std::min(line.time.value_or(0), builder_.context().now);
    const auto later = [&](std::string_view name, std::int64_t& time) {
      time = std::max(time, at);
      edit.put_int(std::string(name), time);
    };
    later("updatedAt", updated_at_);
    if (line.person) later("lastInteractionAt", last_interaction_at_);
    const auto count = [&edit](std::string_view name, std::optional<std::int64_t>& counter, std::int64_t to) {
      counter = to;
      edit.put_int(std::string(name), to);
    };
    const auto more = [](const std::optional<std::int64_t>& counter, std::int64_t by) {
      return policy::add_counted(counter.value_or(0), by);
    };
    // The entry that came with the first part may have counted all of them.
    if (!command_.topic || !store::is_stream_topic(*command_.topic))
      count("messageCount", counters_.message_count,
            command_.topic ? more(counters_.message_count, 1)
                           : std::max(counters_.message_count.value_or(0), static_cast<std::int64_t>(end_.count) + 1));
    if (line.usage && command_.counts_usage) {
      count_usage(counters_, *line.usage, {.shared = shared_, .is_context = is_own_}, edit);
    }
    if (line.compaction && is_own_) mark_stale(counters_, shared_, edit);
    std::string data = "{\"set\":";
    json::ObjectWriter members(data);
    for (const json::Edit::Set& member : edit.set) members.raw(member.name, member.value);
    members.close();
    data.append(",\"message\":").append(message).append("}");
    builder_.emit(journal::EventType::message_appended, session_, data, command_.topic, std::move(edit));
  }

  DecisionBuilder& builder_;
  const Session& session_;
  const ContinueTranscript& command_;
  const FetchedLines& fetched_;
  std::string file_;
  bool shared_ = builder_.context().rules->shared;
  // The session's own transcript, not that of a topic.
  bool is_own_ = !command_.topic || *command_.topic == session_.own_topic();
  Counters counters_;  // the session's, with the entries so far
  std::int64_t updated_at_ = session_.updated_at;
  std::int64_t last_interaction_at_ = session_.last_interaction_at.value_or(0);
  TranscriptEnd end_{};
  std::vector<std::uint32_t> new_ids_{};
  std::size_t appended_ = 0;
  std::optional<std::string> first_id_ = json::string_at(*session_.entry_with_old_counters(), "firstMessageId");
  bool first_is_changed_ = false;  // by one of the entries that were appended
};

}  // namespace

ImportedLine imported_line(std::string text) {
  ImportedLine out{.line = std::move(text)};
  const transcripts::EntryFields fields = transcripts::read_fields(out.line);
  if (fields.shape == transcripts::EntryShape::unreadable) return out;
  out.id = json::as_string(fields.id).value_or("");
  if (const auto time = json::as_string(fields.timestamp)) out.time = transcripts::parse_iso_time(*time);
  std::string held;
  const auto [type, body] = transcripts::spoken_of(fields, out.line, held);
  const context::Entry entry = context::read_entry(type, body);
  out.person = entry.person;
  out.usage = entry.usage;
  out.compaction = type == "compaction";
  return out;
}

Result<Decision> decide(const AgentState& state, const ContinueTranscript& command, const Context& context,
                        const FetchedLines& lines) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve(state, command.target));
  if (there->session_id != command.session_id)
    return fail(Code::session_exists, fmt::format("another session has the key {}", there->key()));
  TRY(const std::size_t appended, TranscriptContinuer(builder, *there, command, lines).run());
  if (!builder.out.need) builder.out.body = fmt::format(R"({{"appended":{}}})", appended);
  return std::move(builder.out);
}

}  // namespace sessiond::decide
