// A book (run_book.hpp, delivery_book.hpp) is kept on the disk as records, each under a key: a log has the last record
// of each key (daemon/ledger/book_log.hpp). So a change of one run or delivery writes a line, and not the whole book.
//
// A book notes the keys of what has changed since it was written last. Its records are taken in slices, because those
// of a big book take longer than the loop may stand still. What changes between two slices is taken again. Pure values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sessiond::decide {

struct BookRecord {
  std::string key{};
  std::shared_ptr<const std::string> value{};  // JSON; null: the book has no such record any more
  std::uint64_t order = 0;                     // which of two records came later, where that matters; 0: it does not
};

// What is to be written of a book.
struct BookChanges {
  bool is_whole = false;  // the records are all that the book has: what the log had before does not count
  bool forgets = false;   // people have taken something back: it must leave the file, too
  std::vector<BookRecord> records{};
  // JSON object: {"end":<the last event that the book holds>,"open":<how many things of it are not at their end>,
  // "forgets":true if so, and what else the book has beside its records}.
  std::string ending{};
};

// The records that are taken at once: well under 5 ms.
struct BookSlice {
  std::size_t records = 256;
  std::size_t bytes = std::size_t{1} << 20;
};

// The keys of the records that the log does not have as they are now.
class Unwritten {
 public:
  bool is_dirty() const { return is_dirty_; }
  void mark_dirty() { is_dirty_ = true; }
  void add(std::string key) {
    is_dirty_ = true;
    if (!lacks_list()) keys_.insert(std::move(key));
  }
  void forget() { forgets_ = true; }  // as BookChanges::forgets
  // A new book has never been written: all its records are taken the first time. It is empty, so that apply() lists
  // them. Returns whether they are still to be listed, as after start_over().
  bool lacks_list() const { return is_whole_ && !is_listed_; }
  void list(std::set<std::string> all) {
    keys_ = std::move(all);
    is_listed_ = true;
  }
  // The book was read from its log.
  void start_clean() {
    *this = {};
    is_whole_ = false;
  }
  // The log is not as it was written: all records are to be taken again.
  void start_over() {
    keys_.clear();
    is_whole_ = is_dirty_ = true;
    is_listed_ = false;
  }

  // Moves records to `into`. Returns whether there are no more: the book then counts as clean, and `into` needs its
  // ending.
  template <class RecordOf>  // BookRecord(const std::string& key)
  bool take(BookChanges& into, BookSlice most, RecordOf record_of) {
    into.is_whole = into.is_whole || is_whole_;
    for (std::size_t bytes = 0; !keys_.empty() && most.records > 0 && bytes < most.bytes; --most.records) {
      into.records.push_back(record_of(keys_.extract(keys_.begin()).value()));
      if (into.records.back().value) bytes += into.records.back().value->size();
    }
    if (!keys_.empty()) return false;
    into.forgets = into.forgets || forgets_;
    start_clean();
    return true;
  }
  // They were not written. Takes some of them, from the end, and returns whether there are no more.
  bool give_back(BookChanges& from, std::size_t most) {
    is_dirty_ = true;
    forgets_ = forgets_ || from.forgets;
    if (from.is_whole) is_whole_ = is_listed_ = true;
    for (; !from.records.empty() && most > 0; --most) {
      keys_.insert(std::move(from.records.back().key));
      from.records.pop_back();
    }
    return from.records.empty();
  }

 private:
  std::set<std::string> keys_{};
  bool is_whole_ = true;
  bool is_listed_ = true;  // all records of a book that is to be written whole are among keys_
  bool forgets_ = false;
  bool is_dirty_ = false;
};

}  // namespace sessiond::decide
