// Writes a session as a document of another program, from its entries, in little memory however many they are.
//
// Whoever writes a document passes all entries of the transcript three times at most, each time in order: to survey(),
// then once for each of passes(). Texts come out in the order begin(), those of the first pass, middle(), those of the
// second pass, end(). The same entries make the same bytes.
//
// message() takes entries on the path to the leaf and leaves out those that the format does not have. A document that
// was imported before gets back what the daemon has no use for: the importer put it into a `custom` entry of type
// sessiond.history, or beside a message (README.md).
#pragma once

#include <cstdint>
#include <memory>
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
};

// An entry as the transcript has it, without its '\n'. `change`: what people did to the message later; null: nothing.
struct StoredEntry {
  std::uint64_t seq = 0;
  std::string_view line{};
  bool on_path = true;
  const transcripts::ShownChange* change = nullptr;
};

// What a pass is over: the entries on the path to the leaf, given to message(), or all of them, given to history().
enum class Pass : std::uint8_t { path, all };

class Writer {
 public:
  virtual ~Writer() = default;
  virtual void survey(const StoredEntry& entry) = 0;
  // After the survey. validation_failed if the format cannot hold a message.
  virtual Result<std::string> begin() = 0;
  virtual std::vector<Pass> passes() const { return {Pass::path}; }
  virtual void message(std::string& out, const StoredEntry& entry) = 0;
  virtual std::string middle() = 0;
  virtual void history(std::string& /*out*/, const StoredEntry& /*entry*/) {}
  virtual std::string end() = 0;
};

}  // namespace sessiond::formats
