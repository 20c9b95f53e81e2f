#include "daemon/search/feed.hpp"

#include <map>
#include <set>
#include <vector>

#include "daemon/decide/archive_records.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/search/schema.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/archive.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::search {
namespace {

constexpr std::size_t journal_bytes = 1 << 20;    // that are read at once
constexpr std::size_t commit_bytes = 4ULL << 20;  // of texts that wait in memory
constexpr std::string_view stream_prefix = "stream:";

// Returns whether a session may have been made with messages that the journal does not have. Only then it is read:
// reading asks the network thread, which has little time when many sessions are made.
bool may_be_made_with_messages(std::string_view created) {
  const std::string reason = json::string_at(created, "reason").value_or("");
  const bool anew = reason == "inbound" || reason == "spawn" || reason == "api";
  return !anew || json::find(json::find(created, "entry").value_or("{}"), "sessionFile").has_value();
}

// The same of the transcript that a session has after a reset.
bool may_be_reset_to_messages(std::string_view reset) {
  const std::string reason = json::string_at(reset, "reason").value_or("");
  return reason == "replace" || reason == "import" || reason == "put" || reason == "external";
}

}  // namespace

Result<std::uint64_t> Feed::follow(std::uint64_t seq) {
  std::vector<std::string> events;
  TRY(const journal::EventsRead read,
      source_.journal().each_event(seq + 1, journal_bytes,
                                   [&events](std::uint64_t, std::string_view json) { events.emplace_back(json); }));
  if (read.lost) return fail(Code::bad_cursor, "the journal lacks events");
  for (std::string& json : events) {
    TRY(source_.check_goes_on());
    const auto event = journal::parse_event(std::move(json));
    if (!event) continue;  // of a later version
    done_ = event->envelope.seq - 1;
    const auto taken = take(*event);
    if (taken) continue;
    if (index_.error() || !source_.check_goes_on()) return std::unexpected(taken.error());
    // The hole that this leaves is seen, and the session read again, at its next message.
    const journal::Envelope& about = event->envelope;
    log::warn("search_leaves_out", {{"agent", about.agent}, {"key", about.key}, {"error", taken.error().detail}});
  }
  write_names();
  done_ = 0;
  const std::uint64_t last = read.next - 1;
  if (last > seq) index_.set_position(last);
  return last;
}

Result<void> Feed::take(const journal::Event& event) {
  using enum journal::EventType;
  const journal::Envelope& about = event.envelope;
  switch (about.type) {
    case message_appended:
      return append(event);
    case message_edited:
    case message_deleted:
      if (const auto change = read_change(event.data, about.type == message_deleted, index_.text_bytes()))
        index_.change(about.agent, *change, about.time);
      return {};
    case session_created: {
      if (const std::string ending(decide::ending_of(decide::archives_in(event))); !ending.empty())
        for (Doc* doc : index_.documents().of_ending(about.agent, ending)) index_.remove(*doc);
      if (may_be_made_with_messages(event.data)) return read_session(about.agent, about.key);
      name(event);
      return {};
    }
    case session_updated:
      name(event);
      return {};
    case session_archived:
    case session_unarchived:
      mark(about, about.type == session_archived);
      return {};
    case session_reset: {
      name(event);
      auto archived = archive(event, json::string_at(event.data, "previousSessionId").value_or(about.session_id));
      if (may_be_reset_to_messages(event.data)) TRY(read_session(about.agent, about.key));
      return archived;
    }
    case context_cleared:
    case topic_deleted:
      return archive(event, about.session_id);
    case session_deleted: {
      auto archived = archive(event, about.session_id);
      forget(about.agent, about.key);
      return archived;
    }
    case archive_destroyed: {
      const std::string ending(decide::ending_of(decide::archives_in(event)));
      for (Doc* doc : index_.documents().of_ending(about.agent, ending)) index_.remove(*doc);
      index_.note_purge();
      return {};
    }
    case transcript_renumbered: {
      Doc* doc = index_.documents().find({about.agent, about.key, about.topic.value_or(""), ""});
      if (doc != nullptr) index_.remove(*doc);
      return read_session(about.agent, about.key);
    }
    case store_external_change: {
      std::vector<std::string> keys;
      for (const auto key : json::elements(json::find(event.data, "changed").value_or("[]")))
        keys.push_back(json::as_string(key).value_or(""));
      if (!about.key.empty()) keys.push_back(about.key);
      for (const std::string& key : keys) {
        forget(about.agent, key);
        TRY(read_session(about.agent, key));
      }
      return {};
    }
    default:
      return {};
  }
}

