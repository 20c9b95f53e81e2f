#include "daemon/search/finder.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <unordered_map>

#include "daemon/search/schema.hpp"
#include "daemon/search/sqlite.hpp"

namespace sessiond::search {
namespace {

// A look tries this many candidates before it may decide to go by documents, and then asks about, and notes, at most so
// many documents and rows.
constexpr std::size_t tried_first = 500;
constexpr std::int64_t most_documents = 20'000;
constexpr std::int64_t most_noted = 500'000;
// Where all rows are candidates, since words have one or two code points: these are common enough to fill a page from
// so many texts or rows, or the grams that begin with them are asked for.
constexpr std::size_t scanned_first = 2'000;
constexpr std::size_t tried_scan = 20'000;

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
        doc_(connection, "SELECT agent, key, topic, archive, session_id, channel, archived FROM docs WHERE id = ?") {}

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
    Statement all(connection_,
                  "SELECT id, next_seq, agent, key, topic, archive, session_id, channel, archived FROM docs");
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
    const bool archived =
        (!seen.of.archive.empty() && seen.of.archive != names_doc) || statement.integer(first + 6) != 0;
    seen.shown = (asked_.archived == Archived::any || archived == (asked_.archived == Archived::only)) &&
                 (!asked_.agent || *asked_.agent == seen.of.agent) && (!asked_.key || *asked_.key == seen.of.key) &&
                 (!asked_.channel || *asked_.channel == channel) && asked_.sees(seen.of.agent, seen.of.key, channel);
    return seen;
  }

  Connection& connection_;
  const Asked& asked_;
  Statement doc_;
  std::unordered_map<std::int64_t, Seen> docs_{};
};

// The rows that may have the words, the newest first: by grams; by the beginnings of grams; or all.
class Candidates {
 public:
  Candidates(Connection& connection, const Grams& grams, const Asked& asked, std::int64_t end)
      : connection_(connection), grams_(grams), asked_(asked), match_(grams.choose(asked.words.grams())) {
    const std::int64_t until = std::min(asked.until, store::last_time_ms) + 1;
    start(std::min(end, until << id_bits));
  }

  bool are_all() const { return match_.empty(); }
  bool next() {
    if (!ids_) return rows_->next();
    if (ids_->empty()) return false;
    id_ = ids_->back();
    ids_->pop_back();
    return id_ >= asked_.since << id_bits;
  }
  std::int64_t id() const { return ids_ ? id_ : rows_->integer(0); }
  // Goes on with these, the lowest first, where all are candidates.
  void go_by_ids(std::vector<std::int64_t> ids) { ids_ = std::move(ids); }
  // Goes on before `end` with those that have the words of one or two code points. False: there are too many.
  bool go_by_short_words(std::int64_t end) {
    match_ = grams_.choose_beginnings(asked_.words.short_words());
    if (match_.empty()) return false;
    ids_.reset();
    start(end);
    return true;
  }

 private:
  void start(std::int64_t end) {
    rows_.emplace(connection_, are_all() ? "SELECT id FROM rows WHERE id < ?1 AND id >= ?2 ORDER BY id DESC"
                                         : "SELECT rowid FROM found WHERE found MATCH ?3 AND rowid < ?1 AND rowid >= "
                                           "?2 ORDER BY rowid DESC");
    rows_->bind(1, end).bind(2, asked_.since << id_bits);
    if (!are_all()) rows_->bind(3, match_);
  }

  Connection& connection_;
  const Grams& grams_;
  const Asked& asked_;
  std::string match_;
  std::optional<Statement> rows_{};
  std::optional<std::vector<std::int64_t>> ids_{};
  std::int64_t id_ = 0;
};

// Looks at the clock after some work on texts, which SQLite does not count. One text is always looked at, so that a
// look gets on.
class WorkClock {
 public:
  explicit WorkClock(std::chrono::steady_clock::time_point deadline) : deadline_(deadline) {}
  bool is_over(std::size_t next_text) {
    const bool over = work_ > enough && std::chrono::steady_clock::now() > deadline_;
    if (work_ > enough) work_ = 0;
    work_ += next_text + of_a_text;
    return over;
  }

