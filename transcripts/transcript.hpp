// A transcript file read by place: how many entries it has, what stands at its end, any page of it at the cost of the
// page (FORMATS §4). seq of an entry = ordinal of its line after the header, unreadable lines included; so a blank line
// is an unreadable entry, and so is one of more than 64 MiB (given cut). A last line without '\n' counts. A file
// without a readable header starts at its first line. Offsets of every 64th entry are kept in memory and in a sidecar,
// and so are hashes of ids once somebody asks for one (line_index.hpp, id_index.hpp; sidecar.hpp says when a sidecar is
// good): a 1 GiB file is read once, not once a start. Holds the file open. Blocks; one thread at a time for one object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/problem.hpp"
#include "transcripts/id_index.hpp"

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
// A line that ends in '\n', by its place in the file.
struct WholeLine {
  StoredLine stored;
  std::uint64_t end = 0;  // offset behind its '\n'
};

// A page ends early, with has_more, before its lines exceed 1 MiB (limits::page_bytes); it has at least one line if
// there is one.
struct TranscriptPage {
  std::vector<StoredLine> lines;  // in the order asked for
  bool has_more = false;
  std::optional<std::uint64_t> next{};  // last seq looked at: the next page's after (ascending) or before (descending)
};

class Transcript {
 public:
  static constexpr std::uint64_t whole = std::numeric_limits<std::uint64_t>::max();

  // Empty until it is refreshed. `sidecar` may be empty; the one of the ids stands beside it. None is written below 256
  // KiB.
  Transcript(std::filesystem::path path, std::filesystem::path sidecar);
  static Result<std::unique_ptr<Transcript>> open(std::filesystem::path path, std::filesystem::path sidecar);
  static std::filesystem::path id_sidecar(const std::filesystem::path& sidecar);
  ~Transcript();
  Transcript(const Transcript&) = delete;
  Transcript& operator=(const Transcript&) = delete;

  // Looks at the file again: reads what was appended since, or everything when it is another file or has shrunk; an
  // absent file is an empty transcript. At most about `budget` bytes at once: false when there is more to read, and
  // nothing else may be called before that is done.
  Result<bool> refresh(std::uint64_t budget = whole);
  const TranscriptTail& tail() const;
  std::optional<std::int64_t> started() const;  // the header's time; nothing without one that can be read
  Result<TranscriptPage> page(const PageQuery& query);
  // The entries with these ids, as far as there are any; of several with one id the last.
  using Found = std::map<std::string, StoredLine, std::less<>>;
  Result<Found> find(std::span<const std::string> entry_ids);
  Result<std::optional<StoredLine>> find(std::string_view entry_id);
  Result<IdSet> ids();  // of all entries
  // The whole lines from the offset `begin`, which begins one, up to `end`: about max_bytes of them, at least one if
  // there is one. The header is none.
  Result<std::vector<WholeLine>> whole_lines(std::uint64_t begin, std::uint64_t end, std::size_t max_bytes);
  // Writes the sidecars whose index has grown so much that the next start should not have to do that again.
  Result<void> save_sidecars();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond
