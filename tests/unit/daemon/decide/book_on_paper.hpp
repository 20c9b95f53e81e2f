// A book as its log keeps it, in memory: what it is read from again.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "daemon/decide/book_record.hpp"
#include "store/problem.hpp"

namespace sessiond::decide {

template <class Book>
class BookOnPaper {
 public:
  // Writes what has changed, in slices of `at_once` records, with `meanwhile` between two of them.
  template <class Meanwhile = decltype([] {})>
  void write(Book& book, std::size_t at_once = 256, Meanwhile meanwhile = {}) {
    BookChanges changes;
    while (!book.take_changes(changes, {.records = at_once})) meanwhile();
    CHECK_FALSE(book.unwritten().is_dirty());
    if (changes.is_whole) records_.clear();
    for (BookRecord& record : changes.records) {
      if (record.value)
        records_[record.key] = record;
      else
        records_.erase(record.key);
    }
    ending_ = changes.ending;
    written_ += changes.records.size();
  }
  Book read() const {
    std::vector<BookRecord> records;
    for (const auto& [key, record] : records_) records.push_back(record);
    auto book = Book::from_records(records, ending_);
    REQUIRE(book);
    return std::move(*book);
  }
  std::string text() const {
    std::string out;
    for (const auto& [key, record] : records_)
      out += key + " #" + std::to_string(record.order) + " " + *record.value + "\n";
    return out + ending_;
  }
  std::size_t written() const { return written_; }  // records, in all writes

 private:
  std::map<std::string, BookRecord> records_{};
  std::string ending_{};
  std::size_t written_ = 0;
};

// All that a book has, as text.
template <class Book>
std::string text_of(Book book) {
  book.unwritten() = {};  // whether it forgets anything is no part of it
  book.unwritten().start_over();
  BookOnPaper<Book> paper;
  paper.write(book);
  return paper.text();
}

}  // namespace sessiond::decide