Result<void> Feed::append(const journal::Event& event) {
  const journal::Envelope& about = event.envelope;
  if (about.topic && about.topic->starts_with(stream_prefix)) return {};
  const auto message = json::find(event.data, "message");
  if (!message) return {};
  const auto seq = json::int_at(*message, "seq");
  if (!seq || *seq < 0) return {};
  Doc& doc = index_.doc({about.agent, about.key, about.topic.value_or(""), ""});
  if (!doc.session_id.empty() && doc.session_id != about.session_id) {
    // Its reset was read from the files already, or was done by another program.
    if (about.seq <= doc.scanned_to) return {};
    index_.remove(doc);
    return append(event);
  }
  if (doc.session_id.empty() || doc.channel != about.channel) {
    doc.session_id = about.session_id;
    doc.channel = about.channel;
    index_.documents().changed(doc);
  }
  const auto number = static_cast<std::uint64_t>(*seq);
  if (about.seq <= doc.scanned_from || number < doc.next_seq) return {};
  if (number > doc.next_seq) {
    // All is read again: by now the session may have other transcripts, or be gone. Then its archives are read.
    for (Doc* one : index_.documents().living(about.agent, about.key)) index_.remove(*one);
    return read_session(about.agent, about.key);
  }
  index_.add(doc, number, *message);
  return {};
}

// The documents of a session but its archives.
std::vector<Doc*> Feed::of_session(const std::string& agent, const std::string& key) {
  std::vector<Doc*> docs = index_.documents().living(agent, key);
  if (Doc* names = index_.documents().find({agent, key, "", std::string(names_doc)})) docs.push_back(names);
  return docs;
}

// The transcripts that an event archives or purges leave the session. Archives that are not known by what was read of
// the session are read: what was read from the file at the time of the event may be of either transcript, and a session
// that was gone by the time when it was to be read is not known at all.
Result<void> Feed::archive(const journal::Event& event, const std::string& session_id) {
  const journal::Envelope& about = event.envelope;
  decide::ArchiveRecord record = decide::archives_in(event);
  record.session_id = session_id;
  const std::string ending(decide::ending_of(record));
  const bool purged = json::find(event.data, "purged") == "true";
  std::map<std::string, std::string> files;  // by topic
  if (!purged)
    for (const std::string& file : record.archived_as) files[decide::topic_of(record, file).value_or("")] = file;
  std::set<std::string> known;
  for (Doc* doc : index_.documents().living(about.agent, about.key)) {
    if (about.topic && doc->name.topic != *about.topic) continue;
    if (doc->session_id != session_id) continue;              // of a later transcript
    if (about.seq <= doc->scanned_from && !purged) continue;  // read after it
    const auto file = files.find(doc->name.topic);
    if (file == files.end() || about.seq <= doc->scanned_to) {
      index_.remove(*doc);
      continue;
    }
    DocName archived = doc->name;
    archived.archive = file->second;
    index_.rename(*doc, std::move(archived), ending);
    known.insert(file->second);
  }
  if (purged) {
    index_.note_purge();
    return {};
  }
  std::vector<KnownArchive> unknown;
  for (const auto& [topic, file] : files)
    if (!known.contains(file)) unknown.push_back({about.key, session_id, about.channel, topic, file});
  if (record.more > 0) {  // the event does not name them all
    TRY(const auto all, source_.archives(about.agent));
    for (const KnownArchive& one : all)
      if (one.session_id == session_id && one.file.ends_with(ending) && !known.contains(one.file))
        unknown.push_back(one);
  }
  return read_archives(about.agent, unknown);
}

// Reads all that can be read. Returns the first error.
Result<void> Feed::read_archives(const std::string& agent, const std::vector<KnownArchive>& archives) {
  Result<void> result;
  for (const KnownArchive& archive : archives) {
    auto read = read_archive(agent, archive);
    if (read) continue;
    if (index_.error() || !source_.check_goes_on()) return read;
    if (result) result = std::move(read);
  }
  return result;
}

void Feed::name(const journal::Event& event) {
  const journal::Envelope& about = event.envelope;
  const bool created = event.envelope.type == journal::EventType::session_created;
  const std::string_view fields = json::find(event.data, created ? "entry" : "set").value_or("{}");
  const auto unset = json::find(event.data, "unset").value_or("[]");
  for (Doc* doc : of_session(about.agent, about.key)) {
    if (doc->channel == about.channel) continue;
    doc->channel = about.channel;
    index_.documents().changed(*doc);
  }
  for (const Role role : {Role::name, Role::label}) {
    const auto waiting = called_.find({about.agent, about.key, role});
    if (waiting != called_.end()) waiting->second.channel = about.channel;
    auto text = json::string_at(fields, search::name(role));
    for (const auto gone : json::elements(unset))
      if (json::as_string(gone) == search::name(role)) text = "";
    if (!text) continue;
    called_[{about.agent, about.key, role}] = {
        .session_id = about.session_id, .channel = about.channel, .text = std::move(*text), .time = about.time};
  }
  if (json::find(fields, "archivedAt")) mark(about, true);
  for (const auto gone : json::elements(unset))
    if (json::as_string(gone) == "archivedAt") mark(about, false);
}

