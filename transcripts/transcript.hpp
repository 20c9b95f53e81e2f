// A transcript file for reading: its number of entries, its end, and any page of it at the cost of that page.
//
// The seq of an entry is the number of its line after the header. Unreadable lines count, so a blank line is an
// unreadable entry, and so is a line of more than 64 MiB (it is cut). A last line without '\n' counts. A file without a
// readable header starts at its first line.
//
// Offsets are kept in memory and in a sidecar (line_index.hpp), and so are hashes of ids after the first search for one
// (id_index.hpp). So a file of 1 GiB is read once, not at each start. A Transcript keeps its file open. Blocks; one
// thread at a time for each object.
//
// The format: transcripts/README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/files.hpp"
#include "store/problem.hpp"
#include "transcripts/id_index.hpp"
#include "transcripts/landmarks.hpp"

namespace sessiond::transcripts {

struct TranscriptTail {
  bool exists = false;
  bool has_header = false;
  bool ends_in_newline = true;  // false: the next append writes one first
  std::uint64_t size = 0;       // bytes
  std::uint64_t count = 0;      // entries
  std::string last_id;          // stored or derived id of the last readable entry, or ""
};

struct StoredLine {
  std::uint64_t seq = 0;
  std::string line;  // without '\n' or "\r\n"; the first line without a byte order mark
};

struct PageQuery {
  std::optional<std::uint64_t> after{};   // seq > after
  std::optional<std::uint64_t> before{};  // seq < before
  std::size_t limit = 50;
  bool descending = false;           // from `before`, or the end, backwards
  std::vector<std::string> types{};  // empty: all
  std::size_t scan_limit = 20'000;   // with `types`: lines looked at for one page
};
// A line that ends in '\n', with its place in the file.
struct WholeLine {
  StoredLine stored;
  std::uint64_t end = 0;  // offset behind its '\n'
};

// Entries in a row: their seqs, both included.
struct SeqSpan {
  std::uint64_t first = 0, last = 0;
};
using Take = std::function<bool(std::uint64_t seq, std::string_view line)>;

// Tells whether a search means this one of the entries with an id. A search asks from the last entry backwards.
using IsMeant = std::function<bool(std::string_view id, std::uint64_t seq)>;

// A page also ends, with has_more, before its lines exceed limits::page_bytes. It has at least one line if there is
// one.
struct TranscriptPage {
  std::vector<StoredLine> lines;  // in the order of the query
  bool has_more = false;
  std::optional<std::uint64_t> next{};  // last seq looked at: `after` of the next page, or `before` if descending
};

class Transcript {
 public:
  static constexpr std::uint64_t whole = std::numeric_limits<std::uint64_t>::max();

  // Reads nothing until refresh(). `sidecar` may be empty: then none is used. The sidecar of the ids is beside it. None
  // is written for files below 256 KiB. `changes`: the folder of the files with changes (changes.hpp), with a '/' at
  // the end; empty: none is looked at.
  Transcript(std::filesystem::path path, std::filesystem::path sidecar, std::string changes = {});
  static Result<std::unique_ptr<Transcript>> open(std::filesystem::path path, std::filesystem::path sidecar);
  static std::filesystem::path id_sidecar(const std::filesystem::path& sidecar);
  static std::filesystem::path landmarks_sidecar(const std::filesystem::path& sidecar);
  ~Transcript();
  Transcript(const Transcript&) = delete;
  Transcript& operator=(const Transcript&) = delete;

  // Reads what was appended since, or all if the file was replaced or cut. An absent file is an empty transcript. Reads
  // about `budget` bytes at most and returns false if there is more; until it returned true, no other function may be
  // called.
  Result<bool> refresh(std::uint64_t budget = whole);
  // Limits what the calls that follow may parse: one that would parse more than these bytes of entries fails, and
  // was_stopped() is true until the next allow(). Entries that are indexed already cost nothing.
  void allow(std::uint64_t bytes);
  bool was_stopped() const;  // this or a file with changes
  const TranscriptTail& tail() const;
  std::optional<std::int64_t> started() const;  // time of the header, ms since the epoch
  Result<std::string> header();                 // the first line; "": it is no header
  // The file with the changes of messages that were first written in the transcript `name`, as it is now. Null: there
  // is none. Valid until the next call.
  Result<Transcript*> changes(std::string_view name);
  Result<TranscriptPage> page(const PageQuery& query);
  // Calls take(seq, line) for the entries of the spans, in the order of the spans, until it returns false. When it
  // fails, some entries may have been taken; after a refresh() it may succeed.
  Result<void> each(std::span<const SeqSpan> spans, const Take& take);
  // Shows a line of a page: view_entry() with View::full. Valid until the next call.
  std::string_view show(const StoredLine& line);
  // Finds entries by id. Of several with one id the last one counts; with `is_meant`, the last one that it says yes to.
  using Found = std::map<std::string, StoredLine, std::less<>>;
  Result<Found> find(std::span<const std::string> entry_ids, const IsMeant& is_meant = {});
  Result<std::optional<StoredLine>> find(std::string_view entry_id, const IsMeant& is_meant = {});
  Result<IdSet> ids();  // the ids of all entries
  // Where branches begin, system messages and checkpoints (landmarks.hpp). Valid until the next call.
  // Their meter counts with `doom_count`; nothing: with the last one.
  Result<const Landmarks*> landmarks(std::optional<std::int64_t> doom_count = {});
  void set_meter(context::Meter meter);  // of the path to the leaf, as the last landmarks() found it
  // Returns the whole lines from the offset `begin`, where a line begins, to `end`: about max_bytes of them, but at
  // least one if there is one. Without the header.
  Result<std::vector<WholeLine>> whole_lines(std::uint64_t begin, std::uint64_t end, std::size_t max_bytes);
  // Writes the sidecars of indexes that have grown much since they were written.
  Result<void> save_sidecars();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sessiond::transcripts
