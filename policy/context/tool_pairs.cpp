#include "policy/context/tool_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "policy/context/call_book.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

constexpr std::string_view interrupted = "No result: the call was interrupted.";
constexpr std::size_t longest_id = 64;
constexpr std::size_t longest_stem = 43;  // before "-" and a number

// Takes time linear in rows, calls and results, but for looking up their ids: transcripts may have very many of them.
// Ids are not hashed, since a client could choose ids whose hashes collide.
class Matcher {
 public:
  Matcher(Rows& rows, ShownIds& ids, std::vector<Repaired>& repaired) : rows_(rows), ids_(ids), repaired_(repaired) {}

  std::vector<Row> match() {
    for (std::size_t at = 0; at < rows_.all.size(); ++at) place(at);
    std::vector<Row> out;
    out.reserve(rows_.all.size());
    for (std::size_t at = 0; at < rows_.all.size(); ++at) {
      Row& row = rows_.all[at];
      if (row.entry.message.empty()) continue;  // it comes behind its calls, or is left out
      if (row.aside || row.entry.calls.empty())
        out.push_back(std::move(row));
      else
        answer(std::move(row), out, answers_[at]);
    }
    return out;
  }

 private:
  // A result in a row that stands behind its call: the place of the call in its message, and of the result in the row.
  struct Result {
    std::size_t place = 0;
    std::size_t part = 0;
  };
  struct Answer {
    Row row{};
    std::vector<Result> results{};
  };
  // The rows behind those of calls.
  struct Answers {
    std::vector<Answer> results{};
    std::vector<Answer> with_words{};  // messages that bring results and more: providers want the results first
    std::vector<std::size_t> calls{};  // by place: one more than the index of its result in `results`; 0: it has none
  };

  // Notes the calls of a row, and gives its results to the calls that they belong to.
  void place(std::size_t at) {
    Row& row = rows_.all[at];
    if (row.aside) return;
    const Taken taken = book_.take(row.entry);
    if (!row.entry.calls.empty()) {
      messages_.push_back(at);
      answers_[at].calls.resize(row.entry.calls.size());
    }
    if (taken.owners.empty()) return;
    for (std::size_t index = 0; index < taken.owners.size(); ++index)
      tell(row.entry.results[index], taken.owners[index]);
    const bool only_results = row.entry.role == Role::tool;
    if (taken.whole) {
      if (!only_results) put_results_first(row);
      Answers& answers = answers_[messages_.back()];
      Answer whole{.row = std::exchange(row, {})};
      for (std::size_t index = 0; index < taken.owners.size(); ++index) {
        const std::size_t call = taken.owners[index].place;
        whole.results.push_back({.place = call, .part = index});
        answers.calls[call] = answers.results.size() + 1;
      }
      (only_results ? answers.results : answers.with_words).push_back(std::move(whole));
      return;
    }
    const Row whole = std::exchange(row, {});
    for (std::size_t index = 0; index < taken.owners.size(); ++index) give(whole, taken.owners[index], index);
    if (only_results) return;
    row = with(whole, json::apply(whole.entry.message, {.set = {{"content", words_of(whole.entry)}}}));
    row.entry.person = whole.entry.person;
  }

  void tell(const ToolResult& result, const Owner& owner) {
    if (owner.fate == Fate::orphan) repaired_.push_back({.call_id = result.call_id, .why = "orphan_result"});
    if (owner.fate == Fate::duplicate) repaired_.push_back({.call_id = result.call_id, .why = "duplicate_result"});
    if (owner.fate == Fate::replaces) repaired_.push_back({.call_id = result.call_id, .why = "late_result"});
    if (owner.fate == Fate::answers && !owner.behind)
      repaired_.push_back({.call_id = result.call_id, .why = "moved_result"});
  }

  // Providers want the results of a message before its words.
  void put_results_first(Row& row) {
    const Entry& entry = row.entry;
    std::string results, words;
    bool is_moved = false;
    auto result = entry.results.begin();
    for (const std::string_view part : json::elements(entry.content)) {
      const bool is_result = result != entry.results.end() && result->part.data() == part.data();
      if (is_result && !words.empty()) {
        is_moved = true;
        repaired_.push_back({.call_id = result->call_id, .why = "moved_result"});
      }
      if (is_result) ++result;
      std::string& list = is_result ? results : words;
      list.append(list.empty() ? "" : ",").append(part);
    }
    if (!is_moved) return;
    const bool person = entry.person;
    rows_.replace(row, json::apply(entry.message, {.set = {{"content", fmt::format("[{},{}]", results, words)}}}));
    row.entry.person = person;
  }

