// The texts of the index: rows that belong to documents, and what FTS5 has of them. New rows wait in memory until
// flush(), which inserts them in the order of their ids: FTS5 needs that to be fast. The transaction is the Index's.
// Blocks. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/search/grams.hpp"
#include "daemon/search/message_text.hpp"
#include "daemon/search/sqlite.hpp"

namespace sessiond::search {

struct Row {
  std::int64_t id = 0, doc = 0;
  std::uint64_t seq = 0;
  Role role = Role::user;
  std::optional<std::int64_t> time{};  // where the id does not tell it
  std::string entry{}, author{}, text{};
};

class Rows {
 public:
  // `floor`: rows with ids below are not taken in. `grams` counts those of every text, beginning with the newest.
  Rows(Connection& connection, std::int64_t floor, Grams& grams);

  void add(Row row, std::int64_t time);  // gets an id by its time
  void flush();
  // These see what was flushed, so they flush.
  std::optional<Row> find(std::int64_t doc, std::uint64_t seq);
  std::optional<Row> find(std::int64_t doc, std::int64_t first_seq, std::int64_t last_seq, const std::string& entry);
  void remove(const Row& row);
  void replace(const Row& row, std::string text);  // keeps its id, and so its place in the order
  void remove_all(std::int64_t doc);

  void forget_waiting();  // after a rollback
  std::size_t waiting_bytes() const { return waiting_bytes_; }
  std::uint64_t count() const { return count_; }
  // The id below which a quarter of all rows lies.
  std::int64_t quarter();

 private:
  std::int64_t free_id(std::int64_t time);
  void insert(const Row& row);

  Connection& connection_;
  Grams& grams_;
  Statement last_id_, row_, text_, found_, of_doc_, one_, entry_, remove_found_, remove_row_, remove_text_;
  std::map<std::int64_t, std::int64_t> ids_{};  // the last id that was given out, by time
  std::vector<Row> waiting_{};
  std::size_t waiting_bytes_ = 0;
  std::int64_t floor_;
  std::uint64_t count_ = 0;
};

}  // namespace sessiond::search
