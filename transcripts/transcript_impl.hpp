// The state of a Transcript (transcript.hpp): the open file, and the indexes of its lines. transcript.cpp keeps them as
// the file is now, transcript_lines.cpp reads lines by them.
#pragma once

#include <sys/stat.h>

#include <map>
#include <memory>

#include "store/try.hpp"
#include "transcripts/kept_index.hpp"
#include "transcripts/line_index.hpp"
#include "transcripts/line_reader.hpp"
#include "transcripts/page_builder.hpp"
#include "transcripts/shown_lines.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::transcripts {

struct Transcript::Impl {
  std::filesystem::path path;
  std::filesystem::path sidecar;
  store::Fd fd{};
  store::FileIdentity seen{};  // the file as the index covers it; none: not refreshed to the end
  LineIndex index{};
  // These two never cover more than `index`.
  KeptIndex<IdIndex> ids{};
  KeptIndex<Landmarks> landmarks{};
  Landmarks with_tail{};  // and a last line without '\n'
  TranscriptTail tail{};
  ShownLines shown{};
  mutable std::optional<std::string> first_line{};                            // header(), once it was asked for
  std::string changes_dir{};                                                  // ends in '/'; empty: there is none
  std::map<std::string, std::unique_ptr<Transcript>, std::less<>> changes{};  // by the name of the first transcript
  std::uint64_t saved = 0;        // bytes that the line index's sidecar covers
  std::uint64_t allowed = whole;  // bytes that may still be parsed
  bool stopped = false;

  Result<bool> refresh(std::uint64_t budget);
  Result<bool> look(const struct stat& status, std::uint64_t budget);
  Result<void> read_tail();
  Result<std::string> header() const;
  Result<void> scan_ids();
  Result<const Landmarks*> scan_landmarks(std::optional<std::int64_t> doom_count);
  Result<void> resolve(Landmarks& marks);
  void forget();
  void distrust() {  // the next refresh() indexes the file anew
    seen = {};
    forget();
  }
  void load_sidecar();
  Result<std::uint64_t> offset_of(LineReader& reader, std::uint64_t seq) const;
  Result<TranscriptPage> page(const PageQuery& query) const;
  Result<bool> page_upwards(LineReader& reader, std::uint64_t low, std::uint64_t high, PageBuilder& page) const;
  Result<bool> page_downwards(LineReader& reader, std::uint64_t low, std::uint64_t high, PageBuilder& page) const;
  Result<void> spend(std::uint64_t bytes);  // that are about to be parsed
  Result<void> each(std::span<const SeqSpan> spans, const Take& take);
  Result<Found> find(std::span<const std::string> wanted, const IsMeant& is_meant);
  Result<std::vector<WholeLine>> whole_lines(std::uint64_t begin, std::uint64_t end, std::size_t max_bytes) const;
  LineReader reader() const { return {fd.get(), tail.size, path.native()}; }

  // Calls `read` a second time with a new index if it fails: the file may have been rewritten meanwhile.
  template <class Read>
  auto with_fresh_index_on_failure(Read read) -> decltype(read()) {
    if (auto result = read(); result || stopped) return result;
    distrust();
    TRY(refresh(whole));
    return read();
  }
};

}  // namespace sessiond::transcripts
