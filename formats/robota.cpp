#include "formats/robota.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

constexpr std::string_view robota = "robota";
// The fields of a session's entry that a record has under the same names.
constexpr auto snapshots =
    std::to_array<std::string_view>({"systemPrompt", "toolSchemas", "backgroundTasks", "backgroundJobGroups"});

std::optional<std::string_view> value_at(std::string_view object, std::string_view name) {
  const auto value = json::find(object, name);
  return value == "null" ? std::nullopt : value;
}

// The elements of a member that is a list of a stream's entries. Nothing: it is something else.
std::optional<std::string_view> stream_in(std::string_view record, std::string_view name) {
  const auto list = json::find(record, name);
  if (!list || !transcripts::is_array(*list) || !std::ranges::all_of(json::elements(*list), transcripts::is_object))
    return {};
  return list;
}

// The members of a record that a session has no place for, with commas between.
std::string unknown_members(std::string_view record) {
  std::vector<std::string_view> known{"id", "cwd", "name", "createdAt", "updatedAt", "messages", "history"};
  for (const std::string_view name : snapshots)
    if (value_at(record, name)) known.push_back(name);
  for (const std::string_view name : store::stream_names())
    if (stream_in(record, name)) known.push_back(name);
  return other_members(record, known);
}

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
  for (const std::string_view name : snapshots)
    if (const auto value = value_at(record, name)) entry.raw(name, one_line(*value));
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
  std::string end() override {
    json::ObjectWriter members;
    std::vector<std::string_view> told(facts_.streams.begin(), facts_.streams.end());
    for (const std::string_view name : snapshots) {
      const auto value = value_at(facts_.entry, name);
      if (!value) continue;
      members.raw(name, one_line(*value));
      told.push_back(name);
    }
    const std::string text = members.text();
    std::string out = "]";
    if (text != "{}") out.append(",").append(text, 1, text.size() - 2);
    return out + kept_members(survey_, "document", told) + (facts_.streams.empty() ? "}\n" : "");
  }

 private:
  void begin_element(std::string& out) {
    if (!std::exchange(first_, false)) out += ',';
  }

  SessionFacts facts_;
  Survey survey_{robota};
  bool first_ = true;
  bool given_ = false;  // the record that was imported had a history
};

class RobotaStreamWriter final : public Writer {
 public:
  RobotaStreamWriter(std::string name, bool is_last) : name_(std::move(name)), is_last_(is_last) {}

  void survey(const StoredEntry&) override {}
  Result<std::string> begin() override { return fmt::format(R"(,"{}":[)", name_); }
  std::vector<Pass> passes() const override { return {Pass::all}; }
  void message(std::string&, const StoredEntry&) override {}
  std::string middle() override { return {}; }
  void history(std::string& out, const StoredEntry& stored) override {
    const ReadEntry entry(stored.line);
    const auto data = entry.type == "custom" ? json::find(entry.line, "data") : std::nullopt;
    if (!data) return;
    if (!std::exchange(first_, false)) out += ',';
    out += one_line(*data);
  }
  std::string end() override { return is_last_ ? "]}\n" : "]"; }

 private:
  std::string name_;
  bool is_last_, first_ = true;
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
  const std::string unknown = unknown_members(document);
  const std::string times = odd_times(document, {"createdAt", "updatedAt"});
  if (history || !unknown.empty() || !times.empty())
    TRY(sink.entry(maker.history(robota, fmt::format(R"("document":{{{}}},"times":{{{}}},"hasHistory":{})", unknown,
                                                     times, history.has_value()))));
  for (const std::string_view element : json::elements(history.value_or("[]")))
    TRY(sink.entry(maker.history(robota, "\"history\":" + one_line(element))));
  TRY(sink.end());
  for (const std::string_view name : store::stream_names()) {
    const auto list = stream_in(document, name);
    if (!list) continue;
    EntryMaker stream(created);
    TRY(sink.session({.id = id, .topic = store::stream_topic(name), .header = header_of(id, created, cwd)}));
    for (const std::string_view data : json::elements(*list))
      TRY(sink.entry(stream.other("custom", fmt::format(R"("customType":"{}","data":{})", name, one_line(data)))));
    TRY(sink.end());
  }
  return {};
}

std::unique_ptr<Writer> write_robota_stream(std::string name, bool is_last) {
  return std::make_unique<RobotaStreamWriter>(std::move(name), is_last);
}

std::unique_ptr<Writer> write_robota(SessionFacts facts) { return std::make_unique<RobotaWriter>(std::move(facts)); }

}  // namespace sessiond::formats
