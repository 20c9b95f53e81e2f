// Reads through a transcript once and counts what can be read (transcripts/README.md describes the format). Keeps only
// one line in memory, so the file may have any size. Logs of sessions are read like transcripts: they have no header. A
// line of more than 64 MiB counts as unreadable, as it does for the daemon.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::doctor {

struct TranscriptState {
  std::uint64_t size = 0;        // bytes, when it was opened
  std::uint64_t entries = 0;     // lines after the header
  std::uint64_t unreadable = 0;  // entries that are no JSON object; blank lines and a torn last line are not among them
  std::uint64_t blank = 0;
  std::uint64_t first_unreadable = 0;  // line number, from 1
  std::uint64_t first_offset = 0;      // byte where that line begins
  bool has_header = false;
  std::int64_t version = 0;  // of the header; 1 when the header has none, 0 without a header
  std::uint64_t old = 0;     // flat or bare entries, or without an id: doctor --migrate rewrites them
  std::string header_id{};
  bool to_seal = false;  // encryption is on, and a line is not sealed with the active key
  bool ends_in_newline = true;
  std::uint64_t torn_bytes = 0;  // size of a last line without newline that is no JSON object
};

// `on_line` gets each line, the header included, as it is without encryption.
using OnLine = std::function<void(std::string_view line)>;
Result<TranscriptState> inspect_transcript(const std::filesystem::path& path, const std::atomic<bool>* cancel = nullptr,
                                           const OnLine& on_line = {});

}  // namespace sessiond::doctor
