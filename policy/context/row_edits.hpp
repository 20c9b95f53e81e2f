// Changes what a row shows: other texts for results of tools, notices in place of media. The row's message is rewritten
// in Rows; the transcript is not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/view.hpp"

namespace sessiond::context {

inline constexpr std::string_view cleared_result = "[Old tool result content cleared]";

// Returns the text of a result: the string, or all text parts with a newline between them.
std::string text_of(std::string_view content);

// A new text of one result of a row.
struct NewText {
  std::size_t result = 0;
  std::string text{};
  bool keeps_others = true;  // parts that are no text
};
// Rewrites a row once, however many of its results change. They are in order.
void set_texts(Rows& rows, Row& row, const std::vector<NewText>& changes);

// Returns what a message itself says: the string, or the texts of all spellings with a newline between them.
std::string said_in(std::string_view content);
// Puts a text in the place of a message's first one. Its other texts and its thinking go, other parts stay.
void set_said(Rows& rows, Row& row, std::string_view text);

// An image or a file of a message: a part of its content or of a result's, or an attachment.
struct Media {
  std::string_view kind{};  // "image" or "file"
  bool attached = false;    // it is an attachment, which takes no tokens
  std::int64_t bytes = 0;   // as it is sent to a model, in base64
  std::int64_t saved = 0;   // how many of them its notice saves; may be negative
};
// Puts a notice in the place of each media of a row for which `clears` returns true.
void clear_media(Rows& rows, Row& row, const std::function<bool(const Media&)>& clears);

// The names of the tools whose results the rows have. Views the rows.
class ToolNames {
 public:
  explicit ToolNames(const std::vector<Row>& rows) : rows_(rows) {}
  // Returns what the result says, else the name of the last call with its id.
  std::string of(const ToolResult& result);

 private:
  const std::vector<Row>& rows_;
  std::map<std::string, std::string> names_{};  // by the call's id
};

}  // namespace sessiond::context
