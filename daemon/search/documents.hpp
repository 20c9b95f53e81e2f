// The documents of the index: what the rows of messages belong to. They are kept in memory over a few transactions, and
// are read from their table when they are asked for. The transaction is the Index's. Blocks. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/search/sqlite.hpp"

namespace sessiond::search {

// Names a document: a transcript as it is now, an archive (by its file's name), or the names of a session.
struct DocName {
  std::string agent{}, key{}, topic{}, archive{};
};

struct Doc {
  std::int64_t id = 0;
  DocName name{};
  std::string ending{};  // of an archive: what the archives of one event have in common
  std::string session_id{}, channel{};
  std::uint64_t next_seq = 0;  // of the entry after the last one that was read
  // The file was read between these seqs of the journal; 0: all that is here came by events.
  std::uint64_t scanned_from = 0, scanned_to = 0;
  std::int64_t last_time = 0;  // of the last message: an entry without a time takes it
  bool archived = false;       // the session has the mark
  bool changed = false;        // Documents::changed() was told of it, and it is not written yet
};

// Documents that are returned stay valid until the next trim() or clear().
class Documents {
 public:
  explicit Documents(Connection& connection);

  Doc* find(const DocName& name);
  Doc& add(DocName name);  // there is none of that name
  // Documents that are not archived, without the one of names.
  std::vector<Doc*> living(const std::string& agent, const std::string& key);
  // All documents of a session id; all archives of an event.
  std::vector<Doc*> of_session(const std::string& agent, const std::string& session_id);
  std::vector<Doc*> of_ending(const std::string& agent, const std::string& ending);

  // The caller changed a field other than the name: it is written by the next write(), or before it is searched for.
  void changed(Doc& doc);
  void rename(Doc& doc, DocName name, std::string ending);
  void remove(Doc& doc);

  void write();
  // Leaves memory: all, when they are many; all, without writing what was changed.
  void trim();
  void clear();

 private:
  Doc* load(Statement& statement);
  std::vector<Doc*> load_all(Statement& statement);
  void save(Doc& doc);

  Statement find_, of_key_, of_session_, of_ending_, add_, save_, remove_;
  std::map<std::int64_t, std::unique_ptr<Doc>> docs_{};      // by id
  std::unordered_map<std::string, std::int64_t> by_name_{};  // of docs_
  std::vector<std::int64_t> changed_{};
};

}  // namespace sessiond::search