  Row with(const Row& whole, std::string message) {
    Row made{.id = whole.id,
             .seq = whole.seq,
             .at = whole.at,
             .counts_usage = whole.counts_usage,
             .is_asked = whole.is_asked};
    rows_.replace(made, std::move(message));
    return made;
  }

  // Puts one result of a row behind its call.
  void give(const Row& whole, const Owner& owner, std::size_t index) {
    if (!owner.is_shown()) return;
    const std::string_view part = whole.entry.results[index].part;
    Answers& answers = answers_[messages_[owner.message]];
    Answer answer{.row = part.empty() ? whole : with(whole, fmt::format(R"({{"role":"user","content":[{}]}})", part)),
                  .results = {{.place = owner.place}}};
    std::size_t& index_after = answers.calls[owner.place];
    if (owner.fate == Fate::replaces) {
      answers.results[index_after - 1] = std::move(answer);
    } else {
      answers.results.push_back(std::move(answer));
      index_after = answers.results.size();
    }
  }

  // Puts out a row with calls, the results behind it, and those that are made since there are none.
  void answer(Row row, std::vector<Row>& out, Answers& answers) {
    const std::vector<ToolCall> calls = row.entry.calls;
    for (std::size_t place = 0; place < calls.size(); ++place) {
      if (answers.calls[place] != 0) continue;
      Answer made{.row = {.seq = row.seq, .at = row.at}, .results = {{.place = place}}};
      rows_.replace(
          made.row,
          interrupted_result({.id = calls[place].id, .name = calls[place].name, .spelling = calls[place].spelling}));
      answers.results.push_back(std::move(made));
      repaired_.push_back({.call_id = calls[place].id, .why = "missing_result"});
    }
    const std::vector<std::string> ids = free_ids(calls);
    if (!ids.empty()) rename_calls(rows_, row, ids);
    out.push_back(std::move(row));
    for (std::vector<Answer>* list : {&answers.results, &answers.with_words}) {
      for (Answer& one : *list) {
        if (!ids.empty()) rename_results(one, ids);
        out.push_back(std::move(one.row));
      }
    }
  }

  // Returns the ids that a view shows for calls; nothing if these are the ones they have. Only earlier calls count, so
  // that later ones never change what was shown.
  std::vector<std::string> free_ids(const std::vector<ToolCall>& calls) {
    std::vector<std::string> ids;
    bool changed = false;
    for (const ToolCall& call : calls) {
      std::string id = ids_.add(call.id);
      if (id != call.id) repaired_.push_back({.call_id = call.id, .why = "renamed_call", .shown_as = id});
      changed = changed || id != call.id;
      ids.push_back(std::move(id));
    }
    return changed ? ids : std::vector<std::string>();
  }

  // Gives a result another id of its call: in the member `name`, and in `other` if it has that one, too.
  static std::string with_call_id(std::string_view result, const char* name, const char* other, const std::string& id) {
    json::Edit edit{.set = {{name, json::quote(id)}}};
    if (json::find(result, other)) edit.set.push_back({other, json::quote(id)});
    return json::apply(result, edit);
  }

  void rename_results(Answer& answer, const std::vector<std::string>& ids) {
    Row& row = answer.row;
    const std::string_view status = row.entry.status;
    if (row.entry.results.front().part.empty()) {
      const bool is_openai = json::string_at(row.entry.message, "role") == "tool";
      rows_.replace(row, with_call_id(row.entry.message, is_openai ? "tool_call_id" : "toolCallId",
                                      is_openai ? "toolCallId" : "tool_call_id", ids[answer.results.front().place]));
    } else {
      std::unordered_map<const char*, std::size_t> places;  // of calls, by the part that is the result
      for (const Result& result : answer.results)
        places.emplace(row.entry.results[result.part].part.data(), result.place);
      std::string content =
          json::change_elements(row.entry.content, [&](std::string_view part) -> std::optional<std::string> {
            const auto place = places.find(part.data());
            if (place == places.end()) return std::string(part);
            const bool is_pi = json::string_at(part, "type") == "toolResult";
            return with_call_id(part, is_pi ? "toolCallId" : "tool_use_id", is_pi ? "tool_use_id" : "toolCallId",
                                ids[place->second]);
          });
      const bool person = row.entry.person;
      rows_.replace(row, json::apply(row.entry.message, {.set = {{"content", std::move(content)}}}));
      row.entry.person = person;
    }
    row.entry.status = status;
  }

