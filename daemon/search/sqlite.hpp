// A connection to an SQLite database that we own, and prepared statements on it. An error stays with the connection:
// after one, statements do nothing and return no rows, so callers look once, at the end of a transaction. Blocks. One
// thread at a time for each connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace sessiond::search {

class Connection;

// A prepared statement. Parameters are bound by their number, from 1; columns are read by theirs, from 0.
class Statement {
 public:
  Statement(Connection& connection, std::string_view sql);

  Statement& bind(int index, std::int64_t number);
  Statement& bind(int index, std::string_view text);  // `text` must live until the next reset()
  Statement& bind_null(int index);
  // Fetches the next row. False: there is none, or the connection has an error.
  bool next();
  // Runs a statement that returns no rows, and resets it.
  void run();
  void reset();
  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  std::string_view text(int column) const;  // "" for NULL; valid until next() or reset()

 private:
  struct Close {
    void operator()(sqlite3_stmt* statement) const;
  };
  Connection& connection_;
  std::unique_ptr<sqlite3_stmt, Close> statement_{};
};

// What went wrong with a connection.
struct DatabaseError {
  int code = 0;  // extended result code of SQLite
  std::string text{};

  bool is_corrupt() const;  // the file is damaged, or no database
  bool is_damage() const;   // the same, or its tables are not as they must be
  bool is_full() const;     // the disk has no room
  bool is_stopped() const;  // by the deadline or stop()
};

class Connection {
 public:
  enum class Use : std::uint8_t { write, read };

  // Opens the database at `path`, or the one in memory when it is a name that in_memory_name() made. `write` creates
  // it.
  Connection(const std::string& path, Use use);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void run(const char* sql);  // one or more statements without parameters
  // The first value of the first row; nothing when there is no row.
  std::optional<std::int64_t> number(std::string_view sql);
  std::optional<std::string> text(std::string_view sql);

  const std::optional<DatabaseError>& error() const { return error_; }
  bool good();  // no error, and not stopped
  // Forgets the error. Statements work again, as far as the database does.
  void clear_error() { error_.reset(); }
  bool in_transaction() const;
  int total_changes() const;  // rows that were changed since it was opened
  // Takes checkpoints of the WAL out of SQLite's hands, but for the one when the last connection closes.
  void hold_checkpoints();
  int wal_pages() const { return wal_pages_; }  // of the WAL that checkpoint() has not written into the file yet
  // Writes the WAL into the file. Readers may be in the way: then some of it stays. No statement may be half done.
  void checkpoint();
  // Interrupts what runs later than this, or when `*stop` is true: then nothing begins any more, and error() says so.
  // `stop` outlives the connection.
  void limit(std::chrono::steady_clock::time_point deadline, const std::atomic<bool>* stop);

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3* database) const;
  };
  void note_error();
  static int on_progress(void* self);
  static int on_busy(void* self, int pauses);
  static int on_commit(void* self, sqlite3*, const char* database, int wal_pages);

  std::unique_ptr<sqlite3, Close> database_{};
  std::optional<DatabaseError> error_{};
  int wal_pages_ = 0;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* stop_ = nullptr;
};

// Names a database in this process' memory, for Connection. All connections to the name share it while one is open.
std::string in_memory_name();

}  // namespace sessiond::search
