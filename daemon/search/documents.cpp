#include "daemon/search/documents.hpp"

#include <algorithm>
#include <utility>

namespace sessiond::search {
namespace {

constexpr std::size_t kept = 20'000;

std::string joined(const DocName& name) {
  std::string all = name.agent;
  for (const std::string* part : {&name.key, &name.topic, &name.archive}) all.append(1, '\0').append(*part);
  return all;
}

std::string docs_where(std::string_view condition) {
  constexpr std::string_view columns =
      "SELECT id, agent, key, topic, archive, ending, session_id, channel, next_seq, scanned_from, scanned_to, "
      "last_time, archived "
      "FROM docs WHERE ";
  return std::string(columns).append(condition);
}

}  // namespace

Documents::Documents(Connection& connection)
    : find_(connection, docs_where("agent = ? AND key = ? AND topic = ? AND archive = ?")),
      of_key_(connection, docs_where("agent = ? AND key = ? AND archive = ''")),
      of_session_(connection, docs_where("agent = ? AND session_id = ? AND archive <> 'names'")),
      of_ending_(connection, docs_where("agent = ? AND ending = ? AND ending <> ''")),
      add_(connection,
           "INSERT INTO docs(agent, key, topic, archive, ending, session_id, channel, next_seq, scanned_from, "
           "scanned_to, last_time, archived) VALUES(?, ?, ?, ?, '', '', '', 0, 0, 0, 0, 0) RETURNING id"),
      save_(connection,
            "UPDATE docs SET key = ?, topic = ?, archive = ?, ending = ?, session_id = ?, channel = ?, next_seq = ?, "
            "scanned_from = ?, scanned_to = ?, last_time = ?, archived = ? WHERE id = ?"),
      remove_(connection, "DELETE FROM docs WHERE id = ?") {}

Doc* Documents::load(Statement& statement) {
  if (!statement.next()) return nullptr;
  auto& doc = docs_[statement.integer(0)];
  if (doc) return doc.get();  // newer than the table
  const auto text = [&statement](int column) { return std::string(statement.text(column)); };
  const auto number = [&statement](int column) { return static_cast<std::uint64_t>(statement.integer(column)); };
  doc = std::make_unique<Doc>(Doc{.id = statement.integer(0),
                                  .name = {text(1), text(2), text(3), text(4)},
                                  .ending = text(5),
                                  .session_id = text(6),
                                  .channel = text(7),
                                  .next_seq = number(8),
                                  .scanned_from = number(9),
                                  .scanned_to = number(10),
                                  .last_time = statement.integer(11),
                                  .archived = statement.integer(12) != 0});
  by_name_[joined(doc->name)] = doc->id;
  return doc.get();
}

std::vector<Doc*> Documents::load_all(Statement& statement) {
  std::vector<Doc*> all;
  while (Doc* doc = load(statement)) all.push_back(doc);
  statement.reset();
  return all;
}

Doc* Documents::find(const DocName& name) {
  const auto known = by_name_.find(joined(name));
  if (known != by_name_.end()) return docs_.at(known->second).get();
  find_.bind(1, name.agent).bind(2, name.key).bind(3, name.topic).bind(4, name.archive);
  Doc* doc = load(find_);
  find_.reset();
  return doc;
}

Doc& Documents::add(DocName name) {
  add_.bind(1, name.agent).bind(2, name.key).bind(3, name.topic).bind(4, name.archive);
  // The connection may have an error. Nothing of it will be written then, but callers go on with what they hold.
  const std::int64_t unwritten = std::min<std::int64_t>(docs_.empty() ? 0 : docs_.begin()->first, 0) - 1;
  const std::int64_t id = add_.next() ? add_.integer(0) : unwritten;
  add_.reset();
  by_name_[joined(name)] = id;
  auto& doc = docs_[id];
  doc = std::make_unique<Doc>(Doc{.id = id, .name = std::move(name)});
  return *doc;
}

std::vector<Doc*> Documents::living(const std::string& agent, const std::string& key) {
  of_key_.bind(1, agent).bind(2, key);
  return load_all(of_key_);
}

std::vector<Doc*> Documents::of_session(const std::string& agent, const std::string& session_id) {
  write();
  of_session_.bind(1, agent).bind(2, session_id);
  return load_all(of_session_);
}

std::vector<Doc*> Documents::of_ending(const std::string& agent, const std::string& ending) {
  write();
  of_ending_.bind(1, agent).bind(2, ending);
  return load_all(of_ending_);
}

void Documents::changed(Doc& doc) {
  if (!std::exchange(doc.changed, true)) changed_.push_back(doc.id);
}

void Documents::save(Doc& doc) {
  doc.changed = false;
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  save_.bind(1, doc.name.key).bind(2, doc.name.topic).bind(3, doc.name.archive).bind(4, doc.ending);
  save_.bind(5, doc.session_id).bind(6, doc.channel).bind(7, number(doc.next_seq)).bind(8, number(doc.scanned_from));
  save_.bind(9, number(doc.scanned_to)).bind(10, doc.last_time).bind(11, doc.archived ? 1 : 0).bind(12, doc.id).run();
}

void Documents::rename(Doc& doc, DocName name, std::string ending) {
  by_name_.erase(joined(doc.name));
  doc.name = std::move(name);
  doc.ending = std::move(ending);
  by_name_[joined(doc.name)] = doc.id;
  save(doc);
}

void Documents::remove(Doc& doc) {
  remove_.bind(1, doc.id).run();
  by_name_.erase(joined(doc.name));
  docs_.erase(doc.id);
}

void Documents::write() {
  for (const std::int64_t id : changed_) {
    const auto doc = docs_.find(id);
    if (doc != docs_.end() && doc->second->changed) save(*doc->second);
  }
  changed_.clear();
}

void Documents::trim() {
  if (docs_.size() > kept) clear();
}

void Documents::clear() {
  docs_.clear();
  by_name_.clear();
  changed_.clear();
}

}  // namespace sessiond::search
