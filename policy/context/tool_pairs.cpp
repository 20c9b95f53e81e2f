#include "policy/context/tool_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

constexpr std::string_view interrupted = "No result: the call was interrupted.";

OpenCall open_call(const ToolCall& call) { return {.id = call.id, .name = call.name, .spelling = call.spelling}; }

// The rows between two messages of persons, and the second of these, whose parts may still answer a call. Each step
// takes time linear in the rows, calls and results: transcripts may have very many of them.
class Segment {
 public:
  Segment(Rows& rows, std::size_t begin, std::size_t end) : rows_(rows), begin_(begin), end_(end) {}

  void match(std::vector<Row>& out, std::vector<Repaired>& repaired) {
    for (std::size_t at = begin_; at < end_; ++at) claim(at, repaired);
    for (std::size_t at = begin_; at < end_; ++at) {
      Row& row = rows_.all[at];
      if (row.entry.role == Role::tool) continue;  // it comes behind its call
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
  struct Answers {
    std::vector<std::size_t> rows{};  // of results
    std::vector<bool> calls{};        // that have a result
  };

  // Notes the calls of a row, or gives its results to the calls that wait for them.
  void claim(std::size_t at, std::vector<Repaired>& repaired) {
    Row& row = rows_.all[at];
    for (std::size_t call = 0; call < row.entry.calls.size(); ++call)
      waiting_[row.entry.calls[call].id].push_back({at, call});
    if (!row.entry.calls.empty()) answers_[at].calls.resize(row.entry.calls.size());
    if (!row.entry.results.empty()) give(at, repaired);
    if (row.entry.role != Role::tool) last_other_ = at;
  }

  // All results of one row belong to the calls of one row: the one that its first result answers.
  void give(std::size_t at, std::vector<Repaired>& repaired) {
    Row& row = rows_.all[at];
    std::unordered_set<const char*> orphans;
    std::optional<std::size_t> owner;
    for (const ToolResult& result : row.entry.results) {
      const auto calls = waiting_.find(result.call_id);
      const bool waits =
          calls != waiting_.end() && !calls->second.empty() && (!owner || calls->second.front().row == *owner);
      if (!waits) {
        orphans.insert(result.part.data());
        repaired.push_back({.call_id = result.call_id, .why = "orphan_result"});
        continue;
      }
      owner = calls->second.front().row;
      answers_[*owner].calls[calls->second.front().call] = true;
      calls->second.pop_front();
    }
    if (!owner && row.entry.role == Role::tool) return;  // it is left out
    if (!orphans.empty()) drop_parts(row, orphans);
    if (!owner || row.entry.role != Role::tool) return;
    answers_[*owner].rows.push_back(at);
    if (last_other_ && *last_other_ > *owner)
      repaired.push_back({.call_id = row.entry.results.front().call_id, .why = "moved_result"});
  }

  // Puts the results of a row's calls behind it, and makes those that there are none of.
  void answer(std::size_t at, const std::vector<ToolCall>& calls, std::vector<Row>& out,
              std::vector<Repaired>& repaired) {
    const Answers& answers = answers_[at];
    for (const std::size_t result : answers.rows) out.push_back(std::move(rows_.all[result]));
    for (std::size_t call = 0; call < calls.size(); ++call) {
      if (answers.calls[call]) continue;
      Row row;
      rows_.replace(row, interrupted_result(open_call(calls[call])));
      out.push_back(std::move(row));
      repaired.push_back({.call_id = calls[call].id, .why = "missing_result"});
    }
  }

  void drop_parts(Row& row, const std::unordered_set<const char*>& parts) {
    std::string content = "[";
    for (const std::string_view part : json::elements(row.entry.content)) {
      if (parts.contains(part.data())) continue;
      if (content.size() > 1) content += ',';
      content += part;
    }
    rows_.replace(row, json::apply(row.entry.message, {.set = {{"content", content + "]"}}}));
  }

  Rows& rows_;
  std::size_t begin_, end_;
  std::unordered_map<std::string, std::deque<Waiting>> waiting_{};  // by the call's id, in order
  std::unordered_map<std::size_t, Answers> answers_{};              // by the row of the calls
  std::optional<std::size_t> last_other_{};                         // the last row that is no result
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

std::vector<Repaired> match_pairs(Rows& rows) {
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
