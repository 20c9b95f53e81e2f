// Reads the lines of one session of Claude Code (claude_code.hpp).
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/foreign.hpp"
#include "formats/reader.hpp"

namespace sessiond::formats {

// One line, and what most kinds of lines have.
struct ClaudeLine {
  std::string_view text;
  std::uint64_t number = 0;
  json::Index members;
  std::string type, uuid;
  std::optional<std::int64_t> time{};
  bool sidechain = false;

  ClaudeLine(std::string_view line, std::uint64_t at) : text(line), number(at), members(line) {
    type = members.string_at("type").value_or("");
    uuid = members.string_at("uuid").value_or("");
    if (const auto given = members.find("timestamp")) time = time_of(*given);
    sidechain = members.find("isSidechain") == "true";
  }
  bool flag(std::string_view name) const { return members.find(name) == "true"; }
  std::string place() const { return line_place(number); }
};

// Makes entries of the lines: begin(), take() for each line, end().
class ClaudeReader {
 public:
  ClaudeReader(Sink& sink, std::string file, bool of_subagent)
      : out_(sink, std::move(file)), of_subagent_(of_subagent) {}

  Result<void> begin(const ForeignHead& head) { return out_.begin(head); }
  Result<void> end();
  Result<void> take(std::string_view text, std::uint64_t number);

 private:
  // The lines of one reply of the model: Claude Code writes one for each part.
  struct Reply {
    std::string message_id, first_uuid, parent, rest, model, stop, error;
    std::vector<std::string> uuids{};
    std::optional<std::int64_t> time{};
    Tokens tokens{};
    Content content{};
    std::string place{};
    bool open = false, sidechain = false, goes_on = false;  // goes_on: behind results, with one that is written
  };
  struct KeptLine {
    std::string text;
    std::uint64_t number = 0;
  };
  // Lines about hooks, tools and the program that stand between those of a reply, or between a compaction and its
  // summary. They are taken behind them.
  struct Between {
    std::vector<KeptLine> lines{};
    std::vector<std::string> uuids{};
    std::size_t bytes = 0;
  };

  Result<void> take_message(const ClaudeLine& line);
  Result<void> take_user(const ClaudeLine& line, std::string_view message, std::string_view content);
  Result<void> take_results(const ClaudeLine& line, std::string_view content);
  Result<void> take_assistant(const ClaudeLine& line, std::string_view message, std::string_view content);
  Result<void> take_other(const ClaudeLine& line);
  Result<bool> take_summary(const ClaudeLine& line, std::string_view content);
  bool goes_on(const ClaudeLine& line, const std::string& message_id) const;
  bool keep_between(const ClaudeLine& line);
  Result<void> take_between();
  Result<void> write_reply();
  Result<void> write_boundary();
  Result<void> added(const ClaudeLine& line, Result<std::string> id);
  Result<void> add_result(const ClaudeLine& line, std::string_view part, ForeignEntry entry);
  bool content_ok(const ClaudeLine& line, std::string_view content);
  std::string parent_of(const ClaudeLine& line) const;
  ForeignEntry entry_of(const ClaudeLine& line) const {
    return {.id = line.uuid,
            .otherwise = fmt::format("line-{}", line.number),
            .parent = parent_of(line),
            .time = line.time};
  }

  ForeignSession out_;
  bool of_subagent_;                                                 // all lines are a side chain
  std::string main_{};                                               // the last entry that is on no side chain
  std::map<std::string, std::string, std::less<>> entry_of_uuid_{};  // where the entry has another id
  std::map<std::string, std::string, std::less<>> tools_{};          // names, by the ids of open calls
  std::optional<KeptLine> boundary_{};                               // of a compaction; its summary is in the next line
  Reply reply_{};
  Between between_{};
  std::string last_message_{};  // id of the last reply that was written; its later parts count no tokens again
  // The last reply, and the lines that hang on it beside its results; what comes next of it stands behind tip_.
  std::set<std::string, std::less<>> chain_{};
  std::string tip_{};
};

}  // namespace sessiond::formats
