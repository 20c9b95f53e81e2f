// Reads the lines of one rollout of the Codex CLI (codex.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/foreign.hpp"
#include "formats/reader.hpp"

namespace sessiond::formats {

// One line: {"timestamp","type","payload"}. In rollouts of before September 2025 the line is the payload itself.
struct CodexLine {
  CodexLine(std::string_view line, std::uint64_t at);
  std::string place() const { return line_place(number); }

  std::string_view text;
  std::uint64_t number = 0;
  std::string type{};          // "session_meta", "response_item", "event_msg", …; empty: it is no line of a rollout
  std::string_view payload{};  // a JSON object
  std::string kind{};          // the payload's type
  std::string_view pointer{};  // of the payload in the line
  std::optional<std::int64_t> time{};
  bool bad_time = false;
};

// The facts of a rollout that need the whole of it.
struct CodexScan {
  void take(std::string_view text, std::uint64_t number);

  ForeignHead head{};
  std::vector<Tokens> replies{};  // of each reply of the model, in order
  bool any = false;

 private:
  bool replying_ = false;
};

// Tells whether a payload is a part of a reply of the model: thinking, a text, or a call.
bool is_of_reply(const CodexLine& line);

// Makes entries of the lines: begin(), take() for each line, end().
class CodexReader {
 public:
  CodexReader(Sink& sink, std::string file, CodexScan scan) : out_(sink, std::move(file)), scan_(std::move(scan)) {}
  Result<void> begin() { return out_.begin(scan_.head); }
  Result<void> take(std::string_view text, std::uint64_t number);
  Result<void> end();

 private:
  Result<void> take_item(const CodexLine& line);
  Result<void> take_reply_part(const CodexLine& line);
  Result<void> take_message(const CodexLine& line);
  Result<void> take_result(const CodexLine& line);
  Result<void> take_context(const CodexLine& line);
  Result<void> take_compaction(const CodexLine& line);
  Result<void> take_event(const CodexLine& line);
  Result<void> keep(const CodexLine& line);
  Result<void> write_reply();
  bool add_parts(const CodexLine& line, std::string_view parts, std::string_view pointer, Content& content);
  ForeignEntry entry_of(const CodexLine& line) const;

  ForeignSession out_;
  CodexScan scan_;
  std::string provider_{}, model_{};
  std::size_t replies_ = 0;  // written
  struct Reply {
    bool open = false, calls = false;
    ForeignEntry entry{};
    Content content{};
  } reply_{};
  std::vector<std::string> later_{};  // events within the reply: entries behind it, as lines
  std::vector<std::uint64_t> later_numbers_{};
  std::map<std::string, std::string, std::less<>> tools_{};  // names, by the ids of open calls
  std::vector<std::string> turns_{};                         // the leaf before each message of a person
};

}  // namespace sessiond::formats
