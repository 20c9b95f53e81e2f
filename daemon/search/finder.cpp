#include "daemon/search/finder.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "daemon/search/schema.hpp"
#include "daemon/search/sqlite.hpp"
#include "store/utf8.hpp"

namespace sessiond::search {
namespace {

// A look tries this many candidates before it may decide to go by documents, and then asks about, and notes, at most so
// many documents and rows.
constexpr std::size_t tried_first = 500;
constexpr std::int64_t most_documents = 20'000;
constexpr std::int64_t most_noted = 500'000;

// A document, as far as a look knows it already.
struct Seen {
  bool shown = false;
  Hit of{};
};

class Look {
 public:
  Look(Connection& connection, const Asked& asked)
      : connection_(connection),
        asked_(asked),
        doc_(connection, "SELECT agent, key, topic, archive, session_id, channel FROM docs WHERE id = ?") {}

  const Seen& doc(std::int64_t id) {
    const auto [kept, added] = docs_.try_emplace(id);
    if (!added) return kept->second;
    doc_.bind(1, id);
    if (doc_.next()) kept->second = seen(doc_, 0);
    doc_.reset();
    return kept->second;
  }

  // Returns the ids below `end` of the rows that are shown, the lowest first; nothing if they are many. Most rows of
  // the index are not shown to a token that sees few sessions, and their ids tell that without a look at each.
  std::optional<std::vector<std::int64_t>> rows_below(std::int64_t end) {
    if (connection_.number("SELECT count(*) FROM docs").value_or(0) > most_documents) return {};
    Statement all(connection_, "SELECT id, next_seq, agent, key, topic, archive, session_id, channel FROM docs");
    std::vector<std::int64_t> shown;
    std::int64_t rows = 0;  // about
    while (all.next()) {
      const Seen& doc = docs_.try_emplace(all.integer(0), seen(all, 2)).first->second;
      if (!doc.shown) continue;
      shown.push_back(all.integer(0));
      rows += all.integer(1);
    }
    if (rows > most_noted) return {};
    std::vector<std::int64_t> ids;
    Statement of_doc(connection_, "SELECT id FROM rows WHERE doc = ?");
    for (const std::int64_t id : shown) {
      of_doc.bind(1, id);
      while (of_doc.next())
        if (of_doc.integer(0) < end) ids.push_back(of_doc.integer(0));
      of_doc.reset();
    }
    std::ranges::sort(ids);
    return ids;
  }

 private:
  // Reads a document from the columns at `first`.
  Seen seen(const Statement& statement, int first) const {
    const auto text = [&](int column) { return std::string(statement.text(first + column)); };
    Seen seen{.of = {.agent = text(0), .key = text(1), .topic = text(2), .archive = text(3), .session_id = text(4)}};
    const std::string channel = text(5);
    const bool archived = !seen.of.archive.empty() && seen.of.archive != names_doc;
    seen.shown = (asked_.archived != Archived::no || !archived) && (!asked_.agent || *asked_.agent == seen.of.agent) &&
                 (!asked_.channel || *asked_.channel == channel) && asked_.sees(seen.of.agent, seen.of.key, channel);
    return seen;
  }

  Connection& connection_;
  const Asked& asked_;
  Statement doc_;
  std::unordered_map<std::int64_t, Seen> docs_{};
};

std::int64_t row_of(Connection& connection, const After& after) {
  Statement row(
      connection,
      "SELECT r.id FROM docs d JOIN rows r ON r.doc = d.id WHERE d.agent = ? AND d.key = ? AND d.topic = ? AND "
      "d.archive = ? AND r.seq = ?");
  const std::string archive = after.is_name ? std::string(names_doc) : after.archive;
  row.bind(1, after.agent).bind(2, after.key).bind(3, after.topic).bind(4, archive);
  row.bind(5, static_cast<std::int64_t>(after.seq));
  if (row.next()) return row.integer(0);
  return after.time << id_bits;  // it is gone
}

}  // namespace

Found find(const std::string& path, const Grams& grams, const Asked& asked, const std::optional<After>& after,
           std::optional<std::int64_t> before, std::chrono::steady_clock::time_point deadline,
           const std::atomic<bool>& stop) {
  Found found;
  Connection connection(path, Connection::Use::read);
  connection.limit(deadline, &stop);
  connection.run("PRAGMA query_only = ON; PRAGMA cache_size = -8192; BEGIN");
  found.position =
      static_cast<std::uint64_t>(connection.number("SELECT value FROM meta WHERE name = 'seq'").value_or(0));
  const bool whole = connection.number("SELECT value FROM meta WHERE name = 'whole'").has_value();
  const std::int64_t floor = connection.number("SELECT value FROM meta WHERE name = 'floor'").value_or(0);
  std::int64_t from = before.value_or(std::numeric_limits<std::int64_t>::max());
  if (!before && after) from = row_of(connection, *after);
  const bool scan = asked.words.grams().empty();
  Statement candidates(connection,
                       scan ? "SELECT id FROM rows WHERE id < ?1 AND id >= ?2 ORDER BY id DESC"
                            : "SELECT rowid FROM found WHERE found MATCH ?3 AND rowid < ?1 AND rowid >= ?2 ORDER BY "
                              "rowid DESC");
  candidates.bind(1, from).bind(2, asked.since << id_bits);
  const std::string match = grams.choose(asked.words.grams());
  if (!scan) candidates.bind(3, match);
  Statement row(connection, "SELECT doc, seq, role, time FROM rows WHERE id = ?");
  Statement text(connection, "SELECT entry, text FROM texts WHERE id = ?");
  Look look(connection, asked);
  std::optional<std::vector<std::int64_t>> shown;  // the rows to look at, when they were noted
  std::size_t tried = 0, hidden = 0, looked = 0;
  found.next = from;
  while (candidates.next()) {
    const std::int64_t id = candidates.integer(0);
    if (shown) {
      while (!shown->empty() && shown->back() > id) shown->pop_back();
      if (shown->empty()) break;
      if (shown->back() != id) continue;
    }
    row.reset();
    row.bind(1, id);
    if (!row.next()) continue;
    const Seen& doc = look.doc(row.integer(0));
    if (!doc.shown) ++hidden;
    ++tried;
    if (tried == tried_first && hidden > tried / 2) shown = look.rows_below(id);
    if (!doc.shown) continue;
    const auto role = static_cast<Role>(row.integer(2));
    if (asked.role && *asked.role != role) continue;
    if (scan && ++looked > most_scanned) {
      found.partial = true;
      break;
    }
    text.reset();
    text.bind(1, id);
    if (!text.next() || !asked.words.in(store::fold_case(text.text(1)))) continue;
    if (found.hits.size() == asked.limit) {
      found.more = true;
      break;
    }
    Hit hit = doc.of;
    hit.row = found.next = id;
    hit.seq = static_cast<std::uint64_t>(row.integer(1));
    hit.role = role;
    hit.time = row.is_null(3) ? hit.row >> id_bits : row.integer(3);
    hit.entry = text.text(0);
    const bool is_name = role == Role::name || role == Role::label;
    hit.text = is_name ? std::string(text.text(1)) : asked.words.snippet(text.text(1));
    found.hits.push_back(std::move(hit));
  }
  if (!connection.good()) {
    found.partial = true;
    found.damaged = connection.error()->is_corrupt();  // tables may lack while they are made
  }
  found.partial = found.partial || !whole || (floor > 0 && !found.more);
  return found;
}

}  // namespace sessiond::search
