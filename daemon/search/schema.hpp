// The tables of the index. Another version of them is thrown away and made anew.
//
//   docs     a transcript, an archived transcript, or the names of a session (archive = names_doc). archived: the
//            session has the mark
//   rows     a text that can be found. Its id is its time, ms << id_bits, and a number that makes it unique: the order
//            of ids is the order of results, so the newest are found without sorting.
//   texts    the texts of `rows`, apart from them: a token that sees little leaves most candidates out by their rows.
//            author: names_of() who said it
//   found    FTS5 over the folded texts of `rows`, by grams (grams.hpp), without a copy of the texts and without
//            positions: a candidate is compared with the words themselves (query.hpp)
//   changes  edits and deletions of messages, which may be read before the message is
//   copies   the lines of documents that were first written in another transcript (transcripts/origins.hpp)
//   meta     epoch and seq: the events of the journal up to there are in the index. made: a name that no other index
//            has; cursors hold ids of rows. text_bytes: how much of a text is taken. floor: the oldest id that is.
//            whole: every transcript was read once. purged: grams of purged texts are still in `found`
#pragma once

#include <cstdint>
#include <string_view>

namespace sessiond::search {

inline constexpr std::int64_t schema_version = 6;
inline constexpr std::uint32_t application_id = 0x73647378;  // "sdsx": tells our file from any other database
inline constexpr int id_bits = 12;
inline constexpr std::string_view names_doc = "names";

inline constexpr const char* schema = R"(
CREATE TABLE docs(id INTEGER PRIMARY KEY, agent TEXT NOT NULL, key TEXT NOT NULL, topic TEXT NOT NULL,
  archive TEXT NOT NULL, ending TEXT NOT NULL, session_id TEXT NOT NULL, channel TEXT NOT NULL,
  next_seq INT NOT NULL, scanned_from INT NOT NULL, scanned_to INT NOT NULL, last_time INT NOT NULL,
  archived INT NOT NULL);
CREATE UNIQUE INDEX docs_name ON docs(agent, key, topic, archive);
CREATE INDEX docs_session ON docs(agent, session_id);
CREATE INDEX docs_ending ON docs(agent, ending) WHERE ending <> '';
CREATE TABLE rows(id INTEGER PRIMARY KEY, doc INT NOT NULL, seq INT NOT NULL, role INT NOT NULL, time INT);
CREATE INDEX rows_doc ON rows(doc, seq);
CREATE TABLE texts(id INTEGER PRIMARY KEY, entry TEXT NOT NULL, author TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE changes(agent TEXT NOT NULL, session_id TEXT NOT NULL, topic TEXT NOT NULL, entry TEXT NOT NULL,
  time INT NOT NULL, deleted INT NOT NULL, text TEXT NOT NULL, PRIMARY KEY(agent, session_id, topic, entry)) WITHOUT ROWID;
CREATE TABLE copies(agent TEXT NOT NULL, session_id TEXT NOT NULL, topic TEXT NOT NULL, doc INT NOT NULL,
  first_seq INT NOT NULL, last_seq INT NOT NULL, PRIMARY KEY(agent, session_id, topic, doc, first_seq)) WITHOUT ROWID;
CREATE INDEX copies_doc ON copies(doc);
CREATE TABLE meta(name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE found USING fts5(text, content='', detail=none, columnsize=0, tokenize='grams');
INSERT INTO found(found, rank) VALUES('hashsize', 4194304);
)";

}  // namespace sessiond::search
