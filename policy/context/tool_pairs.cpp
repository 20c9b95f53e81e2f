#include "policy/context/tool_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

constexpr std::string_view interrupted = "No result: the call was interrupted.";

OpenCall open_call(const ToolCall& call) { return {.id = call.id, .name = call.name, .spelling = call.spelling}; }

// The rows from one message of a person to the next. Each step takes time linear in the rows, calls and results, but
// for looking up their ids: transcripts may have very many of them. Ids are not hashed, since a client could choose ids
// whose hashes collide.
class Segment {
 public:
  Segment(Rows& rows, std::size_t begin, std::size_t end) : rows_(rows), begin_(begin), end_(end) {}

  void match(std::vector<Row>& out, std::vector<Repaired>& repaired) {
    for (std::size_t at = begin_; at < end_; ++at) claim(at, repaired);
    for (std::size_t at = begin_; at < end_; ++at) {
      Row& row = rows_.all[at];
      if (row.entry.message.empty()) continue;  // it comes behind its calls, or is left out
      const std::vector<ToolCall> made = row.entry.calls;
      out.push_back(std::move(row));
      if (!made.empty()) answer(at, made, out, repaired);
    }
  }

 private:
  struct Waiting {
    std::size_t row;
    std::size_t call;
  };
  // The rows behind those of calls.
  struct Answers {
    std::vector<Row> results{};
    std::vector<Row> with_words{};  // messages that bring results and more: providers want the results first
    std::vector<bool> calls{};      // that have a result
  };

  // Notes the calls of a row, or gives its results to the calls that wait for them.
  void claim(std::size_t at, std::vector<Repaired>& repaired) {
    Row& row = rows_.all[at];
    for (std::size_t call = 0; call < row.entry.calls.size(); ++call)
      waiting_[row.entry.calls[call].id].push_back({at, call});
    if (!row.entry.calls.empty()) answers_[at].calls.resize(row.entry.calls.size());
    if (!row.entry.results.empty()) give(row, repaired);
    if (!row.entry.message.empty()) last_other_ = at;
  }

  // Returns the row of the call that a result answers; nothing: there is none.
  std::optional<std::size_t> take_call(const ToolResult& result) {
    const auto calls = waiting_.find(result.call_id);
    if (calls == waiting_.end() || calls->second.empty()) return {};
    const Waiting call = calls->second.front();
    calls->second.pop_front();
    answers_[call.row].calls[call.call] = true;
    return call.row;
  }

  // A message whose results all answer the row before it stays whole. Otherwise each result goes behind its call, as a
  // message with nothing else, and the rest of the message stays where it is.
  void give(Row& row, std::vector<Repaired>& repaired) {
    std::vector<std::optional<std::size_t>> owners;
    bool in_place = true;
    for (const ToolResult& result : row.entry.results) {
      owners.push_back(take_call(result));
      in_place = in_place && owners.back() && owners.back() == last_other_;
      if (!owners.back())
        repaired.push_back({.call_id = result.call_id, .why = "orphan_result"});
      else if (owners.back() != last_other_)
        repaired.push_back({.call_id = result.call_id, .why = "moved_result"});
    }
    const bool only_results = row.entry.role == Role::tool;
    if (in_place) {
      Answers& answers = answers_[*owners.front()];
      (only_results ? answers.results : answers.with_words).push_back(std::exchange(row, {}));
      return;
    }
    const Row whole = std::exchange(row, {});
    const auto with = [&](std::string message) {
      Row made{.id = whole.id, .seq = whole.seq, .counts_usage = whole.counts_usage};
      rows_.replace(made, std::move(message));
      return made;
    };
    for (std::size_t index = 0; index < owners.size(); ++index) {
      if (!owners[index]) continue;
      const std::string_view part = whole.entry.results[index].part;
      answers_[*owners[index]].results.push_back(
          part.empty() ? whole : with(fmt::format(R"({{"role":"user","content":[{}]}})", part)));
    }
    if (only_results) return;
    row = with(json::apply(whole.entry.message, {.set = {{"content", words_of(whole.entry)}}}));
    row.entry.person = whole.entry.person;
  }

  // Puts the results of a row's calls behind it, and makes those that there are none of.
  void answer(std::size_t at, const std::vector<ToolCall>& calls, std::vector<Row>& out,
              std::vector<Repaired>& repaired) {
    Answers& answers = answers_[at];
    std::ranges::move(answers.results, std::back_inserter(out));
    for (std::size_t call = 0; call < calls.size(); ++call) {
      if (answers.calls[call]) continue;
      Row row;
      rows_.replace(row, interrupted_result(open_call(calls[call])));
      out.push_back(std::move(row));
      repaired.push_back({.call_id = calls[call].id, .why = "missing_result"});
    }
    std::ranges::move(answers.with_words, std::back_inserter(out));
  }

  // The content of a message without its results.
  static std::string words_of(const Entry& entry) {
    std::unordered_set<const char*> results;
    for (const ToolResult& result : entry.results) results.insert(result.part.data());
    std::string content = "[";
    for (const std::string_view part : json::elements(entry.content)) {
      if (results.contains(part.data())) continue;
      if (content.size() > 1) content += ',';
      content += part;
    }
    return content + "]";
  }

  Rows& rows_;
  std::size_t begin_, end_;
  std::map<std::string, std::deque<Waiting>> waiting_{};  // by the call's id, in order
  std::unordered_map<std::size_t, Answers> answers_{};    // by the row of the calls
  std::optional<std::size_t> last_other_{};               // the last row that stays where it is
};

}  // namespace

std::string interrupted_result(const OpenCall& call) {
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
  std::map<std::string, std::size_t> open;  // calls of this turn without a result, by id
  for (Row& row : rows.all) {
    for (const ToolResult& result : row.entry.results) {
      const auto call = open.find(result.call_id);
      if (call == open.end() || call->second == 0) continue;
      --call->second;
      row.entry.person = false;
    }
    if (row.entry.person) open.clear();
    for (const ToolCall& call : row.entry.calls) ++open[call.id];
  }
}

std::vector<Repaired> match_pairs(Rows& rows) {
  mark_answers(rows);
  std::vector<Repaired> repaired;
  std::vector<Row> out;
  out.reserve(rows.all.size());
  for (std::size_t begin = 0; begin < rows.all.size();) {
    std::size_t end = begin;
    while (end < rows.all.size() && !rows.all[end].entry.person) ++end;
    end = std::min(end + 1, rows.all.size());
    Segment(rows, begin, end).match(out, repaired);
    begin = end;
  }
  rows.all = std::move(out);
  return repaired;
}

}  // namespace sessiond::context