// Notes whether a session has the mark of archived ones. It may get its first name or label later, which have the mark
// from their document.
void Feed::mark(const journal::Envelope& about, bool archived) {
  write_names();
  index_.doc({about.agent, about.key, "", std::string(names_doc)});
  for (Doc* doc : of_session(about.agent, about.key)) {
    if (doc->archived == archived) continue;
    doc->archived = archived;
    index_.documents().changed(*doc);
  }
}

void Feed::write_names() {
  for (const auto& [of, called] : called_) {
    const auto& [agent, key, role] = of;
    Doc& doc = index_.doc({agent, key, "", std::string(names_doc)});
    doc.session_id = called.session_id;
    doc.channel = called.channel;
    index_.documents().changed(doc);
    index_.add_name(doc, role, called.text, called.time);
  }
  called_.clear();
}

void Feed::forget(const std::string& agent, const std::string& key) {
  for (const Role role : {Role::name, Role::label}) called_.erase({agent, key, role});
  for (Doc* doc : of_session(agent, key)) index_.remove(*doc);
}

Result<void> Feed::read_session(const std::string& agent, const std::string& key) {
  auto session = source_.session(agent, key);
  if (!session && session.error().code == Code::agent_not_found) return {};
  if (!session) return std::unexpected(std::move(session.error()));
  if (!*session) return {};
  return read_session(agent, **session);
}

Result<void> Feed::read_session(const std::string& agent, const KnownSession& session) {
  for (const auto& [topic, file] : session.files) {
    const DocName name{agent, session.key, topic, ""};
    Doc* doc = &index_.doc(name);
    if (!doc->session_id.empty() && doc->session_id != session.session_id) {
      index_.remove(*doc);
      doc = &index_.doc(name);
    }
    doc->session_id = session.session_id;
    doc->channel = session.channel;
    doc->archived = session.archived;
    index_.documents().changed(*doc);
    TRY(read(name, file, session.as_of));
  }
  if (session.name.empty() && session.label.empty() && !session.archived) return {};
  Doc& names = index_.doc({agent, session.key, "", std::string(names_doc)});
  names.session_id = session.session_id;
  names.channel = session.channel;
  names.archived = session.archived;
  index_.documents().changed(names);
  index_.add_name(names, Role::name, session.name, session.created_at);
  index_.add_name(names, Role::label, session.label, session.created_at);
  return {};
}

Result<void> Feed::read_archive(const std::string& agent, const KnownArchive& archive) {
  if (archive.topic.starts_with(stream_prefix)) return {};
  const DocName name{agent, archive.key, archive.topic, archive.file};
  Doc& doc = index_.doc(name);
  doc.session_id = archive.session_id;
  doc.channel = archive.channel;
  doc.ending = transcripts::archive_ending(archive.file);
  index_.documents().changed(doc);
  return read(name, archive.file, source_.journal().head());
}

// `as_of`: the journal's end before it was asked which file it is.
Result<void> Feed::read(const DocName& name, const std::string& file, std::uint64_t as_of) {
  for (bool more = true; more;) {
    Doc& doc = index_.doc(name);
    const std::string transcript = transcripts::transcript_name(doc.session_id, name.topic);
    TRY(const auto lines, source_.lines(name.agent, file, transcript, doc.next_seq));
    const transcripts::TranscriptPage& page = lines.page;
    for (const transcripts::CopiedLines& copied : lines.copied) {
      const auto [session_id, topic] = transcripts::parts_of(copied.name);
      index_.add_copied(doc, {std::string(session_id), std::string(topic), copied.first, copied.last});
    }
    for (const transcripts::StoredLine& line : page.lines) {
      TRY(source_.check_goes_on());
      const std::string message = transcripts::view_entry(line.line, line.seq, transcripts::View::full).value_or("{}");
      index_.add(doc, line.seq, message);
    }
    more = page.has_more && !page.lines.empty();
    if (index_.rows().waiting_bytes() <= commit_bytes) continue;
    write_names();
    if (done_ > 0) index_.set_position(done_);
    if (!index_.commit()) return fail(Code::degraded, "the index is not written");
  }
  Doc& doc = index_.doc(name);
  doc.scanned_from = as_of;
  doc.scanned_to = source_.journal().head();
  index_.documents().changed(doc);
  return {};
}

Result<void> Feed::read_agent(const std::string& agent) {
  std::string after;
  for (;;) {
    auto sessions = source_.sessions(agent, after);
    if (!sessions && sessions.error().code == Code::agent_not_found) return {};
    if (!sessions) return std::unexpected(std::move(sessions.error()));
    if (sessions->empty()) break;
    for (const KnownSession& session : *sessions) TRY(read_session(agent, session));
    after = sessions->back().key;
  }
  TRY(const auto archives, source_.archives(agent));
  return read_archives(agent, archives);
}

}  // namespace sessiond::search
