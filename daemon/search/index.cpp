#include "daemon/search/index.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <string>
#include <vector>

#include "daemon/search/schema.hpp"
#include "store/fault_point.hpp"

namespace sessiond::search {
namespace {

constexpr int most_wal_pages = 4'000;

}  // namespace

struct Index::Statements {
  Statements(Connection& connection, std::int64_t floor, Grams& grams)
      : documents(connection),
        rows(connection, floor, grams),
        change(
            connection,
            "SELECT time, deleted, text FROM changes WHERE agent = ? AND session_id = ? AND topic = ? AND entry = ?"),
        put_change(connection, "INSERT OR REPLACE INTO changes VALUES(?, ?, ?, ?, ?, ?, ?)"),
        remove_changes(connection, "DELETE FROM changes WHERE agent = ? AND session_id = ? AND topic = ?"),
        put_copy(connection, "INSERT OR REPLACE INTO copies VALUES(?, ?, ?, ?, ?, ?)"),
        copies(connection,
               "SELECT doc, first_seq, last_seq FROM copies WHERE agent = ? AND session_id = ? AND topic = ?"),
        remove_copies(connection, "DELETE FROM copies WHERE doc = ?"),
        meta(connection, "SELECT value FROM meta WHERE name = ?"),
        put_meta(connection, "INSERT OR REPLACE INTO meta VALUES(?, ?)") {}
  Documents documents;
  Rows rows;
  Statement change, put_change, remove_changes, put_copy, copies, remove_copies, meta, put_meta;
};

Index::Index(Options options, Grams& grams)
    : options_(std::move(options)), grams_(grams), connection_(options_.path, Connection::Use::write) {
  connection_.limit(std::chrono::steady_clock::time_point::max(), options_.stop);
  if (connection_.number("PRAGMA page_count") == 0)  // before the WAL, so that it is in the file itself
    connection_.run(("PRAGMA application_id = " + std::to_string(application_id)).c_str());
  // In memory there is no WAL: readers then wait for a commit to end.
  connection_.run(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;"
      "PRAGMA cache_size = -16384; PRAGMA journal_size_limit = 16777216;");
  connection_.hold_checkpoints();
}
Index::~Index() = default;

bool Index::is_current() {
  if (connection_.number("PRAGMA user_version") != schema_version) return false;
  if (connection_.number("SELECT value FROM meta WHERE name = 'text_bytes'") !=
      static_cast<std::int64_t>(options_.text_bytes))
    return false;
  purged_grams_ = purged_texts_ = connection_.number("SELECT value FROM meta WHERE name = 'purged'").has_value();
  const std::int64_t floor = connection_.number("SELECT value FROM meta WHERE name = 'floor'").value_or(0);
  statements_ = std::make_unique<Statements>(connection_, floor, grams_);
  return connection_.good();
}

void Index::create(const Position& position, std::int64_t floor) {
  const std::string made = store::random_hex(16);
  connection_.run("BEGIN IMMEDIATE");
  connection_.run(schema);
  Statement meta(connection_, "INSERT INTO meta VALUES(?, ?)");
  meta.bind(1, "epoch").bind(2, position.epoch).run();
  meta.bind(1, "seq").bind(2, static_cast<std::int64_t>(position.seq)).run();
  meta.bind(1, "floor").bind(2, floor).run();
  meta.bind(1, "made").bind(2, made).run();
  meta.bind(1, "text_bytes").bind(2, static_cast<std::int64_t>(options_.text_bytes)).run();
  const std::string version = "PRAGMA user_version = " + std::to_string(schema_version);
  connection_.run(version.c_str());
  store::fault_point("search.creating");
  connection_.run("COMMIT");
}

Position Index::position() {
  Position position;
  statements_->meta.bind(1, "epoch");
  if (statements_->meta.next()) position.epoch = statements_->meta.text(0);
  statements_->meta.reset();
  statements_->meta.bind(1, "seq");
  if (statements_->meta.next()) position.seq = static_cast<std::uint64_t>(statements_->meta.integer(0));
  statements_->meta.reset();
  return position;
}

void Index::set_position(std::uint64_t seq) {
  begin();
  statements_->put_meta.bind(1, "seq").bind(2, static_cast<std::int64_t>(seq)).run();
}

bool Index::is_whole() {
  statements_->meta.bind(1, "whole");
  const bool whole = statements_->meta.next();
  statements_->meta.reset();
  return whole;
}

void Index::set_whole() {
  begin();
  statements_->put_meta.bind(1, "whole").bind(2, 1).run();
}

void Index::begin() {
  if (connection_.good() && !connection_.in_transaction()) connection_.run("BEGIN IMMEDIATE");
}

Documents& Index::documents() {
  begin();  // what is found may be changed
  return statements_->documents;
}

Rows& Index::rows() { return statements_->rows; }

Doc& Index::doc(const DocName& name) {
  if (Doc* there = documents().find(name)) return *there;
  return documents().add(name);
}

void Index::rename(Doc& doc, DocName name, std::string ending) {
  if (Doc* there = documents().find(name); there != nullptr && there != &doc) remove(*there);
  documents().rename(doc, std::move(name), std::move(ending));
}

void Index::remove(Doc& doc) {
  begin();
  rows().remove_all(doc.id);
  statements_->remove_changes.bind(1, doc.name.agent).bind(2, doc.session_id).bind(3, doc.name.topic).run();
  statements_->remove_copies.bind(1, doc.id).run();
  documents().remove(doc);
}

void Index::add_copied(const Doc& doc, const CopiedFrom& from) {
  begin();
  statements_->put_copy.bind(1, doc.name.agent).bind(2, from.session_id).bind(3, from.topic).bind(4, doc.id);
  statements_->put_copy.bind(5, static_cast<std::int64_t>(from.first_seq));
  statements_->put_copy.bind(6, static_cast<std::int64_t>(from.last_seq)).run();
}

void Index::add(Doc& doc, std::uint64_t seq, std::string_view message) {
  doc.next_seq = std::max(doc.next_seq, seq + 1);
  documents().changed(doc);
  MessageText read = read_message(message, options_.text_bytes);
  if (read.time) doc.last_time = *read.time;
  if (!read.role) return;
  Statement& known = statements_->change;
  known.bind(1, doc.name.agent).bind(2, doc.session_id).bind(3, doc.name.topic).bind(4, read.id);
  if (known.next()) read.text = known.integer(1) != 0 ? "" : std::string(known.text(2));
  known.reset();
  if (read.text.empty()) return;
  rows().add({.doc = doc.id,
              .seq = seq,
              .role = *read.role,
              .entry = std::move(read.id),
              .author = names_of(read.from),
              .text = std::move(read.text)},
             doc.last_time);
}

void Index::add_name(Doc& doc, Role role, std::string_view text, std::int64_t time) {
  begin();
  const auto seq = static_cast<std::uint64_t>(role);
  const auto old = rows().find(doc.id, seq);
  std::string now = findable(std::string(text), options_.text_bytes);
  if (old && old->text == now) return;
  if (old) rows().remove(*old);
  if (!now.empty()) rows().add({.doc = doc.id, .seq = seq, .role = role, .text = std::move(now)}, time);
}

void Index::change(const std::string& agent, const MessageChange& change, std::int64_t time) {
  begin();
  Statement& known = statements_->change;
  known.bind(1, agent).bind(2, change.session_id).bind(3, change.topic).bind(4, change.entry);
  const bool outdated = known.next() && (known.integer(1) != 0 || (known.integer(0) > time && !change.deleted));
  known.reset();
  if (outdated) return;
  Statement& put = statements_->put_change;
  put.bind(1, agent).bind(2, change.session_id).bind(3, change.topic).bind(4, change.entry).bind(5, time);
  put.bind(6, change.deleted ? 1 : 0).bind(7, change.text).run();
  const auto apply = [&](const std::optional<Row>& row) {
    if (!row || row->entry != change.entry) return;
    if (change.deleted || change.text.empty())
      rows().remove(*row);
    else
      rows().replace(*row, change.text);
  };
  for (Doc* doc : documents().of_session(agent, change.session_id))
    if (doc->name.topic == change.topic) apply(rows().find(doc->id, change.seq));
  struct Copy {
    std::int64_t doc, first, last;
  };
  std::vector<Copy> all;
  Statement& copies = statements_->copies;
  copies.bind(1, agent).bind(2, change.session_id).bind(3, change.topic);
  while (copies.next()) all.push_back({copies.integer(0), copies.integer(1), copies.integer(2)});
  copies.reset();
  for (const Copy& copy : all) apply(rows().find(copy.doc, copy.first, copy.last, change.entry));
}

bool Index::commit() {
  statements_->rows.flush();
  statements_->documents.write();
  if (connection_.in_transaction()) {
    store::fault_point("search.written");
    connection_.run("COMMIT");
    store::fault_point("search.committed");
  }
  if (!connection_.good()) return false;
  statements_->documents.trim();
  return true;
}

void Index::rollback() {
  statements_->documents.clear();
  connection_.clear_error();
  if (connection_.in_transaction()) connection_.run("ROLLBACK");
  statements_->rows.forget_waiting();
}

void Index::note_purge() {
  begin();
  statements_->put_meta.bind(1, "purged").bind(2, 1).run();
  purged_texts_ = purged_grams_ = true;
  merging_ = false;  // what is merged already lacks the new ones
}

bool Index::needs_checkpoint() const { return purged_texts_ || connection_.wal_pages() > most_wal_pages; }

void Index::checkpoint() {
  assert(!connection_.in_transaction());
  connection_.checkpoint();
  if (purged_texts_ && connection_.number("PRAGMA wal_checkpoint(TRUNCATE)") == 0) purged_texts_ = false;
}

std::optional<std::uint64_t> Index::file_bytes() {
  if (connection_.wal_pages() > 0) return {};
  const auto pages = connection_.number("PRAGMA page_count"), size = connection_.number("PRAGMA page_size");
  if (!pages || !size) return {};
  return static_cast<std::uint64_t>(*pages * *size);
}

bool Index::merge_some() {
  begin();
  const int before = connection_.total_changes();
  // A negative number also takes segments that are not due yet. Fewer than two changes say that nothing was left.
  connection_.run(merging_ ? "INSERT INTO found(found, rank) VALUES('merge', 250)"
                           : "INSERT INTO found(found, rank) VALUES('merge', -250)");
  const bool more = connection_.total_changes() - before >= 2;
  merging_ = more;
  if (!more) {
    connection_.run("DELETE FROM meta WHERE name = 'purged'");
    purged_grams_ = false;
    purged_texts_ = true;  // the pages of what was merged are in the WAL
  }
  return commit() && more;
}

std::uint64_t Index::bytes() {
  const auto pages = connection_.number("PRAGMA page_count").value_or(0);
  const auto free = connection_.number("PRAGMA freelist_count").value_or(0);
  return static_cast<std::uint64_t>((pages - free) * connection_.number("PRAGMA page_size").value_or(0));
}

}  // namespace sessiond::search
