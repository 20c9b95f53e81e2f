// The transcript of an ephemeral session: the lines that a file would have, in memory. Reads like a Transcript
// (transcript.hpp). A copy shares all lines but the last few: it costs little however long the transcript is, and
// another thread may read it while this one grows. Not thread-safe otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {

class MemoryTranscript {
 public:
  // Adds a line that ends in '\n': the header first, then entries, with the time of the last one in ms.
  void add_header(std::string_view line);
  void add(std::string_view line, std::int64_t now);

  std::uint64_t count() const { return last_.first + last_.begins.size(); }  // entries
  std::uint64_t bytes() const { return bytes_; }                             // as in a file
  std::string text() const;                                                  // the file
  std::int64_t updated_at() const { return updated_at_; }     // when the last line came, ms since the epoch
  Result<TranscriptPage> page(const PageQuery& query) const;  // never fails
  Result<void> each(std::span<const SeqSpan> spans, const Take& take) const;  // never fails
  std::string show(const StoredLine& line) const;
  // These never fail. Of several entries with one id, they find the one that Transcript::find finds.
  Result<Transcript::Found> find(std::span<const std::string> entry_ids, const IsMeant& is_meant = {}) const;
  Result<std::optional<StoredLine>> find(std::string_view entry_id, const IsMeant& is_meant = {}) const;
  IdSet ids() const;  // of all entries

 private:
  // Entries in a row.
  struct Chunk {
    std::uint64_t first = 0;  // seq
    std::string text{};
    std::vector<std::size_t> begins{};  // of each entry in `text`
  };
  static constexpr std::size_t chunk_bytes = 64 << 10;  // a chunk that has as many is full

  std::string_view line(std::uint64_t seq) const;  // without its '\n'

  std::string header_{};
  std::vector<std::shared_ptr<const Chunk>> full_{};  // never change
  Chunk last_{};
  std::uint64_t bytes_ = 0;
  std::int64_t updated_at_ = 0;
};

}  // namespace sessiond::transcripts
