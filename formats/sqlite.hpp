// Reads SQLite databases of other programs, which may be running. A database is never written, and no file is made
// beside it. Blocks; a row is in memory, never a table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "store/files.hpp"
#include "store/problem.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace sessiond::formats {

// A prepared query: bind(), then next() until it is false.
class Query {
 public:
  Query& bind(int index, std::string_view text);
  Query& bind(int index, std::int64_t number);
  Result<bool> next();
  bool null(int column) const;
  std::string_view text(int column) const;  // "" for NULL; valid until the next call
  std::int64_t integer(int column) const;

 private:
  friend class Database;
  struct Close {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Close> statement_{};
  std::string file_{};
};

class Database {
 public:
  // degraded: it is no database, is damaged, or cannot be opened.
  static Result<Database> open(const std::filesystem::path& file);
  Result<Query> query(std::string_view sql) const;
  // Empty: there is no such table.
  Result<std::set<std::string, std::less<>>> columns(std::string_view table) const;
  // Fails when the file was read without locks, since nobody had it open, and was written meanwhile. To be asked before
  // a session is passed on.
  Result<void> unchanged() const;
  const std::string& file() const { return file_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_{};
  std::string file_{};
  std::optional<store::FileIdentity> alone_{};  // when it was read without locks
};

}  // namespace sessiond::formats