 private:
  static constexpr std::size_t enough = 256 << 10, of_a_text = 2 << 10;  // bytes
  std::chrono::steady_clock::time_point deadline_;
  std::size_t work_ = 0;
};

}  // namespace

Found find(const std::string& path, const Grams& grams, const Asked& asked, const std::optional<Place>& from,
           std::chrono::steady_clock::time_point deadline, const std::atomic<bool>& stop) {
  Found found;
  Connection connection(path, Connection::Use::read);
  connection.limit(deadline, &stop);
  connection.run("PRAGMA query_only = ON; PRAGMA cache_size = -8192; BEGIN");
  found.position =
      static_cast<std::uint64_t>(connection.number("SELECT value FROM meta WHERE name = 'seq'").value_or(0));
  const bool whole = connection.number("SELECT value FROM meta WHERE name = 'whole'").has_value();
  const std::int64_t floor = connection.number("SELECT value FROM meta WHERE name = 'floor'").value_or(0);
  found.next.index = connection.text("SELECT value FROM meta WHERE name = 'made'").value_or("");
  found.other_index = from && connection.good() && from->index != found.next.index;
  if (found.other_index) return found;
  const std::int64_t begin = from ? from->row : std::numeric_limits<std::int64_t>::max();
  found.next.row = begin;
  Candidates candidates(connection, grams, asked, begin);
  Statement row(connection, "SELECT doc, seq, role, time FROM rows WHERE id = ?");
  Statement text(connection, "SELECT entry, author, text FROM texts WHERE id = ?");
  const std::string by = asked.from.empty() ? "" : '\n' + folded(asked.from) + '\n';
  Look look(connection, asked);
  std::optional<std::vector<std::int64_t>> shown;  // the rows to look at, when they were noted
  std::size_t tried = 0, hidden = 0, scanned = 0;
  WorkClock clock(deadline);
  while (candidates.next()) {
    const std::int64_t id = found.next.row = candidates.id();
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
    if (tried == tried_first && hidden > tried / 2) {
      shown = look.rows_below(id);
      if (shown && candidates.are_all()) candidates.go_by_ids(*shown);
    }
    const bool is_long_scan = candidates.are_all() && (scanned == scanned_first || tried == tried_scan);
    if (is_long_scan && candidates.go_by_short_words(id + 1)) {
      scanned = 0;
      continue;
    }
    if (!doc.shown) continue;
    const auto role = static_cast<Role>(row.integer(2));
    if (asked.role && *asked.role != role) continue;
    if (candidates.are_all() && ++scanned > most_scanned) {
      ++found.next.row;  // this one was not looked at
      found.partial = found.stopped = found.more = true;
      break;
    }
    text.reset();
    text.bind(1, id);
    const bool there = text.next();
    if (there && clock.is_over(text.text(2).size())) {
      ++found.next.row;  // this one was not looked at
      found.partial = found.stopped = found.more = true;
      break;
    }
    if (!there || !text.text(1).contains(by) || !asked.words.in(folded(text.text(2)))) continue;
    Hit hit = doc.of;
    hit.row = id;
    hit.seq = static_cast<std::uint64_t>(row.integer(1));
    hit.role = role;
    hit.time = row.is_null(3) ? hit.row >> id_bits : row.integer(3);
    hit.entry = text.text(0);
    if (is_of_session(role)) hit.text = text.text(2);
    found.hits.push_back(std::move(hit));
    if (found.hits.size() == asked.limit) {
      found.more = true;
      break;
    }
  }
  if (!connection.good()) {
    // The last candidate may not have been looked at.
    const bool is_hit = !found.hits.empty() && found.hits.back().row == found.next.row;
    if (found.next.row != begin && !is_hit) ++found.next.row;
    found.damaged = connection.error()->is_corrupt();  // tables may lack while they are made
    found.partial = true;
    found.stopped = found.more = connection.error()->is_stopped();
  }
  found.partial = found.partial || !whole || (floor > 0 && !found.more);
  return found;
}

}  // namespace sessiond::search
