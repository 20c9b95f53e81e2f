#include "formats/json.hpp"

#include <fmt/format.h>

#include <utility>

#include "store/try.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

constexpr std::string_view format = "json";

// Gathers the members of a document that the entry of a session cannot hold, as members of a history entry.
std::string unknown_in(std::string_view document, std::string_view metadata) {
  const std::string beside = other_members(document, {"metadata", "messages", "contextSummary"});
  const std::string within = other_members(metadata, {"id", "name", "description", "createdAt", "lastActivityAt",
                                                      "messageCount", "firstMessage", "provider", "model"});
  const std::string times = odd_times(metadata, {"createdAt", "lastActivityAt"});
  if (beside.empty() && within.empty() && times.empty()) return {};
  return fmt::format(R"("document":{{{}}},"metadata":{{{}}},"times":{{{}}})", beside, within, times);
}

Result<std::string> entry_of(std::string_view metadata) {
  json::ObjectWriter entry;
  const auto text = [&](std::string_view name, std::string_view field, bool also_empty) -> Result<void> {
    TRY(const auto value, text_member(metadata, "/metadata", name));
    if (value && (also_empty || !value->empty())) entry.string(field, *value);
    return {};
  };
  TRY(text("name", "name", false));
  TRY(text("description", "description", true));
  TRY(text("firstMessage", "firstMessage", false));
  TRY(text("provider", "modelProvider", false));
  TRY(text("model", "model", false));
  TRY(const auto created, time_member(metadata, "/metadata", "createdAt"));
  TRY(const auto active, time_member(metadata, "/metadata", "lastActivityAt"));
  if (created) entry.integer("sessionStartedAt", *created);
  if (active) {
    entry.integer("lastInteractionAt", *active);
    entry.integer("updatedAt", *active);
  }
  return entry.text();
}

class JsonWriter final : public Writer {
 public:
  explicit JsonWriter(SessionFacts facts) : facts_(std::move(facts)) {}

  void survey(const StoredEntry& entry) override { survey_.add(entry); }
  Result<std::string> begin() override {
    time_ = ShownSession(facts_, survey_).created;
    return fmt::format(R"({{"metadata":{},"messages":[)", metadata_of(facts_, survey_));
  }
  void message(std::string& out, const StoredEntry& stored) override {
    const ReadEntry entry(stored.line);
    const auto message = entry.message(stored.change);
    if (!message) return;
    if (!std::exchange(first_, false)) out += ',';
    time_ = entry.time().value_or(time_);
    const std::string_view kept = stored.change == nullptr ? entry.kept(format) : std::string_view();
    out += kept.empty() ? stored_message(*message, time_) : one_line(kept);
  }
  std::string middle() override { return "]"; }
  std::string end() override {
    std::string out;
    if (survey_.summary) out += ",\"contextSummary\":" + json::quote(*survey_.summary);
    return out + kept_members(survey_, "document") + "}\n";
  }

 private:
  SessionFacts facts_;
  Survey survey_{format};
  std::int64_t time_ = 0;
  bool first_ = true;
};

}  // namespace

Result<void> read_json(std::string_view document, const ReadOptions& options, Sink& sink) {
  TRY(check_document(document));
  const auto metadata = json::find(document, "metadata");
  if (!metadata) return fail_at("/metadata", "is missing");
  if (!transcripts::is_object(*metadata)) return fail_at("/metadata", "must be an object");
  TRY(const std::string id, id_member(*metadata, "/metadata"));
  TRY(std::string entry, entry_of(*metadata));
  TRY(const auto summary, text_member(document, "", "contextSummary"));
  TRY(const auto messages, messages_of(document));
  for (std::size_t at = 0; at < messages.size(); ++at) TRY(read_stored_message(messages[at], pointer_to_message(at)));

  const std::int64_t created = json::int_at(entry, "sessionStartedAt").value_or(options.now);
  EntryMaker maker(created);
  TRY(sink.session({.id = id, .header = header_of(id, created), .entry = std::move(entry)}));
  if (summary && !summary->empty()) {
    const std::string first = messages.empty() ? "" : EntryMaker::id_of(maker.next() + 1);
    TRY(sink.entry(maker.other("compaction", fmt::format(R"("summary":{},"firstKeptEntryId":"{}","tokensBefore":0)",
                                                         json::quote(*summary), first))));
  }
  std::int64_t time = created;
  for (std::size_t at = 0; at < messages.size(); ++at) {
    TRY(const auto read, read_stored_message(messages[at], pointer_to_message(at)));
    time = read.time.value_or(time);
    const bool exact = json::same(stored_message(read.message, time), messages[at]);
    TRY(sink.entry(maker.message(read.message, read.time, format, exact ? "" : one_line(messages[at]))));
  }
  if (const std::string unknown = unknown_in(document, *metadata); !unknown.empty())
    TRY(sink.entry(maker.history(format, unknown)));
  return sink.end();
}

std::unique_ptr<Writer> write_json(SessionFacts facts) { return std::make_unique<JsonWriter>(std::move(facts)); }

std::string metadata_of(const SessionFacts& facts, const Survey& survey) {
  const json::Index entry(facts.entry);
  const ShownSession shown(facts, survey);
  json::ObjectWriter metadata;
  metadata.string("id", facts.id);
  metadata.string("name", shown.name);
  if (const auto description = entry.string_at("description")) metadata.string("description", *description);
  metadata.string("createdAt", time_text(survey, "createdAt", shown.created));
  metadata.string("lastActivityAt", time_text(survey, "lastActivityAt", shown.active));
  metadata.integer("messageCount", survey.messages);
  metadata.string("firstMessage", survey.first_message);  // the entry's may be deleted since
  metadata.string("provider", entry.string_at("modelProvider").value_or(""));
  metadata.string("model", entry.string_at("model").value_or(""));
  std::string text = metadata.text();
  text.pop_back();
  return text + kept_members(survey, "metadata") + "}";
}

}  // namespace sessiond::formats
