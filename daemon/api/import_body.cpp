#include "daemon/api/import_body.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "daemon/api/fields.hpp"
#include "daemon/decide/steps.hpp"
#include "formats/documents.hpp"
#include "formats/jsonl.hpp"
#include "formats/known.hpp"
#include "policy/snapshots.hpp"
#include "policy/usage.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/changes.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/sums.hpp"

namespace sessiond::api {
namespace {

constexpr std::initializer_list<std::string_view> token_counters = {"inputTokens", "outputTokens", "totalTokens",
                                                                    "usageTotals"};

const json::Edit::Set* field(const json::Edit& entry, std::string_view name) {
  const auto found = std::ranges::find(entry.set, name, &json::Edit::Set::name);
  return found == entry.set.end() ? nullptr : &*found;
}

// Collects what a reader passes. A document that turns out to be malformed leaves nothing behind.
class Collector final : public formats::Sink {
 public:
  explicit Collector(ImportBody& body) : body_(body) {}

  Result<void> session(formats::SessionHead head) override {
    const bool goes_on = head.topic && !body_.sessions.empty() && body_.sessions.back().id == head.id;
    if (!goes_on) {
      ImportedSession session{.id = head.id, .key = std::move(head.key)};
      session.entry = edit_of(head.entry);
      session.entry.unset.clear();  // in a whole entry, null means that the member is absent
      session.counts_usage = std::ranges::none_of(
          token_counters, [&](std::string_view name) { return field(session.entry, name) != nullptr; });
      session.only_topics = head.topic.has_value();
      body_.sessions.push_back(std::move(session));
    }
    body_.sessions.back().transcripts.push_back({.topic = std::move(head.topic), .header = std::move(head.header)});
    return {};
  }
  Result<void> entry(std::string line) override {
    body_.sessions.back().transcripts.back().lines.push_back(decide::imported_line(std::move(line)));
    return {};
  }
  Result<void> end() override { return {}; }
  void skip(formats::Skipped skipped) override { body_.skips.push_back(std::move(skipped)); }

