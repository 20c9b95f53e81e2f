// Says in which transcript each line of a transcript was first written. A copy (a fork, a transcript that replaces
// another one) keeps it in its header, flat, so that a copy of a copy names the first transcript too:
//   "copied":[{"sessionId":"02254bd6-…","topic":"work","firstSeq":0,"lastSeq":41}]
// `topic` is missing for a session's own transcript. The seqs are those of the copy. All other lines were first written
// in the transcript itself.
//
// Edits, deletions and reactions are kept under the name of that transcript and the entry's id (changes.hpp). So they
// hold in every copy.
// Pure values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sessiond::transcripts {

// Names a transcript: the session id, and the topic that it is of.
std::string transcript_name(std::string_view session_id, const std::optional<std::string>& topic);
struct TranscriptName {
  std::string_view session_id{}, topic{};  // views of the name
};
TranscriptName parts_of(std::string_view transcript_name);
// The name of the file with the changes of its messages, where transcripts are named (store::changes_file). Nothing:
// the session id of the name is not valid.
std::optional<std::string> changes_file(std::string_view transcript_name);

struct CopiedLines {
  std::string name{};  // transcript_name()
  std::uint64_t first = 0, last = 0;

  friend bool operator==(const CopiedLines&, const CopiedLines&) = default;
};

class Origins {
 public:
  explicit Origins(std::string own_name = {}) : own_(std::move(own_name)) {}
  // `header`: the first line of the transcript. Records that cannot be read count as missing.
  static Origins read(std::string own_name, std::string_view header);

  const std::vector<CopiedLines>& copied() const { return copied_; }
  std::string_view at(std::uint64_t seq) const;
  std::vector<std::string_view> names() const;  // each once, its own first

  // Returns the records of a copy that has these lines, in this order. Each span is of seqs, both included.
  struct Lines {
    std::uint64_t first = 0, last = 0;
  };
  std::vector<CopiedLines> of_copy(std::span<const Lines> lines) const;

 private:
  std::string own_;
  std::vector<CopiedLines> copied_{};  // sorted
};

// Adds a line of a copy, which has the seq behind that of the last record's last line.
void add_copied(std::vector<CopiedLines>& records, std::string_view name, std::uint64_t first, std::uint64_t last);
// The member of the header; "" without records.
std::string copied_member(std::span<const CopiedLines> records);

}  // namespace sessiond::transcripts
