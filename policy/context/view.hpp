// Makes the rows of a request to a model from a conversation.
//
// Rows are made from the entries that are read (transcripts/conversation.hpp): the system messages first, then the
// summary of the last checkpoint, then the kept entries. Calls and results are made to match (tool_pairs.hpp), results
// are pruned (pruning.hpp), the oldest turns trimmed, and what is too long to be sent is left out (byte_limit.hpp).
// Nothing of this changes the transcript. Pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/context/entry.hpp"
#include "policy/context/meter.hpp"
#include "policy/context/settings.hpp"

namespace sessiond::context {

// An entry as it is read from a transcript.
struct Line {
  std::uint64_t seq = 0;
  std::string id{};
  std::string type{};
  std::string body{};     // JSON: of a message the message object, else the entry
  std::int64_t time = 0;  // of a checkpoint: ms since the epoch
  // Tokens that an edit or a deletion has taken from the message, and the seq of the entry that says so. The type of a
  // deleted message is empty.
  std::int64_t taken_back = 0;
  std::uint64_t changed_at = 0;
  // Set by put_in_order() (run_order.hpp).
  std::uint64_t at = 0;   // where it stands: its seq, or that of the entry before which it was moved
  bool is_input = false;  // a run was handed it
  bool is_asked = false;  // the run of the view was, or the one that is under way
  bool waits = false;     // for a run
};

// The runs of a session as they are now. The order of its conversation depends on them and on its entries.
struct OrderAsked {
  std::vector<std::string> waiting{};  // ids of words that wait for a run, in the order of the queue
  std::vector<std::string> active{};   // of those that the active run was handed
  std::string run{};                   // its id: the view of this run. Empty: that of the conversation
};

// The entries that are read of a conversation, on the path from its first entry to the leaf.
struct Conversation {
  std::vector<Line> system{};        // all of the path
  std::optional<Line> checkpoint{};  // the last one
  std::vector<Line> before{};        // kept entries before the checkpoint
  std::vector<Line> after{};         // entries after it; all of them if there is none
  bool cut = false;                  // not all of it was read: it exceeds the limit
};

struct Row {
  std::string id{};                     // of its entry; empty: the view made it
  std::vector<std::string> part_ids{};  // of the entries with its further parts (<id>.2, …)
  std::uint64_t seq = 0;                // of its entry; of a made result that of the call's
  std::uint64_t at = 0;                 // Line::at
  Entry entry{};
  bool counts_usage = true;
  bool aside = false;     // no model is shown it: calls and results are matched across it
  bool is_asked = false;  // words that the model is to answer now: they are shown whole
};

// The rows of a view, and the text of those that it made or changed.
class Rows {
 public:
  std::vector<Row> all{};
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }
  // Gives a row another message.
  void replace(Row& row, std::string message);

 private:
  std::deque<std::string> texts_{};  // their views stay valid
};

struct Pruned {
  std::size_t row = 0;  // of those that were pruned
  std::string entry_id{};
  std::string tool{};             // of a result
  std::string_view media{};       // "image" or "file"; empty: it is a result
  std::int64_t from = 0, to = 0;  // in code points; of media only `from` is set, in bytes
  const char* how = "soft";       // or "hard", "bytes" (byte_limit.hpp)
};
struct Repaired {
  std::string call_id{};   // of a call or a result
  std::string entry_id{};  // of a message without one
  // "missing_result", "orphan_result", "duplicate_result", "moved_result", "late_result" (in place of one that was
  // made), "renamed_call"; of a message "blank_text" (a part is left out or filled) and "blank_message" (left out).
  // "continued": a message was added behind the model's own words. "tried_again", with add_rows(…, all) alone: what a
  // run had said before its next attempt is left out.
  const char* why = "missing_result";
  std::string shown_as{};  // the id that a renamed call has in the view
};

enum class Style : std::uint8_t { pair, assistant };
enum class Prune : std::uint8_t { automatic, off, soft, hard, aggressive };

struct ViewOptions {
  Style style = Style::pair;
  Prune prune = Prune::automatic;
  std::int64_t window = 200'000;
  std::optional<std::int64_t> max_tool_chars{};
  std::optional<std::int64_t> max_messages{};
  std::optional<std::int64_t> max_bytes{};  // nothing: no limit
  bool of_run = false;                      // a run's: it ends with what a model can answer
};

struct View {
  Rows rows{};
  std::vector<std::string> system{};  // JSON, as to_json(Row) writes it
  std::size_t summary_rows = 0;       // the first rows are the summary
  std::vector<Pruned> pruned{};
  std::vector<Repaired> repaired{};
  std::int64_t used = 0;    // tokens of the rows
  std::int64_t bytes = 0;   // of the messages; more than ViewOptions::max_bytes: they cannot be sent
  std::int64_t whole = 0;   // the same before anything was pruned
  bool aggressive = false;  // how they were pruned
};

// Measures a conversation line by line: first its checkpoint, then its entries in the order of runs.
void begin(Meter& meter, const Line& checkpoint);
void add(Meter& meter, const Line& line, std::int64_t doom_count, bool counts_usage);
Meter measure(const Conversation& conversation, std::int64_t doom_count);

View view_of(const Conversation& conversation, const ViewOptions& options, const Settings& settings);

// Reads an entry as a view shows it: an input of a run is never left out.
Entry read_line(const Line& line);
// Makes the rows of entries, and names in `repaired` those that are not shown as they are (sendable.hpp). With `all`
// the entries that no model is shown become rows, too (Row::aside), and each keeps its type.
void add_rows(Rows& rows, const std::vector<Line>& lines, bool counts_usage, std::vector<Repaired>& repaired,
              bool all = false);
Rows rows_of(const Conversation& conversation, std::vector<Repaired>& repaired);  // without system messages, summary
std::string to_json(const Row& row);                                              // {"role",…,"entryIds":[…]}
void append_json(std::string& out, const Row& row);                               // the same, at the end of a text

// The text of a checkpoint's summary.
std::string summary_of(const Line& checkpoint);

// Returns whether a turn begins there: at a person's message that does not directly follow another one.
bool begins_turn(const std::vector<Row>& rows, std::size_t at);

}  // namespace sessiond::context