 private:
  ImportBody& body_;
};

// Makes the changes of messages that came along changes of this transcript: those of the session that was exported, and
// of the transcripts that it says its lines are copies of. Those of any other one stay as they are, and count for
// nothing.
void take_as_own(ImportedTranscript& transcript, const std::string& session_id) {
  const std::string own = transcripts::transcript_name(session_id, transcript.topic);
  const auto origins = transcripts::Origins::read(own, transcript.header);
  std::set<std::string, std::less<>> names{
      transcripts::transcript_name(json::string_at(transcript.header, "id").value_or(""), transcript.topic)};
  for (const std::string_view name : origins.names()) names.emplace(name);
  names.erase(own);
  if (json::find(transcript.header, "copied"))
    transcript.header = json::apply(transcript.header, {.set = {}, .unset = {"copied"}});
  if (names.empty()) return;
  for (decide::ImportedLine& line : transcript.lines) {
    const auto target = transcripts::target_in(line.line);
    if (!target || !names.contains(target->origin)) continue;
    json::Edit edit;
    edit.put_string("sessionId", session_id);
    if (transcript.topic)
      edit.put_string("topic", *transcript.topic);
    else
      edit.remove("topic");
    const std::string_view data = json::find(line.line, "data").value_or("{}");
    const std::string own_target = json::apply(json::find(data, "target").value_or("{}"), edit);
    const std::string own_data = json::apply(data, {.set = {{"target", own_target}}, .unset = {}});
    line.line = json::apply(line.line, {.set = {{"data", own_data}}, .unset = {}});
  }
}

// Finds how the conversation began. A message that people edited or deleted since is not told: its first text would be
// shown.
void find_first_message(ImportedSession& session) {
  if (session.only_topics || field(session.entry, "firstMessage") != nullptr) return;
  const std::vector<decide::ImportedLine>& lines = session.transcripts.front().lines;
  const auto is_person = [](const decide::ImportedLine& line) { return line.person; };
  const auto first = std::ranges::find_if(lines, is_person);
  if (first == lines.end()) return;
  std::string held;
  transcripts::EntrySums sums;
  sums.add(json::as_sent(first->line, held));  // an entry of sessions.json is UTF-8
  if (sums.first_message.empty()) return;
  const std::string id = transcripts::entry_id(first->line, static_cast<std::uint64_t>(first - lines.begin()));
  const bool changed = std::ranges::any_of(first, lines.end(), [&](const decide::ImportedLine& line) {
    const auto target = transcripts::target_in(line.line);
    return target && target->what != "reaction" && target->id == id;
  });
  if (changed) return;
  session.first_message = std::move(sums.first_message);
  session.first_message_id = id;
}

// Adds counters and times that the entry does not have, and a header to transcripts without one.
void complete(ImportedSession& session, std::int64_t now) {
  json::Edit& entry = session.entry;
  std::optional<std::int64_t> first, last, said;
  policy::UsageTotals usage;
  transcripts::Counts counts;
  for (const ImportedTranscript& transcript : session.transcripts) {
    const bool is_counted = !transcript.topic || !store::is_stream_topic(*transcript.topic);
    const auto begun = json::string_at(transcript.header.empty() ? "{}" : transcript.header, "timestamp");
    if (!first && begun) first = transcripts::parse_iso_time(*begun);
    for (const decide::ImportedLine& line : transcript.lines) {
      if (is_counted) counts.add({.messages = line.message ? 1 : 0, .entries = 1});
      if (!first) first = line.time;
      if (line.time) last = std::max(*line.time, last.value_or(0));
      if (line.time && line.person) said = std::max(*line.time, said.value_or(0));
      if (line.compaction && !transcript.topic) session.last_prompt.reset();
      if (!line.usage) continue;
      if (const std::int64_t prompt = line.usage->prompt(); prompt > 0 && !transcript.topic)
        session.last_prompt = prompt;
      usage.add(*line.usage);
    }
  }
  const auto put = [&entry](const char* name, std::optional<std::int64_t> value) {
    if (value && *value >= 0 && field(entry, name) == nullptr) entry.put_int(name, *value);
  };
  for (auto* time : {&first, &last, &said})
    if (*time) time->emplace(std::min(**time, now));
  decide::put_counts(entry, counts);  // those that came along may be of more entries than came
  if (session.counts_usage && usage.total > 0) {
    put("inputTokens", usage.input);
    put("outputTokens", usage.output);
    put("totalTokens", usage.total);
  }
  // An entry that says whether its totalTokens is fresh has no sums: its numbers are those of the last reply.
  const bool has_sums =
      field(entry, "usageTotals") != nullptr || (!session.counts_usage && field(entry, "totalTokensFresh") == nullptr);
  if (!has_sums && usage.total > 0) entry.put("usageTotals", usage.json());
  put("sessionStartedAt", first);
  if (const json::Edit::Set* started = field(entry, "sessionStartedAt")) put("createdAt", json::as_int(started->value));
  put("updatedAt", last ? last : first);
  put("lastInteractionAt", said);
  find_first_message(session);
  for (ImportedTranscript& transcript : session.transcripts)
    if (transcript.header.empty())
      transcript.header = formats::header_of(session.id, first.value_or(now));
    else
      take_as_own(transcript, session.id);
}

// Says why a session that was read is not taken; "": it is.
std::string fault_of(const ImportedSession& session) {
  std::set<std::optional<std::string>> topics;
  for (const ImportedTranscript& transcript : session.transcripts)
    if (!topics.insert(transcript.topic).second) return fmt::format("the topic {} comes twice", *transcript.topic);
  topics.erase(std::nullopt);
  if (topics.size() > limits::topics)
    return fmt::format("has {} topics, which are more than {}", topics.size(), limits::topics);
  std::size_t bytes = 0;
  for (const json::Edit::Set& member : session.entry.set)
    if (!policy::is_snapshot(member.name)) bytes += member.name.size() + member.value.size();  // these may become blobs
  if (bytes > limits::entry_bytes) return fmt::format("its entry has more than {} bytes", limits::entry_bytes);
  return {};
}

}  // namespace

Result<ImportBody> read_import(std::string_view body, std::string_view format, std::int64_t now) {
  ImportBody read;
  Collector collector(read);
  if (const auto* documents = formats::document_format(format)) {
    const auto all = formats::documents_in(body);
    read.several = all.size() > 1;
    for (const auto& [text, line] : all) {
      const std::size_t before = read.sessions.size();
      auto done = documents->read(text, {.now = now}, collector);
      if (done) continue;
      Problem problem = formats::naming_known(std::move(done.error()), text);
      if (!read.several) return std::unexpected(std::move(problem));
      read.sessions.resize(before);
      read.skips.push_back({.why = fmt::format("line {}: {}", line, problem.detail)});
    }
  } else {
    TRY(formats::read_jsonl(body, collector));
    read.several = read.sessions.size() + read.skips.size() > 1;
    if (!read.several && read.sessions.empty() && !read.skips.empty()) return fail_at("", read.skips.front().why);
  }
  std::erase_if(read.sessions, [&read](const ImportedSession& session) {
    std::string fault = fault_of(session);
    if (fault.empty()) return false;
    read.skips.push_back({.id = session.id, .why = std::move(fault)});
    return true;
  });
  for (ImportedSession& session : read.sessions) complete(session, now);
  return read;
}

}  // namespace sessiond::api
