// The decision about more entries of a transcript that was imported. They are stored as they are: nothing is checked,
// warned of or answered as with a message that someone says now.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "daemon/decide/grown_message.hpp"
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

  const std::string& left() const { return left_; }

  // Called once. Returns the number of entries that were appended; meaningless if builder.out.need is set.
  Result<std::size_t> run() {
    if (command_.topic && !builder_.state().may_use(session_, file_))
      return fail(Code::session_exists, fmt::format("the transcript of the topic {} is taken", *command_.topic));
    if (!session_.entry_count && builder_.context().durable) {
      builder_.out.need = Need{Need::What::counts, session_.key()};
      return 0;
    }
    if (builder_.context().rests_on != nullptr) *builder_.context().rests_on = file_;
    const TranscriptEnd* end = builder_.state().transcripts.find(file_);
    if (end == nullptr) return need(Need::What::transcript_end);
    end_ = *end;
    if (end_.size != 0 && !end_.ids) return need(Need::What::entry_ids);
    std::vector<std::string> unknown = not_fetched();
    if (!unknown.empty()) return need(Need::What::lines, std::move(unknown));
    if (const std::string message = message_of_part(end_.last_id); is_part_of(stored(end_.last_id), stored(message)))
      note_last_part(message, end_.last_id);
    const auto first = std::ranges::find_if(command_.lines, [](const ImportedLine& line) { return !line.id.empty(); });
    if (first == command_.lines.end() && end_.size != 0 && !command_.lines.empty())
      return fail(Code::session_exists, "is there, and none of the entries has an id, by which a new one is known");
    bool known = first != command_.lines.end() && is_there(first->id);
    for (const ImportedLine& line : command_.lines) {
      if (!line.id.empty()) known = is_there(line.id);
      if (!known) append(following(line));
      if (known && !line.id.empty()) complete(line);
      if (builder_.out.need) return 0;
      if (!left_.empty()) break;
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

  bool is_there(const std::string& id) const { return !stored(id).empty(); }
  std::string_view stored(const std::string& id) const {
    const auto line = fetched_.find(id);
    return line == fetched_.end() ? std::string_view() : line->second.line;
  }

  // The ids whose stored lines are needed, if there are any: of the entries, of those that they follow, and of their
  // further parts.
  std::vector<std::string> not_fetched() const {
    std::set<std::string, std::less<>> ids;
    const auto may_be_there = [this](const std::string& id) {
      return !id.empty() && end_.ids && end_.ids->contains(transcripts::id_hash(id));
    };
    const auto has_parts = [&](const std::string& id) { return may_be_there(id) && may_be_there(part_id(id, 2)); };
    const auto add = [&](const std::string& id) {
      if (!may_be_there(id) || !ids.insert(id).second) return;
      for (std::size_t number = 2; may_be_there(part_id(id, number)); ++number) ids.insert(part_id(id, number));
    };
    for (const ImportedLine& line : command_.lines) {
      add(line.id);
      if (!may_be_there(line.id) && has_parts(line.parent)) add(line.parent);
    }
    if (const std::string message = message_of_part(end_.last_id); has_parts(message)) add(message);
    std::vector<std::string> out;
    for (const std::string& id : ids)
      if (!fetched_.contains(id)) out.push_back(id);
    return out;
  }

  // "a" of "a.2"; "" of "a"
  static std::string message_of_part(const std::string& id) {
    const std::size_t dot = id.rfind('.');
    return dot == std::string::npos ? "" : id.substr(0, dot);
  }

  // The entries of a message that are in the transcript, by id, the first one before its further parts.
  std::vector<std::string> entries_of(const std::string& id) const {
    std::vector<std::string> all{id};
    for (std::size_t number = 2; is_part_of(stored(part_id(id, number)), stored(id)); ++number)
      all.push_back(part_id(id, number));
    return all;
  }

  // Appends what a message has more than the stored one.
  void complete(const ImportedLine& line) {
    if (line.line == stored(line.id)) return;
    const std::vector<std::string> there = entries_of(line.id);
    std::vector<std::string_view> lines;
    for (const std::string& id : there) lines.push_back(stored(id));
    const std::string id = part_id(line.id, there.size() + 1);
    auto grown = is_there(id) ? std::nullopt : further_part(line.line, lines, id, end_.last_id);
    if (!grown) return;
    const auto behind = fetched_.find(behind_name(there.back()));
    if (appended_ == 0 && (behind == fetched_.end() || behind->second.seq != end_.count)) {
      need(Need::What::behind, {there.back()});
    } else if (appended_ != 0 || !behind->second.line.empty()) {
      left_ = line.id;
    } else {
      note_last_part(line.id, id);
      append(imported_line(*std::move(grown)));
    }
  }

  void note_last_part(const std::string& message, const std::string& part) {
    last_part_ = {.message = message, .part = part};
    for (const std::string& id : entries_of(message))
      if (id != message) last_part_.parents.push_back(json::string_at(stored(id), "parentId").value_or(""));
    if (part != end_.last_id) last_part_.parents.push_back(end_.last_id);
  }

  // The entry as it stands in this transcript: what follows a message follows its last part.
  ImportedLine following(const ImportedLine& line) const {
    if (line.parent.empty()) return line;
    const bool follows_last = line.parent == last_part_.message ||
                              std::ranges::find(last_part_.parents, line.parent) != last_part_.parents.end();
    const std::string parent = follows_last ? last_part_.part : entries_of(line.parent).back();
    if (parent == line.parent) return line;
    ImportedLine out = line;
    json::Edit edit;
    edit.put_string("parentId", parent);
    out.line = json::apply(line.line, edit);
    return out;
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
    CountedEdit edit;
    const std::int64_t at = std::min(line.time.value_or(0), builder_.context().now);
    const auto later = [&](Counter name, std::int64_t& time) {
      time = std::max(time, at);
      edit.counted.set(name, time);
    };
    later(Counter::updated_at, updated_at_);
    if (line.person) later(Counter::last_interaction_at, last_interaction_at_);
    const auto count = [&edit](Counter name, std::optional<std::int64_t>& counter) {
      counter = policy::add_counted(counter.value_or(0), 1);
      edit.counted.set(name, *counter);
    };
    if (!command_.topic || !store::is_stream_topic(*command_.topic)) {
      if (line.message) count(Counter::message_count, counters_.message_count);
      count(Counter::entry_count, counters_.entry_count);
    }
    if (line.usage && command_.counts_usage) {
      count_usage(counters_, *line.usage, {.shared = shared_, .is_context = is_own_}, edit);
    }
    if (line.compaction && is_own_) mark_stale(counters_, shared_, edit);
    builder_.emit(journal::EventType::message_appended, session_,
                  MessageAppended{.counted = edit.counted, .message = message}, command_.topic, std::move(edit.rest));
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
  std::string left_{};  // the id of a message that grew behind which people went on
  // The further part that was appended last, or that the transcript ended with. What follows its message, or an entry
  // that a part of it follows, follows this part.
  struct LastPart {
    std::string message{}, part{};
    std::vector<std::string> parents{};
  };
  LastPart last_part_{};
  std::optional<std::string> first_id_ = json::string_at(*session_.entry_with_old_counters(), "firstMessageId");
  bool first_is_changed_ = false;  // by one of the entries that were appended
};

}  // namespace

ImportedLine imported_line(std::string text) {
  ImportedLine out{.line = std::move(text)};
  const transcripts::EntryFields fields = transcripts::read_fields(out.line);
  if (fields.shape == transcripts::EntryShape::unreadable) return out;
  out.id = json::as_string(fields.id).value_or("");
  out.parent = json::as_string(fields.parent_id).value_or("");
  if (const auto time = json::as_string(fields.timestamp)) out.time = transcripts::parse_iso_time(*time);
  std::string held;
  const auto [type, body] = transcripts::spoken_of(fields, out.line, held);
  const context::Entry entry = context::read_entry(type, body);
  out.message = context::is_message(type, entry);
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
  TranscriptContinuer continuer(builder, *there, command, lines);
  TRY(const std::size_t appended, continuer.run());
  json::ObjectWriter body;
  body.integer("appended", static_cast<std::int64_t>(appended));
  if (continuer.left().empty())
    body.raw("left", "null");
  else
    body.string("left", continuer.left());
  if (!builder.out.need) builder.out.body = body.text();
  return std::move(builder.out);
}

}  // namespace sessiond::decide
