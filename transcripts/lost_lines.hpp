// Lines in place of those that are lost: a transcript is gone or cut, and the journal has only its later lines.
//
// Each lost entry becomes a line that cannot be read (an entry of type `unreadable`), and together they take as many
// bytes as the lost ones. So the lines behind them stand at the offset and have the seq that clients were told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "store/problem.hpp"
#include "transcripts/placing.hpp"

namespace sessiond::transcripts {

class LostLines {
 public:
  // For a file of `size` bytes, which are read to count its entries.
  static Result<LostLines> behind(int fd, std::uint64_t size, const std::filesystem::path& path);
  // Adds a line that belongs at its offset, with the lost lines before it. Lines come in the order of their offsets;
  // one that does not fit is left out, and so are all that follow.
  void add(const PlacedLine& line);
  std::string text() && { return std::move(text_); }  // to be written at the end of the file

 private:
  LostLines(std::string session_id, std::uint64_t size, std::uint64_t entries, bool ends)
      : session_id_(std::move(session_id)), begin_(size), next_seq_(entries), open_(!ends) {}

  std::string session_id_;
  std::uint64_t begin_;     // the size of the file
  std::uint64_t next_seq_;  // of the entry that comes next
  bool open_;               // the file does not end with a newline
  bool over_ = false;       // a line did not fit
  std::string text_{};
};

// A transcript of which `entries` entries are known, and nothing else.
std::string lost_transcript(std::string_view session_id, std::uint64_t entries);

}  // namespace sessiond::transcripts
