#include "daemon/search/rows.hpp"

#include <algorithm>

#include "daemon/search/query.hpp"
#include "daemon/search/schema.hpp"
#include "store/time_range.hpp"

namespace sessiond::search {
namespace {

constexpr std::int64_t ids_of_a_time = 1LL << id_bits;
// How many of the texts that are there are counted at the start, to know how common grams are.
constexpr std::int64_t counted_texts = 5'000;
constexpr std::size_t counted_bytes = 2 << 20;

// Returns the text for FTS5. With the mark behind it, its last two code points begin a gram, too.
std::string with_end_marks(std::string compared) { return std::move(compared.append(end_marks)); }

}  // namespace

Rows::Rows(Connection& connection, std::int64_t floor, Grams& grams)
    : connection_(connection),
      grams_(grams),
      last_id_(connection, "SELECT max(id) FROM rows WHERE id >= ? AND id < ?"),
      row_(connection, "INSERT INTO rows(id, doc, seq, role, time) VALUES(?, ?, ?, ?, ?)"),
      text_(connection, "INSERT INTO texts(id, entry, author, text) VALUES(?, ?, ?, ?)"),
      found_(connection, "INSERT INTO found(rowid, text) VALUES(?, ?)"),
      of_doc_(connection, "SELECT r.id, t.text FROM rows r JOIN texts t ON t.id = r.id WHERE r.doc = ? ORDER BY r.id"),
      one_(connection,
           "SELECT r.id, r.role, r.time, t.entry, t.author, t.text FROM rows r JOIN texts t ON t.id = r.id WHERE r.doc "
           "= ? AND "
           "r.seq = ?"),
      entry_(connection,
             "SELECT r.seq FROM rows r JOIN texts t ON t.id = r.id WHERE r.doc = ? AND r.seq BETWEEN ? AND ? AND "
             "t.entry = ? ORDER BY r.seq DESC"),
      remove_found_(connection, "INSERT INTO found(found, rowid, text) VALUES('delete', ?, ?)"),
      remove_row_(connection, "DELETE FROM rows WHERE id = ?"),
      remove_text_(connection, "DELETE FROM texts WHERE id = ?"),
      floor_(floor) {
  forget_waiting();
  Statement newest(connection, "SELECT text FROM texts ORDER BY id DESC LIMIT ?");
  newest.bind(1, counted_texts);
  for (std::size_t bytes = 0; bytes < counted_bytes && newest.next(); bytes += newest.text(0).size())
    grams_.count(folded(newest.text(0)));
}

std::int64_t Rows::free_id(std::int64_t time) {
  const std::int64_t base = std::clamp<std::int64_t>(time, 0, store::last_time_ms) << id_bits;
  for (std::int64_t begin = base;; begin += ids_of_a_time) {
    auto [last, added] = ids_.try_emplace(begin >> id_bits, begin - 1);
    if (added) {
      last_id_.bind(1, begin).bind(2, begin + ids_of_a_time);
      if (last_id_.next() && !last_id_.is_null(0)) last->second = last_id_.integer(0);
      last_id_.reset();
    }
    if (last->second + 1 < begin + ids_of_a_time) return ++last->second;
  }
}

void Rows::add(Row row, std::int64_t time) {
  row.id = free_id(time);
  if (row.id < floor_) return;
  if (row.id >> id_bits != time) row.time = time;
  waiting_bytes_ += row.text.size() + sizeof(Row);
  waiting_.push_back(std::move(row));
}

void Rows::insert(const Row& row) {
  row_.bind(1, row.id).bind(2, row.doc).bind(3, static_cast<std::int64_t>(row.seq));
  row_.bind(4, static_cast<std::int64_t>(row.role));
  row.time ? row_.bind(5, *row.time) : row_.bind_null(5);
  row_.run();
  text_.bind(1, row.id).bind(2, row.entry).bind(3, row.author).bind(4, row.text).run();
  const std::string compared = folded(row.text);
  const std::string marked = with_end_marks(compared);
  found_.bind(1, row.id).bind(2, marked).run();
  grams_.count(compared);
  ++count_;
}

void Rows::flush() {
  if (!connection_.good()) return;
  std::ranges::sort(waiting_, {}, &Row::id);
  for (const Row& row : waiting_) {
    if (!connection_.good()) return;
    insert(row);
  }
  waiting_.clear();
  waiting_bytes_ = 0;
  ids_.clear();
}

std::optional<Row> Rows::find(std::int64_t doc, std::uint64_t seq) {
  flush();
  one_.bind(1, doc).bind(2, static_cast<std::int64_t>(seq));
  std::optional<Row> row;
  if (one_.next())
    row = Row{.id = one_.integer(0),
              .doc = doc,
              .seq = seq,
              .role = static_cast<Role>(one_.integer(1)),
              .time = one_.is_null(2) ? std::nullopt : std::optional(one_.integer(2)),
              .entry = std::string(one_.text(3)),
              .author = std::string(one_.text(4)),
              .text = std::string(one_.text(5))};
  one_.reset();
  return row;
}

std::optional<Row> Rows::find(std::int64_t doc, std::int64_t first_seq, std::int64_t last_seq,
                              const std::string& entry) {
  flush();
  entry_.bind(1, doc).bind(2, first_seq).bind(3, last_seq).bind(4, entry);
  std::optional<std::uint64_t> seq;
  if (entry_.next()) seq = static_cast<std::uint64_t>(entry_.integer(0));
  entry_.reset();
  return seq ? find(doc, *seq) : std::nullopt;
}

void Rows::remove(const Row& row) {
  const std::string marked = with_end_marks(folded(row.text));
  remove_found_.bind(1, row.id).bind(2, marked).run();
  remove_row_.bind(1, row.id).run();
  remove_text_.bind(1, row.id).run();
  --count_;
}

void Rows::replace(const Row& row, std::string text) {
  remove(row);
  Row changed = row;
  changed.text = std::move(text);
  insert(changed);
}

void Rows::remove_all(std::int64_t doc) {
  flush();
  std::vector<std::int64_t> ids;
  of_doc_.bind(1, doc);
  while (of_doc_.next()) {
    ids.push_back(of_doc_.integer(0));
    const std::string marked = with_end_marks(folded(of_doc_.text(1)));
    remove_found_.bind(1, ids.back()).bind(2, marked).run();
  }
  of_doc_.reset();
  for (const std::int64_t id : ids) {
    remove_row_.bind(1, id).run();
    remove_text_.bind(1, id).run();
  }
  count_ -= ids.size();
}

void Rows::forget_waiting() {
  waiting_.clear();
  waiting_bytes_ = 0;
  ids_.clear();
  count_ = static_cast<std::uint64_t>(connection_.number("SELECT count(*) FROM rows").value_or(0));
}

std::int64_t Rows::quarter() {
  return connection_.number("SELECT id FROM rows ORDER BY id LIMIT 1 OFFSET (SELECT count(*) / 4 FROM rows)")
      .value_or(0);
}

}  // namespace sessiond::search
