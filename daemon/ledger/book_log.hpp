// A log of records (decide/book_record.hpp): journal/runs/<agent>.log and journal/outbox/<agent>.log. A change adds
// lines to it. So it costs what its records cost, and not what the book does.
//   <CRC-32 of what follows the space, 8 hex> {"format":2}
//   <CRC-32> {"k":"<key>","v":<value>}             a record; "n":<order> before the value, if it has one
//   <CRC-32> {"k":"<key>"}                         this record is gone
//   <CRC-32> {"end":4711,"open":3,…}               the ending (BookChanges::ending)
// The last line of a key counts. With encryption, what follows the CRC is sealed for the file (store/seal).
//
// An ending closes a group: the lines since the ending before, which are written together and count together. What
// stands behind the last ending was never acknowledged. It does not count, and the next write cuts it off. Nor does the
// last group if one of its lines is damaged: a power cut may have kept its ending, and not all of its lines. A damaged
// ending makes one group of two. A line that is damaged before that is damage: the log cannot be read.
//
// Lines that do not count any more are dead. When they are more than the others and 1 MiB, the others are copied to a
// new file, which takes the place of the log. They are also copied when people have taken something back: its text must
// not stay. And when a line is not sealed with the active key.
//
// Blocks: all calls for one file are made on one strand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/book_record.hpp"
#include "store/new_file.hpp"
#include "store/problem.hpp"
#include "store/seal/sealed.hpp"

namespace sessiond::ledger {

class BookLog {
 public:
  explicit BookLog(std::filesystem::path file) : file_(std::move(file)) {}

  struct Content {
    std::vector<decide::BookRecord> records{};  // by key
    std::string ending{};
  };
  // Reads the log. not_found: there is none. degraded: it is damaged, or its ending is of an event before `least`,
  // though it was once written up to that. The file stays as it is.
  Result<Content> read(std::uint64_t least = 0);
  // Makes durable what the last read() found: a kill may have come before its group was.
  Result<void> make_durable();
  // Writes a group, and returns when it is durable. What is not whole is added to what the last read() or write() knew.
  // After a problem the file holds this group or the one before.
  Result<void> write(const decide::BookChanges& changes);
  // Returns whether the file is not as it was left. Only a whole group can then be written.
  bool is_lost() const { return is_lost_; }
  // Returns whether the file is to be written anew, which the next write() does or asks for. So it is after a kill or a
  // fault between a group and the copying of lines.
  bool is_rewrite_due() const;

  // Returns how many things of the book are not at their end, at least 1 if it is to be written anew. Nothing if the
  // last line is not an ending, or is one of an event before `least`. not_found: there is no file. Reads the end of the
  // file only.
  static Result<std::optional<std::uint64_t>> open_count(const std::filesystem::path& file, std::uint64_t least = 0);
  // The id of the key with which a line is sealed; "" if it is not.
  static std::string_view key_of_line(std::string_view line);

 private:
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;  // with the newline
  };
  struct Lines;
  Result<void> append(const decide::BookChanges& changes);
  Result<void> replace(const decide::BookChanges& changes);
  Result<void> compact();
  Result<void> put_in_place(store::NewFile& file, const Lines& lines);
  Result<std::string> line_at(int fd, Range range);
  Result<void> sync(int fd);
  Problem lost(std::string_view why);
  std::string line_of(std::string body) const;
  void take(const Lines& lines);

  std::filesystem::path file_;
  std::map<std::string, Range, std::less<>> live_{};
  std::uint64_t live_bytes_ = 0;  // of these
  std::uint64_t size_ = 0;        // of the file up to its last whole ending
  std::uint64_t inode_ = 0;       // of the file
  std::string ending_{};
  std::string sealed_by_{};  // the id of the key with which all lines are sealed; "": they are not
  bool forgets_ = false;     // it holds what people have taken back
  bool is_lost_ = false;
};

// The place for which what is in a book's file is sealed.
seal::Place place_of_book(const std::filesystem::path& file);

}  // namespace sessiond::ledger