  static void rename_calls(Rows& rows, Row& row, const std::vector<std::string>& ids) {
    std::unordered_map<const char*, std::size_t> places;  // by the text of the part
    for (std::size_t place = 0; place < ids.size(); ++place) places.emplace(row.entry.calls[place].part.data(), place);
    const auto renamed = [&](std::string_view part) -> std::optional<std::string> {
      const auto place = places.find(part.data());
      if (place == places.end()) return std::string(part);
      return json::apply(part, {.set = {{"id", json::quote(ids[place->second])}}});
    };
    json::Edit edit;
    for (const std::string_view member : {"content", "tool_calls"})
      if (const auto parts = json::find(row.entry.message, member); parts && parts->starts_with('['))
        edit.set.push_back({std::string(member), json::change_elements(*parts, renamed)});
    rows.replace(row, json::apply(row.entry.message, edit));
  }

  // Returns the content of a message without its results.
  static std::string words_of(const Entry& entry) {
    std::unordered_set<const char*> results;
    for (const ToolResult& result : entry.results) results.insert(result.part.data());
    return json::change_elements(entry.content, [&results](std::string_view part) {
      return results.contains(part.data()) ? std::nullopt : std::optional<std::string>(part);
    });
  }

  Rows& rows_;
  ShownIds& ids_;
  std::vector<Repaired>& repaired_;
  CallBook book_{};
  std::vector<std::size_t> messages_{};                 // the rows with calls
  std::unordered_map<std::size_t, Answers> answers_{};  // by the row of the calls
};

// Returns an id with which a provider takes a call.
std::string fit_id(std::string id) {
  if (id.empty()) return "call";
  if (id.size() > longest_id) id.resize(longest_id);
  for (char& c : id)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) c = '_';
  return id;
}

}  // namespace

std::string interrupted_result(const KeptCall& call) {
  const std::string id = json::quote(call.id);
  const std::string text = json::quote(interrupted);
  switch (call.spelling) {
    case Spelling::openai:
      return fmt::format(R"({{"role":"tool","tool_call_id":{},"content":{},"isError":true,"synthetic":true}})", id,
                         text);
    case Spelling::anthropic:
      return fmt::format(
          R"({{"role":"user","content":[{{"type":"tool_result","tool_use_id":{},"content":{},"is_error":true}}],"synthetic":true}})",
          id, text);
    case Spelling::pi:
      break;
  }
  return fmt::format(
      R"({{"role":"toolResult","toolCallId":{},"toolName":{},"content":[{{"type":"text","text":{}}}],"isError":true,"synthetic":true}})",
      id, json::quote(call.name), text);
}

void mark_answers(Rows& rows) {
  CallBook book;
  for (Row& row : rows.all)
    if (!row.aside && book.take(row.entry).answers_any()) row.entry.person = false;
}

std::string ShownIds::add(const std::string& id) {
  std::string shown = fit_id(id);
  if (shown_.insert(shown).second) return shown;
  const std::string stem = shown.substr(0, longest_stem);
  std::uint64_t& last = last_.try_emplace(stem, 1).first->second;
  do {
    shown = fmt::format("{}-{}", stem, ++last);
  } while (!shown_.insert(shown).second);
  return shown;
}

std::vector<Repaired> match_pairs(Rows& rows) {
  ShownIds ids;
  return match_pairs(rows, ids);
}

std::vector<Repaired> match_pairs(Rows& rows, ShownIds& ids) {
  mark_answers(rows);
  std::vector<Repaired> repaired;
  rows.all = Matcher(rows, ids, repaired).match();
  return repaired;
}

}  // namespace sessiond::context
