// The transcript of an ephemeral session: the lines that a file would have, in memory. Reads like a Transcript
// (transcript.hpp). Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {

class MemoryTranscript {
 public:
  // Adds a line that ends in '\n': the header first, then entries, with the time of the last one in ms.
  void add_header(std::string_view line) { text_ = line; }
  void add(std::string_view line, std::int64_t now);

  std::uint64_t count() const { return begins_.size(); }      // entries
  std::uint64_t bytes() const { return text_.size(); }        // as in a file
  const std::string& text() const { return text_; }           // the file
  std::int64_t updated_at() const { return updated_at_; }     // when the last line came, ms since the epoch
  Result<TranscriptPage> page(const PageQuery& query) const;  // never fails
  Result<void> each(std::span<const SeqSpan> spans, const Take& take) const;  // never fails
  std::string show(const StoredLine& line) const;
  // Never fails. Of several entries with one id, the one that Transcript::find finds.
  Result<std::optional<StoredLine>> find(std::string_view entry_id, const IsMeant& is_meant = {}) const;
  IdSet ids() const;  // of all entries

 private:
  std::string_view line(std::uint64_t seq) const;  // without its '\n'

  std::string text_{};
  std::vector<std::uint64_t> begins_{};  // of each entry in text_
  std::int64_t updated_at_ = 0;
};

}  // namespace sessiond::transcripts
