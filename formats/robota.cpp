#include "formats/robota.hpp"

#include <fmt/format.h>

#include <utility>

#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

constexpr std::string_view robota = "robota";

Result<std::string> entry_of_record(std::string_view record) {
  json::ObjectWriter entry;
  TRY(const auto name, text_member(record, "", "name"));
  TRY(const auto cwd, text_member(record, "", "cwd"));
  TRY(const auto created, time_member(record, "", "createdAt"));
  TRY(const auto updated, time_member(record, "", "updatedAt"));
  if (name) entry.string("name", *name);
  if (cwd) entry.string("cwd", *cwd);
  if (created) entry.integer("sessionStartedAt", *created);
  if (updated) {
    entry.integer("lastInteractionAt", *updated);
    entry.integer("updatedAt", *updated);
  }
  return entry.text();
}

class RobotaWriter final : public Writer {
 public:
  explicit RobotaWriter(SessionFacts facts) : facts_(std::move(facts)) {}

  void survey(const StoredEntry& entry) override { survey_.add(entry); }
  Result<std::string> begin() override {
    const ShownSession shown(facts_, survey_);
    given_ = !survey_.document.empty() && json::find(survey_.document, "hasHistory") == "true";
    const auto begun_in = json::string_at(facts_.header.empty() ? "{}" : facts_.header, "cwd");
    json::ObjectWriter record;
    record.string("id", facts_.id);
    record.string("cwd", json::string_at(facts_.entry, "cwd").value_or(begun_in.value_or("")));
    if (const auto name = json::string_at(facts_.entry, "name")) record.string("name", *name);
    record.string("createdAt", time_text(survey_, "createdAt", shown.created));
    record.string("updatedAt", time_text(survey_, "updatedAt", shown.updated));
    std::string text = record.text();
    text.pop_back();
    return text + ",\"messages\":[";
  }
  void message(std::string& out, const StoredEntry& stored) override {
    const ReadEntry entry(stored.line);
    const auto message = entry.message(stored.change);
    if (!message) return;
    begin_element(out);
    const std::string_view kept = stored.change == nullptr ? entry.kept(robota) : std::string_view();
    out += kept.empty() ? stored_message(*message, {}) : one_line(kept);
  }
  std::string middle() override {
    first_ = true;
    return "],\"history\":[";
  }
  std::vector<Pass> passes() const override { return {Pass::path, Pass::all}; }
  void history(std::string& out, const StoredEntry& stored) override {
    const ReadEntry entry(stored.line);
    if (const std::string_view data = entry.history(robota); !data.empty()) {
      if (const auto own = json::find(data, "history")) {
        begin_element(out);
        out += *own;
      }
      return;
    }
    // What came before the last entry of an imported history is part of it.
    if (given_ && stored.seq < survey_.last_history) return;
    if (const auto shown = transcripts::view_entry(stored.line, stored.seq, transcripts::View::full)) {
      begin_element(out);
      out += one_line(*shown);
    }
  }
  std::string end() override { return "]" + kept_members(survey_, "document") + "}\n"; }

 private:
  void begin_element(std::string& out) {
    if (!std::exchange(first_, false)) out += ',';
  }

  SessionFacts facts_;
  Survey survey_{robota};
  bool first_ = true;
  bool given_ = false;  // the record that was imported had a history
};

}  // namespace

Result<void> read_robota(std::string_view document, const ReadOptions& options, Sink& sink) {
  TRY(check_document(document));
  TRY(const std::string id, id_member(document, ""));
  TRY(std::string entry, entry_of_record(document));
  TRY(const auto messages, messages_of(document));
  const auto history = json::find(document, "history");
  if (history && !transcripts::is_array(*history)) return fail_at("/history", "must be an array");
  for (std::size_t at = 0; at < messages.size(); ++at) TRY(read_stored_message(messages[at], pointer_to_message(at)));

  const std::int64_t created = json::int_at(entry, "sessionStartedAt").value_or(options.now);
  const std::string cwd = json::string_at(entry, "cwd").value_or("");
  EntryMaker maker(created);
  TRY(sink.session({.id = id, .header = header_of(id, created, cwd), .entry = std::move(entry)}));
  for (std::size_t at = 0; at < messages.size(); ++at) {
    TRY(const auto read, read_stored_message(messages[at], pointer_to_message(at)));
    const bool exact = json::same(stored_message(read.message, {}), messages[at]);
    TRY(sink.entry(maker.message(read.message, read.time, robota, exact ? "" : one_line(messages[at]))));
  }
  const std::string unknown =
      other_members(document, {"id", "cwd", "name", "createdAt", "updatedAt", "messages", "history"});
  const std::string times = odd_times(document, {"createdAt", "updatedAt"});
  if (history || !unknown.empty() || !times.empty())
    TRY(sink.entry(maker.history(robota, fmt::format(R"("document":{{{}}},"times":{{{}}},"hasHistory":{})", unknown,
                                                     times, history.has_value()))));
  for (const std::string_view element : json::elements(history.value_or("[]")))
    TRY(sink.entry(maker.history(robota, "\"history\":" + one_line(element))));
  return sink.end();
}

std::unique_ptr<Writer> write_robota(SessionFacts facts) { return std::make_unique<RobotaWriter>(std::move(facts)); }

}  // namespace sessiond::formats
