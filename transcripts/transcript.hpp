// A transcript file read by place: how many entries it has, what stands at its end, any page of it at the cost of the
// page (FORMATS §4). seq of an entry = ordinal of its line after the header, unreadable lines included; so a blank line
// is an unreadable entry, and so is one of more than 64 MiB (given cut). A last line without '\n' counts. A file
// without a readable header starts at its first line. Offsets of every 64th entry are kept in memory and in a sidecar
// (line_index.hpp says when it is good), so a 1 GiB file is scanned once, never parsed whole. Holds the file open.
// Blocks; one thread at a time for one object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/problem.hpp"

namespace sessiond {

struct TranscriptTail {
  bool exists = false;
  bool has_header = false;
  bool ends_in_newline = true;  // false: the next append puts one first
  std::uint64_t size = 0;       // bytes
  std::uint64_t count = 0;      // entries
  std::string last_id;          // stored or derived id of the last readable entry, or ""
};

struct StoredLine {
  std::uint64_t seq = 0;
  std::string line;  // without '\n' (or "\r\n"), the first one without a byte order mark
};

struct PageQuery {
  std::optional<std::uint64_t> after{};   // seq > after
  std::optional<std::uint64_t> before{};  // seq < before
  std::size_t limit = 50;
  bool descending = false;           // from the end (or `before`) backwards
  std::vector<std::string> types{};  // empty: all
  std::size_t scan_limit = 20'000;   // lines looked at for one page when types filter
};
// A page ends early, with has_more, before its lines exceed 8 MiB; it has at least one line if there is one.
struct TranscriptPage {
  std::vector<StoredLine> lines;  // in the order asked for
  bool has_more = false;
  std::optional<std::uint64_t> next{};  // last seq looked at: the next page's after (ascending) or before (descending)
};

class Transcript {
 public:
  // An absent file is an empty transcript. `sidecar` may be empty (small files need none: none is written below 256
  // KiB).
  static Result<std::unique_ptr<Transcript>> open(std::filesystem::path path, std::filesystem::path sidecar);
  ~Transcript();
  Transcript(const Transcript&) = delete;
  Transcript& operator=(const Transcript&) = delete;

  // Looks at the file again: reads what was appended since, or everything when it is another file or has shrunk.
  Result<void> refresh();
  const TranscriptTail& tail() const;
  Result<TranscriptPage> page(const PageQuery& query);
  Result<std::optional<StoredLine>> find(std::string_view entry_id);  // from the end backwards
  Result<void> save_sidecar();

 private:
  struct Impl;
  explicit Transcript(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond
