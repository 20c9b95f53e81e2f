// How far each transcript of one agent is known: all bytes before that end were written by us or have been published.
// Bytes behind it come from a foreign program, and subscribers have not been told of them.
//
// The ends are kept on disk, so that lines which a foreign program adds while the daemon is down are found by listing
// the folder once, however many transcripts there are:
//   journal/ends/<agent>.jsonl   {"file":"<name>","inode":…,"size":…,"beyond":[[<from>,<to>],…]}
// A line is added whenever the end of a transcript changed; the last line of a file counts. Inode 0: the transcript is
// gone; with a size, a foreign program has removed it. `beyond` are lines of ours that follow a foreign line which is
// not published yet.
//
// save() must have returned before the journal may forget the events that it rests on. One thread at a time; blocks.
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

namespace sessiond::transcripts {

// Bytes [begin, end) of a file.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// A change that a foreign program made to a transcript.
struct ForeignEdit {
  enum class Kind : std::uint8_t {
    appended,   // it added whole or torn lines, at `unknown`
    rewritten,  // it is another file, or shorter, or no line ends where one did: nothing is known of it
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
  // Reads the ends of the transcripts in `dir` from `record`. If there is no record, makes one: with `adopt` all that
  // is in the folder is known, else nothing. A damaged record is made again with all that is in the folder, so that
  // nothing is published twice.
  static Result<KnownEnds> open(std::filesystem::path dir, std::filesystem::path record, bool adopt);

  static bool is_sound(std::string_view record);  // tells whether open() would use this record
  // Lists the transcripts of a record that are not in `dir`: what lost() is when they were looked at.
  static std::vector<std::string> lost_in(std::string_view record, const std::filesystem::path& dir);

  // Notes that these lines are ours or published. If the file has another inode than is known, look() reports it as
  // rewritten, and the lines are known as soon as replace() names that inode.
  void add(std::string_view file, std::uint64_t inode, ByteRange lines);
  // Notes that all of the file is known. Inode 0: a foreign program has removed it, and it is lost().
  void replace(std::string_view file, std::uint64_t inode, std::uint64_t size);
  // Notes that nothing is known of the file: it was given another name, or destroyed.
  void forget(std::string_view file);
  // The same of all transcripts of a session id that are lost.
  void forget_lost(std::string_view session_id);
  // Lists the transcripts that foreign programs have removed, and that are not back.
  std::vector<std::string> lost() const;

  // Returns the inode of a transcript of which look() would find nothing if it has `size` bytes; 0: it would look.
  std::uint64_t inode_if_known(std::string_view file, std::uint64_t size) const;
  // Returns what foreign programs did to one transcript. Costs one stat if they did nothing.
  Result<std::optional<ForeignEdit>> look(const std::string& file) const;
  // The same for all transcripts: one listing, and a stat for each.
  Result<std::vector<ForeignEdit>> look() const;

  bool was_damaged() const { return was_damaged_; }
  // Returns all transcripts that are in the folder or are known.
  std::set<std::string, std::less<>> names() const;
  bool saved() const { return changed_.empty(); }
  Result<void> save();  // on disk when it returns

 private:
  struct End {
    std::uint64_t inode = 0;  // 0: the file is lost; a size says how long it was
    std::uint64_t size = 0;   // [0, size) is known; a line ends there
    std::vector<ByteRange> beyond{};
  };

  KnownEnds(std::filesystem::path dir, std::filesystem::path record)
      : dir_(std::move(dir)), record_(std::move(record)) {}
  void adopt();
  void distrust();
  bool read(std::string_view text);  // false: the record is damaged
  std::vector<std::string> listing() const;
  static std::string line(std::string_view file, const End& end);

  std::filesystem::path dir_;
  std::filesystem::path record_;
  std::map<std::string, End, std::less<>> ends_;
  std::map<std::string, End, std::less<>> replaced_;  // lines in files of another inode, which replace() will name
  std::set<std::string, std::less<>> changed_;        // since the record was written
  std::size_t lines_ = 0;                             // in the record; 0: write it again as a whole
  bool was_damaged_ = false;
};

}  // namespace sessiond::transcripts
