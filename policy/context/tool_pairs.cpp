#include "policy/context/tool_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

constexpr std::string_view interrupted = "No result: the call was interrupted.";

OpenCall open_call(const ToolCall& call) { return {.id = call.id, .name = call.name, .spelling = call.spelling}; }

// The rows between two messages of persons, and the second of these, whose parts may still answer a call.
class Segment {
 public:
  Segment(Rows& rows, std::size_t begin, std::size_t end) : rows_(rows), begin_(begin), end_(end) {}

  void match(std::vector<Row>& out, std::vector<Repaired>& repaired) {
    for (std::size_t at = begin_; at < end_; ++at) claim(at, repaired);
    for (std::size_t at = begin_; at < end_; ++at) {
      Row& row = rows_.all[at];
      if (row.entry.role == Role::tool) continue;  // it comes behind its call
      const bool calls = row.entry.role == Role::assistant && !row.entry.calls.empty();
      const std::vector<ToolCall> made = calls ? row.entry.calls : std::vector<ToolCall>{};
      out.push_back(std::move(row));
      if (calls) answer(at, made, out, repaired);
    }
  }

 private:
  struct Waiting {
    std::size_t row;
    std::size_t call;
  };

  // Notes the calls of a row, or gives its results to the calls that wait for them.
  void claim(std::size_t at, std::vector<Repaired>& repaired) {
    Row& row = rows_.all[at];
    for (std::size_t call = 0; call < row.entry.calls.size(); ++call) waiting_.push_back({at, call});
    if (row.entry.results.empty()) return;
    std::vector<std::string_view> orphans;
    std::optional<std::size_t> owner;
    for (const ToolResult& result : row.entry.results) {
      const auto call = std::ranges::find_if(waiting_, [&](const Waiting& one) {
        return (!owner || *owner == one.row) && rows_.all[one.row].entry.calls[one.call].id == result.call_id;
      });
      if (call == waiting_.end()) {
        orphans.push_back(result.part);
        repaired.push_back({.call_id = result.call_id, .why = "orphan_result"});
        continue;
      }
      owner = call->row;
      answered_[call->row].push_back(call->call);
      waiting_.erase(call);
    }
    if (!owner && row.entry.role == Role::tool) return;  // it is left out
    if (!orphans.empty()) drop_parts(row, orphans);
    if (!owner || row.entry.role != Role::tool) return;
    results_[*owner].push_back(at);
    const bool moved = std::ranges::any_of(rows_.all.begin() + static_cast<std::ptrdiff_t>(*owner) + 1,
                                           rows_.all.begin() + static_cast<std::ptrdiff_t>(at),
                                           [](const Row& between) { return between.entry.role != Role::tool; });
    if (moved) repaired.push_back({.call_id = row.entry.results.front().call_id, .why = "moved_result"});
  }

  // Puts the results of a row's calls behind it, and makes those that there are none of.
  void answer(std::size_t at, const std::vector<ToolCall>& calls, std::vector<Row>& out,
              std::vector<Repaired>& repaired) {
    for (const std::size_t result : results_[at]) out.push_back(std::move(rows_.all[result]));
    const std::vector<std::size_t>& answered = answered_[at];
    for (std::size_t call = 0; call < calls.size(); ++call) {
      if (std::ranges::find(answered, call) != answered.end()) continue;
      Row row;
      rows_.replace(row, interrupted_result(open_call(calls[call])));
      out.push_back(std::move(row));
      repaired.push_back({.call_id = calls[call].id, .why = "missing_result"});
    }
  }

  void drop_parts(Row& row, const std::vector<std::string_view>& parts) {
    std::string content = "[";
    for (const std::string_view part : json::elements(row.entry.content)) {
      if (std::ranges::find(parts, part.data(), &std::string_view::data) != parts.end()) continue;
      if (content.size() > 1) content += ',';
      content += part;
    }
    rows_.replace(row, json::apply(row.entry.message, {.set = {{"content", content + "]"}}}));
  }

  Rows& rows_;
  std::size_t begin_, end_;
  std::vector<Waiting> waiting_{};
  std::map<std::size_t, std::vector<std::size_t>> results_{};   // rows of results, by the row of their calls
  std::map<std::size_t, std::vector<std::size_t>> answered_{};  // calls of a row that have a result
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
