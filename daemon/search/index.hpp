// The index as one thread writes it. Changes gather in one transaction until commit(), with the position up to which
// the journal's events are in it, so a kill at any moment loses none and doubles none.
//
// After an error (error()) nothing is changed any more until rollback(). Blocks. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/search/documents.hpp"
#include "daemon/search/grams.hpp"
#include "daemon/search/message_text.hpp"
#include "daemon/search/rows.hpp"
#include "daemon/search/sqlite.hpp"

namespace sessiond::search {

struct Position {
  std::string epoch{};
  std::uint64_t seq = 0;
};

class Index {
 public:
  struct Options {
    std::string path{};                       // a file, or Connection's name of a database in memory
    std::size_t text_bytes = 1 << 20;         // of each text that are taken in
    const std::atomic<bool>* stop = nullptr;  // once it is true, the index reads, writes and commits nothing more
  };
  // Opens the index. Look at error() and is_current() before anything else. `grams` counts what is written.
  Index(Options options, Grams& grams);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // Makes the tables in an empty file. `floor`: ids below are not taken in.
  void create(const Position& position, std::int64_t floor);
  bool is_current();  // it has tables of this version, with as much of each text

  Position position();
  void set_position(std::uint64_t seq);
  bool is_whole();  // every transcript was read once
  void set_whole();
  std::size_t text_bytes() const { return options_.text_bytes; }

  // To look for documents and to tell of changed ones. What is found is valid until the next commit() or rollback().
  Documents& documents();
  Rows& rows();  // to count them
  // The document; added when there is none.
  Doc& doc(const DocName& name);
  void rename(Doc& doc, DocName name, std::string ending);
  void remove(Doc& doc);

  // Takes in an entry with the seq `doc.next_seq` or a later one, as people left it.
  void add(Doc& doc, std::uint64_t seq, std::string_view message);
  // Notes that lines of the document were first written in another transcript: changes of these are its too.
  struct CopiedFrom {
    std::string session_id{}, topic{};
    std::uint64_t first_seq = 0, last_seq = 0;  // in the document
  };
  void add_copied(const Doc& doc, const CopiedFrom& from);
  void add_name(Doc& doc, Role role, std::string_view text, std::int64_t time);
  void change(const std::string& agent, const MessageChange& change, std::int64_t time);

  bool commit();
  void rollback();

  // Notes that texts are removed for good: their bytes have to go. Part of the transaction.
  void note_purge();
  // Returns whether a checkpoint is due: the WAL is long, or has texts that were purged. Between opening and closing
  // nothing else changes the file.
  bool needs_checkpoint() const;
  // After a commit: writes the WAL into the file, and empties it if texts were purged. Readers may be in the way: then
  // it stays due.
  void checkpoint();
  bool has_purged_texts() const { return purged_texts_; }
  // How large checkpoint() has made the file; nothing: some of the WAL is not in it.
  std::optional<std::uint64_t> file_bytes();
  // Merges some of what FTS5 has, so that grams of purged texts go: some ten milliseconds of work in a transaction of
  // its own. Returns whether there is more to merge.
  bool merge_some();
  bool has_purged_grams() const { return purged_grams_; }
  const std::optional<DatabaseError>& error() const { return connection_.error(); }
  std::uint64_t bytes();

 private:
  struct Statements;
  void begin();

  Options options_;
  Grams& grams_;
  Connection connection_;
  std::unique_ptr<Statements> statements_{};
  bool purged_texts_ = false;  // may be in the WAL
  bool purged_grams_ = false;  // may be in FTS5
  bool merging_ = false;
};

}  // namespace sessiond::search
