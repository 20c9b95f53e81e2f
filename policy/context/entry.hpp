// Reads from a transcript's entry who speaks, which tools are called and answered, and how many tokens it takes.
// Runners of several providers write transcripts, so calls and results are read in each spelling:
//   Pi, OpenClaw  {"role":"assistant","content":[{"type":"toolCall","id","name","arguments":{…}}]}
//                 {"role":"toolResult","toolCallId","toolName","content":[…],"isError":false}
//   OpenAI        {"role":"assistant","tool_calls":[{"id","function":{"name","arguments":"{…}"}}]}
//                 {"role":"tool","tool_call_id","content":"…"}
//   Anthropic     {"role":"assistant","content":[{"type":"tool_use","id","name","input":{…}}]}
//                 {"role":"user","content":[{"type":"tool_result","tool_use_id","content":…,"is_error"}]}
//
// An Entry views the text that it was read from. These functions are pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/usage.hpp"

namespace sessiond::context {

enum class Role : std::uint8_t {
  none,  // a model is not shown it: labels, custom entries, unreadable lines
  system,
  user,
  assistant,
  tool,  // nothing but results of tools
};

enum class Spelling : std::uint8_t { pi, openai, anthropic };

// How a message can be sent to a provider (sendable.hpp).
enum class Fit : std::uint8_t {
  as_it_is,
  mended,    // without the blank parts that it has
  left_out,  // there is nothing in it
};

struct ToolCall {
  std::string id{};
  std::string name{};
  std::string_view arguments{};  // raw JSON; OpenAI's are a string that holds JSON
  std::string_view part{};       // the element of `content` or `tool_calls` that it is
  Spelling spelling = Spelling::pi;
};

struct ToolResult {
  std::string call_id{};
  std::string name{};          // of the tool; empty if the result does not say it
  std::string_view content{};  // raw JSON: a string or an array of parts
  std::string_view part{};     // the part of a user message that it is; empty: it is the message
  std::int64_t tokens = 0;     // estimated, of it alone
};

// An entry sessiond.input or sessiond.run of a transcript, read (policy/context/README.md, In which order).
struct RunNote {
  enum class What : std::uint8_t {
    input,   // sessiond.input: words were handed to the run
    record,  // sessiond.run: it ended
  };
  What what = What::input;
  std::string run_id{};
  std::string retry_of{};            // the run whose next attempt it is; empty: it is the first
  std::vector<std::string> words{};  // ids of entries: those it was handed, or with which it ended before it began
  bool beside_others = false;        // other programs answer here, too (mode shared)
  bool retried = false;              // another attempt follows
  bool blocked = false;              // a hook did not let it begin
};

struct Entry {
  std::string_view message{};  // raw JSON object; of a compaction, a custom message or a branch's summary the entry
  std::string_view content{};  // raw
  Role role = Role::none;
  bool person = false;       // a user's message that a person wrote: neither synthetic nor a summary
  bool synthetic = false;    // the daemon or a runner made it
  bool summary = false;      // it is half of a pair that summarises what came before
  bool checkpoint = false;   // it stands for the entries before it
  bool marked = false;       // it has members that a view adds: entryIds, status
  bool from_owner = false;   // the owner of the account that the agent uses has typed it: it is shown with a mark
  std::string author{};      // of an assistant's message that a person wrote in place of the agent: it is shown as a
                             // user's, with a mark
  bool interrupted = false;  // an assistant's message: what a run had said when it ended, without calls
  std::vector<ToolCall> calls{};
  std::vector<ToolResult> results{};
  std::string_view status{};  // raw; of a result that is a message: the member, or what the text says; else empty
  std::string_view model{}, provider{};       // raw; of an assistant's message
  std::optional<policy::TokenUsage> usage{};  // of an assistant's message
  std::int64_t tokens = 0;                    // estimated
  std::int64_t word_tokens = 0;               // of what is no result
  Fit fit = Fit::as_it_is;                    // the tokens are those of the message as it can be sent
  std::int64_t files = 0;                     // parts that are files or images, and attachments
  std::shared_ptr<const RunNote> note{};      // null: it tells of no run
  std::vector<std::string> dropped{};         // ids of words that a full queue has dropped: it tells of them

  // Returns whether it says that another attempt of a run follows: what the run had said is not shown then.
  bool retries() const { return note && note->retried; }
  // Returns whether it is something that is said to the model and no result of a call: runs are handed such entries.
  bool is_word() const { return role == Role::user && results.empty() && !summary; }
};

// Reads an entry by its type and its body: for "message" the message object, else the entry's members.
Entry read_entry(std::string_view type, std::string_view body);

// Returns whether a custom entry of this type tells of a run (RunNote).
bool is_run_note(std::string_view custom_type);

// Returns whether messageCount counts the entry: it is a message of a user, an assistant or a tool, and no checkpoint.
inline bool is_message(std::string_view type, const Entry& entry) {
  return type == "message" && entry.role != Role::none && entry.role != Role::system && !entry.checkpoint;
}

// Counts the files of a message: the parts of its content that are files or images, and its attachments.
std::int64_t files_in(std::string_view message);

// Returns whether content has nothing to say: it is missing, a string of white space, or no part is more than that.
bool is_blank(std::string_view content);
// Returns whether a part of a content is a text, or thinking, by its `type`.
bool is_text(std::string_view type);
bool is_thinking(std::string_view type);
// Returns whether it is a part with a text of nothing but white space.
bool is_blank_text(std::string_view part);

// Returns what a message has beside its words, parts of its content and attachments alike, as JSON:
// [{"type":"image"},{"type":"file","name":"report.pdf"}]; "" if there is nothing.
std::string attachments_in(std::string_view message);
// Returns a line for each attachment of a message that has no text: "[image]", "[file: report.pdf]".
std::string names_of_attachments(std::string_view attachments);
inline constexpr std::string_view no_output = "(no output)";  // in place of a result that is blank
inline constexpr std::string_view owner_mark = "[sent by the account's owner] ";
// Returns the mark with which a message is shown; empty: it has none.
std::string mark_of(const Entry& entry);
inline constexpr std::string_view empty_message = "(empty message)";  // in place of words that are blank

// Counts the code points of a JSON string, given as it stands between its quotes.
std::int64_t code_points(std::string_view inner);

// Estimates tokens: a quarter of the code points, rounded up.
constexpr std::int64_t tokens_of(std::int64_t points) { return (points + 3) / 4; }
inline constexpr std::int64_t tokens_of_image = 2000;

// Counts the code points of the text of a result: the string, or all text parts with a newline between them.
std::int64_t text_points(std::string_view content);
std::int64_t images_in(std::string_view content);  // of a result

// Returns "image" or "file" for a part of a content, or an attachment, that is one; else "".
std::string_view media_kind(std::string_view item);
// Returns the name that such an item has; "": none.
std::string name_of_media(std::string_view item);

}  // namespace sessiond::context
