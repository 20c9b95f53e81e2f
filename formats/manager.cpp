#include "formats/manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/try.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

constexpr std::string_view manager = "manager";

std::size_t count_of(std::string_view message, std::string_view list) {
  return static_cast<std::size_t>(std::ranges::distance(json::elements(json::find(message, list).value_or("[]"))));
}

Result<void> check_managed(std::string_view message, const std::string& pointer) {
  TRY(text_member(message, pointer, "text"));
  TRY(time_member(message, pointer, "timestamp"));
  for (const char* name : {"files", "toolCalls"}) {
    const auto list = json::find(message, name);
    if (!list) continue;
    if (!transcripts::is_array(*list)) return fail_at(fmt::format("{}/{}", pointer, name), "must be an array");
    std::size_t at = 0;
    for (const std::string_view element : json::elements(*list)) {
      if (name == std::string_view("toolCalls") && !transcripts::is_object(element))
        return fail_at(fmt::format("{}/{}/{}", pointer, name, at), "must be an object");
      ++at;
    }
  }
  if (const auto usage = json::find(message, "usage"); usage && !transcripts::is_object(*usage))
    return fail_at(pointer + "/usage", "must be an object");
  if (const std::size_t files = count_of(message, "files"); files > most_files)
    return fail_at(pointer, fmt::format("has {} files, at most {} are taken", files, most_files));
  return {};
}

class ManagerWriter final : public Writer {
 public:
  explicit ManagerWriter(SessionFacts facts) : facts_(std::move(facts)) {}

  void survey(const StoredEntry& stored) override {
    survey_.add(stored);
    if (!stored.on_path || !too_many_.empty()) return;
    const ReadEntry entry(stored.line);
    const auto message = entry.message(stored.change);
    const std::int64_t files = message ? context::files_in(*message) : 0;
    if (files > static_cast<std::int64_t>(most_files))
      too_many_ = fmt::format("message {} has {} files, and this format has room for {}",
                              transcripts::entry_id(entry.line, stored.seq), files, most_files);
  }
  Result<std::string> begin() override {
    if (!too_many_.empty()) return fail(Code::validation_failed, too_many_);
    const json::Index entry(facts_.entry);
    json::ObjectWriter head;
    head.string("id", facts_.id);
    for (const char* name : {"workerId", "workspaceId"}) head.string(name, entry.string_at(name).value_or(""));
    head.string("name", ShownSession(facts_, survey_).name);
    std::string text = head.text();
    text.pop_back();
    return text + ",\"messages\":[";
  }
  void message(std::string& out, const StoredEntry& stored) override {
    const ReadEntry entry(stored.line);
    auto message = entry.message(stored.change);
    if (!message) return;
    const context::Entry spoken = context::read_entry("message", *message);
    if (is_result_of_last(spoken)) {
      results_.push_back(std::move(*message));
      return;
    }
    flush(out);
    last_ = std::move(*message);
    kept_ = stored.change == nullptr ? one_line(entry.kept(manager)) : "";
  }
  std::string middle() override {
    std::string out;
    flush(out);
    return out + "]";
  }
  std::string end() override { return kept_members(survey_, "document") + "}\n"; }

 private:
  // Tells whether this is the first result of a call of the message before, with nothing but results in between.
  bool is_result_of_last(const context::Entry& spoken) const {
    if (last_.empty() || spoken.role != context::Role::tool || spoken.results.size() != 1 ||
        !spoken.results.front().part.empty())
      return false;
    const std::string& id = spoken.results.front().call_id;
    const auto is_it = [&id](const auto& call) { return call.id == id; };
    if (std::ranges::count_if(context::read_entry("message", last_).calls, is_it) != 1) return false;
    return std::ranges::none_of(results_, [&id](const std::string& other) {
      return context::read_entry("message", other).results.front().call_id == id;
    });
  }
  // Writes the message that waited for its results. What was imported is given back unless results came since.
  void flush(std::string& out) {
    if (last_.empty()) return;
    if (written_++ > 0) out += ',';
    const bool same = !kept_.empty() && unmanaged_messages(kept_).size() == 1 + results_.size();
    out += same ? kept_ : managed_message(last_, results_);
    last_.clear();
    results_.clear();
  }

  SessionFacts facts_;
  Survey survey_{manager};
  std::string too_many_{};  // the first message that has too many files
  std::string last_{}, kept_{};
  std::vector<std::string> results_{};
  std::size_t written_ = 0;
};

}  // namespace

Result<void> read_manager(std::string_view document, const ReadOptions& options, Sink& sink) {
  TRY(check_document(document));
  TRY(const std::string id, id_member(document, ""));
  json::ObjectWriter entry;
  for (const char* name : {"workerId", "workspaceId", "name"}) {
    TRY(const auto text, text_member(document, "", name));
    if (text && !text->empty()) entry.string(name, *text);
  }
  TRY(const auto messages, messages_of(document));
  for (std::size_t at = 0; at < messages.size(); ++at) TRY(check_managed(messages[at], pointer_to_message(at)));

  std::int64_t time = options.now;
  if (!messages.empty()) {
    TRY(const auto first, time_member(messages.front(), "", "timestamp"));
    time = first.value_or(time);
  }
  EntryMaker maker(time);
  TRY(sink.session({.id = id, .header = header_of(id, time), .entry = entry.text()}));
  for (const std::string_view message : messages) {
    auto all = unmanaged_messages(message);
    const std::vector<std::string> results(all.begin() + 1, all.end());
    const bool exact = json::same(managed_message(all.front(), results), message);
    std::string kept = exact ? "" : one_line(message);
    for (const std::string& each : all)
      TRY(sink.entry(maker.message(each, json::int_at(each, "timestamp"), manager, std::exchange(kept, {}))));
  }
  if (const std::string unknown = other_members(document, {"id", "workerId", "workspaceId", "name", "messages"});
      !unknown.empty())
    TRY(sink.entry(maker.history(manager, fmt::format(R"("document":{{{}}})", unknown))));
  return sink.end();
}

std::unique_ptr<Writer> write_manager(SessionFacts facts) { return std::make_unique<ManagerWriter>(std::move(facts)); }

}  // namespace sessiond::formats
