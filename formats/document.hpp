// The common parts of the formats json, robota and manager: a document is one JSON object that holds a session whole,
// with its messages in an array. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/reader.hpp"
#include "formats/writer.hpp"
#include "policy/context/entry.hpp"
#include "store/json/raw_json.hpp"
#include "transcripts/entry_shape.hpp"

namespace sessiond::formats {

struct ReadOptions {
  std::int64_t now = 0;  // ms since the epoch: the time of an entry when the document names none
};

// --- reading ---

// The documents of a text, without its byte order mark: the text itself if it is one JSON value, else each of its
// lines; `line`: its number.
struct Document {
  std::string_view text{};
  std::size_t line = 0;
};
std::vector<Document> documents_in(std::string_view text);

// Checks that the text is one JSON object in UTF-8. validation_failed, naming the byte, or UTF-16.
Result<void> check_document(std::string_view document);
// A member of a type. Nothing if it is absent or null. validation_failed with the pointer `parent`/`name`.
Result<std::optional<std::string>> text_member(std::string_view object, std::string_view parent, std::string_view name);
Result<std::optional<std::int64_t>> time_member(std::string_view object, std::string_view parent,
                                                std::string_view name);  // ISO 8601, in ms
// The elements of an array of objects, each with a role, which must be there.
Result<std::vector<std::string_view>> messages_of(std::string_view document);
std::string pointer_to_message(std::size_t index);
// The session id of a document, checked as that of a new session.
Result<std::string> id_member(std::string_view object, std::string_view parent);

// The value on one line, in its own bytes if it has no line break.
std::string one_line(std::string_view value);
// The members that are not among `known`, with commas between; each value on one line.
std::string other_members(std::string_view object, const std::vector<std::string_view>& known);

// The arguments of a call as an object: OpenAI's are JSON within a string. What is none is {"text":…}.
std::string arguments_of(std::string_view raw);
// The first line of a transcript.
std::string header_of(std::string_view session_id, std::int64_t created, std::string_view cwd = {});

// Makes the entries of a transcript, each with the one before as its parent.
class EntryMaker {
 public:
  explicit EntryMaker(std::int64_t time) : time_(time) {}
  // `time`: nothing: that of the entry before. `kept`: the message as the document of format `format` has it, if it
  // cannot be made again from `message`; empty: it can.
  std::string message(std::string_view message, std::optional<std::int64_t> time, std::string_view format = {},
                      std::string_view kept = {});
  // An entry of another type; `members` are written behind the timestamp.
  std::string other(std::string_view type, std::string_view members);
  // A custom entry of type sessiond.history: `data` are members behind `format`.
  std::string history(std::string_view format, std::string_view data);
  static std::string id_of(std::uint64_t number);
  std::uint64_t next() const { return count_; }

 private:
  std::string head(std::string_view type);
  std::uint64_t count_ = 0;
  std::int64_t time_;
};

// --- messages as json and robota have them: {"role","content","timestamp":<ISO 8601>,…} ---

// Makes the message as a transcript has it: its time in ms, calls as parts of its content. validation_failed with a
// pointer below `pointer`.
struct ReadMessage {
  std::string message{};
  std::optional<std::int64_t> time{};
};
Result<ReadMessage> read_stored_message(std::string_view value, const std::string& pointer);
// `time`: when the message has none of its own; nothing: then none is written.
std::string stored_message(std::string_view message, std::optional<std::int64_t> time);

// --- writing ---

// An entry, taken apart. Views the line, or text that it holds.
class ReadEntry {
 public:
  explicit ReadEntry(std::string_view line);
  ReadEntry(const ReadEntry&) = delete;
  ReadEntry& operator=(const ReadEntry&) = delete;

  transcripts::EntryFields fields{};
  std::string type{};
  std::string_view line{};  // in UTF-8
  std::string_view body{};  // of a message the message object, else the entry
  // The message as people see it; nothing if this is none of a user, an assistant, a tool or a system, or was deleted.
  std::optional<std::string> message(const transcripts::ShownChange* change) const;
  std::optional<std::int64_t> time() const;                 // of the entry, ms since the epoch
  std::string_view kept(std::string_view format) const;     // see EntryMaker::message; empty: none
  std::string_view history(std::string_view format) const;  // the data of EntryMaker::history; empty: it is none

 private:
  std::string repaired_{}, held_{};
};

// The result of a survey of all entries.
struct Survey {
  explicit Survey(std::string_view of_format) : format(of_format) {}
  void add(const StoredEntry& entry);

  std::string format;
  std::int64_t messages = 0;                    // of user, assistant and tool, on the path
  std::string first_message{};                  // the first 200 code points of the first user's text
  std::optional<std::string> summary{};         // of the last compaction on the path
  std::string document{};                       // the data of the last history entry with `document`
  std::optional<std::uint64_t> last_history{};  // seq of the last history entry of the format
  std::optional<std::int64_t> first_time{};     // of the first entry
};

// The fields of a session's entry that documents show.
struct ShownSession {
  ShownSession(const SessionFacts& facts, const Survey& survey);
  std::string name{};  // else the id
  std::int64_t created = 0, active = 0, updated = 0;
};
// The members that a document had beside those that are known, as the last history entry has them under `name`, each
// behind a comma; without those that were `told`.
std::string kept_members(const Survey& survey, std::string_view name, const std::vector<std::string_view>& told = {});
// A time as the document wrote it that was imported, if it means `ms`; else as ISO 8601 has it.
std::string time_text(const Survey& survey, std::string_view name, std::int64_t ms);
// Those of these times of a document that iso_time() would write in another way, as members.
std::string odd_times(std::string_view object, std::initializer_list<std::string_view> names);

}  // namespace sessiond::formats
