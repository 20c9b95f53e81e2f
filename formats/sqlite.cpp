#include "formats/sqlite.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include "store/try.hpp"

namespace sessiond::formats {
namespace {

constexpr int busy_ms = 5000;
constexpr int longest_value = 64 << 20;

// The path as a file: URI.
std::string uri_of(const std::filesystem::path& file, bool alone) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).native()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                       c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + (alone ? "?mode=ro&immutable=1" : "?mode=ro");
}

std::unexpected<Problem> sqlite_fail(const std::string& file, std::string_view why) {
  return fail(Code::degraded, fmt::format("{}: {}", file, why));
}

}  // namespace

void Query::Close::operator()(sqlite3_stmt* statement) const { ::sqlite3_finalize(statement); }
void Database::Close::operator()(sqlite3* database) const { ::sqlite3_close_v2(database); }

Query& Query::bind(int index, std::string_view text) {
  ::sqlite3_bind_text64(statement_.get(), index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Query& Query::bind(int index, std::int64_t number) {
  ::sqlite3_bind_int64(statement_.get(), index, number);
  return *this;
}

Result<bool> Query::next() {
  const int done = ::sqlite3_step(statement_.get());
  if (done == SQLITE_ROW) return true;
  if (done == SQLITE_DONE) return false;
  return sqlite_fail(file_, ::sqlite3_errmsg(::sqlite3_db_handle(statement_.get())));
}

bool Query::null(int column) const { return ::sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

std::string_view Query::text(int column) const {
  const void* const bytes = ::sqlite3_column_blob(statement_.get(), column);
  const int size = ::sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr ? std::string_view()
                          : std::string_view(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::int64_t Query::integer(int column) const { return ::sqlite3_column_int64(statement_.get(), column); }

Result<Database> Database::open(const std::filesystem::path& file) {
  Database made;
  made.file_ = file.native();
  const auto status = store::stat_of(file);
  if (!status || !S_ISREG(status->st_mode)) return sqlite_fail(made.file_, "is not a regular file");
  // SQLite would make a -wal and a -shm file for a database in WAL mode that nobody has open.
  const bool alone = !store::stat_of(made.file_ + "-wal") && !store::stat_of(made.file_ + "-journal");
  if (alone) made.alone_ = store::identity(*status);
  sqlite3* opened = nullptr;
  const int done = ::sqlite3_open_v2(uri_of(file, alone).c_str(), &opened,
                                     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  made.database_.reset(opened);
  if (done != SQLITE_OK) return sqlite_fail(made.file_, opened == nullptr ? "out of memory" : ::sqlite3_errmsg(opened));
  ::sqlite3_busy_timeout(opened, busy_ms);
  ::sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, longest_value);
  ::sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  ::sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  TRY(auto query, made.query("SELECT count(*) FROM sqlite_master"));
  TRY(query.next());
  return made;
}

Result<Query> Database::query(std::string_view sql) const {
  Query made;
  made.file_ = file_;
  sqlite3_stmt* statement = nullptr;
  const int done = ::sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  made.statement_.reset(statement);
  if (done != SQLITE_OK) return sqlite_fail(file_, ::sqlite3_errmsg(database_.get()));
  return made;
}

Result<std::set<std::string, std::less<>>> Database::columns(std::string_view table) const {
  std::set<std::string, std::less<>> names;
  TRY(auto query, this->query("SELECT name FROM pragma_table_info(?)"));
  query.bind(1, table);
  for (;;) {
    TRY(const bool more, query.next());
    if (!more) return names;
    names.emplace(query.text(0));
  }
}

Result<void> Database::unchanged() const {
  if (!alone_) return {};
  const auto now = store::stat_of(file_);
  if (now && store::identity(*now) == *alone_ && !store::stat_of(file_ + "-wal")) return {};
  return sqlite_fail(file_, "was written while it was read; read it again");
}

}  // namespace sessiond::formats
