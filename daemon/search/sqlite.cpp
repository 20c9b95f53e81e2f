#include "daemon/search/sqlite.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <limits>
#include <thread>

#include "daemon/search/tokenizer.hpp"

namespace sessiond::search {
namespace {

constexpr std::chrono::milliseconds busy_pause{5};
constexpr int most_busy_pauses = 1'000;
constexpr int steps_between_looks = 2'000;  // instructions of SQLite's machine: some ten microseconds

}  // namespace

void Statement::Close::operator()(sqlite3_stmt* statement) const { ::sqlite3_finalize(statement); }
void Connection::Close::operator()(sqlite3* database) const { ::sqlite3_close_v2(database); }

Statement::Statement(Connection& connection, std::string_view sql) : connection_(connection) {
  if (!connection.good()) return;
  sqlite3_stmt* made = nullptr;
  const int code = ::sqlite3_prepare_v3(connection.database_.get(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &made, nullptr);
  statement_.reset(made);
  if (code != SQLITE_OK) connection.note_error();
}

Statement& Statement::bind(int index, std::int64_t number) {
  if (statement_) ::sqlite3_bind_int64(statement_.get(), index, number);
  return *this;
}

Statement& Statement::bind(int index, std::string_view text) {
  if (statement_)
    ::sqlite3_bind_text64(statement_.get(), index, text.data() == nullptr ? "" : text.data(), text.size(),
                          SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind_null(int index) {
  if (statement_) ::sqlite3_bind_null(statement_.get(), index);
  return *this;
}

bool Statement::next() {
  if (!statement_ || !connection_.good()) return false;
  const int code = ::sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) connection_.note_error();
  return false;
}

void Statement::run() {
  next();
  reset();
}

void Statement::reset() {
  if (statement_) ::sqlite3_reset(statement_.get());
}

bool Statement::is_null(int column) const { return ::sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
std::int64_t Statement::integer(int column) const { return ::sqlite3_column_int64(statement_.get(), column); }

std::string_view Statement::text(int column) const {
  const auto* bytes = ::sqlite3_column_text(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes),
          static_cast<std::size_t>(::sqlite3_column_bytes(statement_.get(), column))};
}

bool DatabaseError::is_corrupt() const {
  // A short read: somebody has cut a file.
  return (code & 0xFF) == SQLITE_CORRUPT || (code & 0xFF) == SQLITE_NOTADB || code == SQLITE_IOERR_SHORT_READ;
}
bool DatabaseError::is_damage() const {
  const int base = code & 0xFF;
  return is_corrupt() || base == SQLITE_SCHEMA || base == SQLITE_ERROR || base == SQLITE_CONSTRAINT ||
         base == SQLITE_MISMATCH;
}
bool DatabaseError::is_full() const { return (code & 0xFF) == SQLITE_FULL; }
bool DatabaseError::is_stopped() const { return (code & 0xFF) == SQLITE_INTERRUPT; }

Connection::Connection(const std::string& path, Use use) {
  sqlite3* opened = nullptr;
  const int flags = (use == Use::write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE) |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE;
  // Other processes are locked out. What connections share is then in this one's memory, and not in a file whose loss
  // would end the process. A name in memory says by which other way it is opened.
  const int code = ::sqlite3_open_v2(path.c_str(), &opened, flags, "unix-excl");
  database_.reset(opened);
  if (code != SQLITE_OK) {
    note_error();
    return;
  }
  ::sqlite3_busy_handler(opened, on_busy, this);
  ::sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  ::sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (add_tokenizer(opened) != SQLITE_OK) note_error();
}

void Connection::run(const char* sql) {
  if (!good()) return;
  if (::sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) note_error();
}

std::optional<std::int64_t> Connection::number(std::string_view sql) {
  Statement statement(*this, sql);
  if (!statement.next()) return {};
  return statement.integer(0);
}

std::optional<std::string> Connection::text(std::string_view sql) {
  Statement statement(*this, sql);
  if (!statement.next()) return {};
  return std::string(statement.text(0));
}

bool Connection::in_transaction() const { return database_ && ::sqlite3_get_autocommit(database_.get()) == 0; }

int Connection::total_changes() const { return ::sqlite3_total_changes(database_.get()); }

void Connection::hold_checkpoints() {
  if (database_) ::sqlite3_wal_hook(database_.get(), on_commit, this);
}

void Connection::checkpoint() {
  Statement checkpoint(*this, "PRAGMA wal_checkpoint(PASSIVE)");
  // It gives: whether it was busy, pages of the WAL, pages that are in the file.
  if (checkpoint.next() && checkpoint.integer(1) == checkpoint.integer(2)) wal_pages_ = 0;
}

int Connection::on_commit(void* self, sqlite3*, const char*, int wal_pages) {
  static_cast<Connection*>(self)->wal_pages_ = wal_pages;
  return SQLITE_OK;
}

void Connection::limit(std::chrono::steady_clock::time_point deadline, const std::atomic<bool>* stop) {
  deadline_ = deadline;
  stop_ = stop;
  if (database_) ::sqlite3_progress_handler(database_.get(), steps_between_looks, on_progress, this);
}

int Connection::on_progress(void* self) {
  const auto& connection = *static_cast<const Connection*>(self);
  if (connection.stop_ != nullptr && connection.stop_->load(std::memory_order_relaxed)) return 1;
  return std::chrono::steady_clock::now() > connection.deadline_ ? 1 : 0;
}

// SQLite calls it while another process, or in memory another connection, has a lock. 0: it gives up.
int Connection::on_busy(void* self, int pauses) {
  if (pauses >= most_busy_pauses || on_progress(self) != 0) return 0;
  std::this_thread::sleep_for(busy_pause);
  return 1;
}

bool Connection::good() {
  if (!error_ && stop_ != nullptr && stop_->load(std::memory_order_relaxed))
    error_ = {.code = SQLITE_INTERRUPT, .text = "the daemon is shutting down"};
  return !error_;
}

void Connection::note_error() {
  if (error_) return;
  if (!database_) {
    error_ = {.code = SQLITE_NOMEM, .text = "out of memory"};
    return;
  }
  error_ = {.code = ::sqlite3_extended_errcode(database_.get()), .text = ::sqlite3_errmsg(database_.get())};
}

std::string in_memory_name() {
  static std::atomic<int> next{1};
  return fmt::format("file:/sessiond-search-{}?vfs=memdb", next.fetch_add(1));
}

}  // namespace sessiond::search
