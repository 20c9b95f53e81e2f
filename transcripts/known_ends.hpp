// How far every transcript of one agent is known: each byte before its end was written by us or has been published.
// What stands behind it is another program's, and nobody was told. Kept on disk beside the journal, so that lines which
// appear while the daemon is down are found by one listing of the folder, however many transcripts there are:
//   journal/ends/<agent>.jsonl   {"file":"<name>","inode":…,"size":…,"beyond":[[<from>,<to>],…]}
// one line whenever a transcript was found at another size, the last one counts; inode 0: the transcript is gone.
// `beyond` are our own lines behind a line of another program that is not published yet. What save() wrote must be on
// disk before the journal may forget the events it rests on. One thread at a time; blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/problem.hpp"

namespace sessiond {

// Bytes [begin, end) of a file.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// What another program did to a transcript.
struct ForeignEdit {
  enum class Kind : std::uint8_t {
    appended,   // whole or torn lines were added, at `unknown`
    rewritten,  // another file, a shorter one, or other bytes where a line ended: nothing is known of it
    removed,
  };
  std::string file;
  Kind kind = Kind::appended;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::vector<ByteRange> unknown{};
};

class KnownEnds {
 public:
  // Of the transcripts in `dir`, as `record` has them. Without one it is made: with `adopt` everything that stands
  // there now is known, else nothing. A damaged one is made anew with all that stands there: what was told already is
  // not told again.
  static Result<KnownEnds> open(std::filesystem::path dir, std::filesystem::path record, bool adopt);

  static bool is_sound(std::string_view record);  // what open() would believe

  // Lines of this file are ours or published. Of another inode than is known: nothing is said, look() tells.
  void add(std::string_view file, std::uint64_t inode, ByteRange lines);
  // All of the file is known, whatever it was before. inode 0: there is none.
  void replace(std::string_view file, std::uint64_t inode, std::uint64_t size);
  void forget(std::string_view file) { replace(file, 0, 0); }

  // What others did to one transcript: one stat where they did nothing.
  Result<std::optional<ForeignEdit>> look(const std::string& file) const;
  // To any: one listing, a stat each.
  Result<std::vector<ForeignEdit>> look() const;

  bool was_damaged() const { return was_damaged_; }
  // Of every transcript that is there or was known.
  std::set<std::string, std::less<>> names() const;
  bool saved() const { return changed_.empty(); }
  Result<void> save();  // durable when it returns

 private:
  struct End {
    std::uint64_t inode = 0;
    std::uint64_t size = 0;  // [0, size) is known; it ends a line
    std::vector<ByteRange> beyond{};
  };

  KnownEnds(std::filesystem::path dir, std::filesystem::path record)
      : dir_(std::move(dir)), record_(std::move(record)) {}
  void adopt();
  void distrust();
  bool read(std::string_view text);  // false: it is damaged
  std::vector<std::string> listing() const;
  static std::string line(std::string_view file, const End& end);

  std::filesystem::path dir_;
  std::filesystem::path record_;
  std::map<std::string, End, std::less<>> ends_;
  std::set<std::string, std::less<>> changed_;  // since the record was written
  std::size_t lines_ = 0;                       // in the record; 0: to be written anew
  bool was_damaged_ = false;
};

}  // namespace sessiond
