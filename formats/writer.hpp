// Writes a session as a document of another program, from its entries, in little memory however many they are.
//
// Whoever writes a document passes all entries of the transcript three times at most, each time in order: to survey(),
// to message(), and, if wants_history(), to history(). Texts come out in the order begin(), those of message(),
// middle(), those of history(), end(). The same entries make the same bytes.
//
// message() takes entries on the path to the leaf and leaves out those that the format does not have. A document that
// was imported before gets back what the daemon has no use for: the importer put it into a `custom` entry of type
// sessiond.history, or beside a message (README.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "store/problem.hpp"
#include "transcripts/changes.hpp"

namespace sessiond::formats {

// The session that a document is made of.
struct SessionFacts {
  std::string id{};
  std::string entry = "{}";  // of sessions.json
  std::string header{};      // the first line of the transcript; empty: there is none
};

// An entry as the transcript has it, without its '\n'. `change`: what people did to the message later; null: nothing.
struct StoredEntry {
  std::uint64_t seq = 0;
  std::string_view line{};
  bool on_path = true;
  const transcripts::ShownChange* change = nullptr;
};

class Writer {
 public:
  virtual ~Writer() = default;
  virtual void survey(const StoredEntry& entry) = 0;
  // After the survey. validation_failed if the format cannot hold a message.
  virtual Result<std::string> begin() = 0;
  virtual void message(std::string& out, const StoredEntry& entry) = 0;
  virtual std::string middle() = 0;
  virtual bool wants_history() const { return false; }
  virtual void history(std::string& /*out*/, const StoredEntry& /*entry*/) {}
  virtual std::string end() = 0;
};

}  // namespace sessiond::formats
