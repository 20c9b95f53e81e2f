// Writes a session as a document of another program, from its entries, in little memory however many they are.
//
// Whoever writes a document passes all entries of the transcript to survey(), those on the path to count() if that is
// wanted, then entries once for each of passes(). Texts come out in the order begin(), those of the first pass,
// middle(), those of the second pass, end(). The same entries make the same bytes.
//
// message() takes entries on the path to the leaf, in the order of runs (policy/context/run_order.hpp), and leaves out
// those that the format does not have. A document that was imported before gets back what the daemon has no use for:
// the importer put it into a `custom` entry of type sessiond.history, or beside a message (README.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"
#include "transcripts/changes.hpp"

namespace sessiond::formats {

// The session that a document is made of.
struct SessionFacts {
  std::string id{};
  std::string agent{};
  std::string entry = "{}";  // of sessions.json
  std::string header{};      // the first line of the transcript; empty: there is none
  // For a conversation that says where it belongs (jsonl.hpp):
  std::string key{};
  std::optional<std::string> topic{};  // nothing: the transcript is the session's own
  std::size_t more = 0;                // transcripts of the session that follow
  // Its streams that the document has, too: DocumentFormat::write_stream.
  std::vector<std::string> streams{};
};

// An entry as the transcript has it, without its '\n'.
struct StoredEntry {
  std::uint64_t seq = 0;
  std::string_view line{};
  bool on_path = true;
  const transcripts::ShownChange* change = nullptr;  // what people did to the message later; null: nothing
  // In the first pass:
  bool is_input = false;    // a run was handed it
  bool is_blocked = false;  // a hook did not let it begin
};

// message() takes a pass over the `path` to the leaf, in the order of runs. history() takes a pass over `all` entries,
// in the file's order.
enum class Pass : std::uint8_t { path, all };

class Writer {
 public:
  virtual ~Writer() = default;
  virtual void survey(const StoredEntry& entry) = 0;
  virtual bool wants_count() const { return false; }
  virtual void count(const StoredEntry& /*entry*/) {}  // of the path, in the order of runs
  // After the survey. validation_failed if the format cannot hold a message.
  virtual Result<std::string> begin() = 0;
  virtual std::vector<Pass> passes() const { return {Pass::path}; }
  virtual void message(std::string& out, const StoredEntry& entry) = 0;
  virtual std::string middle() = 0;
  virtual void history(std::string& /*out*/, const StoredEntry& /*entry*/) {}
  virtual std::string end() = 0;
};

}  // namespace sessiond::formats
