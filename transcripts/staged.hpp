// A staged transcript: a file that is written before the commit that makes it a session's, so that a transcript of any
// length comes in by one event. It stands beside the transcripts, under a name that no program takes for one:
//   x.jsonl.5f0c21ab.17.staged.tmp   (the transcript's name, the run of the daemon, a number)
// The event names it in `stagedAs`; once the event is durable, the file gets the transcript's name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond::transcripts {

// Returns the name of the transcript that a staged file becomes; "" if `name` is no staged file's.
std::string_view staged_for(std::string_view name);
// Tells whether an earlier run of the daemon staged a file. No commit of this run names it.
bool is_left_staged(std::string_view name);

// Writes one. All calls block. A file that is not kept is removed with the object.
class StagedTranscript {
 public:
  StagedTranscript() = default;  // no file
  // `file`: the transcript's name. Makes the folder.
  static Result<StagedTranscript> create(const std::filesystem::path& folder, std::string_view file);
  StagedTranscript(StagedTranscript&& other) noexcept;
  StagedTranscript& operator=(StagedTranscript&&) = delete;
  ~StagedTranscript();

  // Adds a line: the header first, then entries. Without a line break. Sealed if encryption is on.
  Result<void> add(std::string_view line);
  // Makes the file and its name durable. Nothing is added after that.
  Result<void> finish();

  const std::string& name() const { return name_; }
  // The file stays from here on: a commit that names it has been decided.
  void keep() { kept_ = true; }

 private:
  StagedTranscript(std::filesystem::path folder, std::string name, store::Fd fd);
  Result<void> write();

  std::filesystem::path folder_;
  std::string name_;  // empty: moved from
  store::Fd fd_;
  std::string unwritten_{};
  std::uint64_t next_ = 0;  // seq of the next entry
  bool has_header_ = false;
  bool kept_ = false;
};

}  // namespace sessiond::transcripts
