// Makes a document of another program from a transcript, piece by piece: entries are read on disk threads, about 1 MiB
// at a time, so that a transcript of any length costs little memory and holds up nobody. Thread: the loop.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/api/transcript_source.hpp"
#include "formats/writer.hpp"

namespace sessiond::api {

class DocumentExport {
 public:
  // `with_media`: media in the places of handles. `is_json`: the document is JSON, and its lines end for no reader
  // within a text (json::escape_line_ends).
  DocumentExport(Api& api, TranscriptSource source, bool with_media, bool is_json = true)
      : api_(api), source_(std::move(source)), with_media_(with_media), is_json_(is_json) {}

  // Reads the transcript as it is now, once. Call it first. Errors: those of reading; validation_failed if the format
  // cannot hold a message.
  asio::awaitable<Result<void>> begin(std::unique_ptr<formats::Writer> writer);
  // The next piece of the document; "" at the end.
  asio::awaitable<Result<std::string>> next();

 private:
  // Passes the next entries of this pass to the writer; the text that it made. Nothing: there are no more.
  asio::awaitable<Result<std::optional<std::string>>> step();
  asio::awaitable<Result<void>> each_step();  // of this pass, which makes no text
  bool takes_all() const;                     // this pass is over all entries, in the file's order
  void begin_pass();
  std::vector<transcripts::SeqSpan> rest() const;  // of this pass, or the beginning of that
  void skip(std::size_t entries);                  // of the rest
  std::string take(const std::vector<transcripts::StoredLine>& lines);
  void note_mark(const formats::StoredEntry& entry);
  void put_in_order();
  bool on_path(std::uint64_t seq) const;

  Api& api_;
  TranscriptSource source_;
  bool with_media_, is_json_;
  std::unique_ptr<formats::Writer> writer_{};
  std::vector<transcripts::SeqSpan> path_{};
  std::vector<transcripts::SeqSpan> shown_{};  // the same in the order of runs; known after the survey
  std::vector<context::Mark> marks_{};         // until then
  context::Order order_{};
  std::set<std::string, std::less<>> inputs_{};  // ids of entries that runs were handed
  transcripts::ShownChanges changes_{};
  std::uint64_t entries_ = 0;
  std::uint32_t leaf_ = 0;               // a checksum of the last entry of path_
  std::vector<formats::Pass> passes_{};  // to come, the present one first; empty before them and at the end
  enum class Stage : std::uint8_t { survey, count, passes };
  Stage stage_ = Stage::survey;
  bool in_first_pass_ = true;  // of the passes
  std::size_t span_ = 0;       // of the pass: the next entry is in this one,
  std::uint64_t within_ = 0;   // behind so many of it
  std::string text_{};         // not given yet
};

// Returns the first line of a transcript if it is a header, else "".
std::string header_in(std::string_view text);
asio::awaitable<std::string> header_of(Api& api, const TranscriptSource& source);

}  // namespace sessiond::api
