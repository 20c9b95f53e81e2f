// One pass over a transcript: what in it can be read (FORMATS §4). Nothing is kept of it, so a file may have any size;
// a line of more than 64 MiB counts as unreadable, as everywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "store/problem.hpp"

namespace sessiond {

struct TranscriptState {
  std::uint64_t size = 0;        // bytes, when it was opened
  std::uint64_t entries = 0;     // lines after the header
  std::uint64_t unreadable = 0;  // of them: no JSON object, but for blank lines and a torn last one
  std::uint64_t blank = 0;
  std::uint64_t first_unreadable = 0;  // its line in the file, from 1
  std::uint64_t first_offset = 0;      // and where that begins
  bool has_header = false;
  std::int64_t version = 0;  // of the header; 1 where it does not say, 0 without one
  std::uint64_t old = 0;     // flat or bare entries, or without an id: doctor --migrate writes them anew
  std::string header_id{};
  bool ends_in_newline = true;
  std::uint64_t torn_bytes = 0;  // a last line without newline that is no JSON object
};

Result<TranscriptState> inspect_transcript(const std::filesystem::path& path,
                                           const std::atomic<bool>* cancel = nullptr);

}  // namespace sessiond
