#include "daemon/search/feed.hpp"

#include <algorithm>
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

// The transcript's name that an archive had.
std::string_view file_before(std::string_view archive) {
  return archive.substr(0, archive.size() - transcripts::archive_ending(archive).size());
}

// Tells whether a session may have been made with messages that the journal does not have. Only then it is read:
// reading asks the network thread, which has little time when many sessions are made.
bool may_have_a_past(std::string_view created) {
  const std::string reason = json::string_at(created, "reason").value_or("");
  const bool anew = reason == "inbound" || reason == "spawn" || reason == "api";
  return !anew || json::find(json::find(created, "entry").value_or("{}"), "sessionFile").has_value();
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
      if (may_have_a_past(event.data)) return read_session(about.agent, about.key);
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
    case session_reset:
      name(event);
      return archive(event, json::string_at(event.data, "previousSessionId").value_or(about.session_id));
    case context_cleared:
    case topic_deleted:
      return archive(event, about.session_id);
    case session_deleted:
      TRY(archive(event, about.session_id));
      forget(about.agent, about.key);
      return {};
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
  if (number > doc.next_seq) return read_session(about.agent, about.key);
  index_.add(doc, number, *message);
  return {};
}

// The transcripts that an event archives or purges leave the session. What was read from the file at the time of the
// event may be of either transcript, and is read again.
Result<void> Feed::archive(const journal::Event& event, const std::string& session_id) {
  const journal::Envelope& about = event.envelope;
  decide::ArchiveRecord archives = decide::archives_in(event);
  const std::string ending(decide::ending_of(archives));
  const bool purged = json::find(event.data, "purged") == "true";
  if (purged) index_.note_purge();
  bool unsure = archives.more > 0;
  for (Doc* doc : index_.documents().living(about.agent, about.key)) {
    if (about.topic && doc->name.topic != *about.topic) continue;
    if (doc->session_id != session_id) continue;      // of a later transcript
    if (about.seq <= doc->scanned_from && !purged) {  // the files were read after it
      unsure = true;
      continue;
    }
    const std::string file = store::transcript_file(session_id, doc->name.topic) + ending;
    const bool named = !purged && std::ranges::find(archives.archived_as, file) != archives.archived_as.end();
    if (!named || about.seq <= doc->scanned_to) {
      unsure = unsure || !purged;
      index_.remove(*doc);
      continue;
    }
    DocName archived = doc->name;
    archived.archive = file;
    index_.rename(*doc, std::move(archived), ending);
  }
  if (unsure)
    for (const std::string& file : archives.archived_as)
      TRY(read_archive(about.agent, {about.key, session_id, about.channel, file}));
  return {};
}

void Feed::name(const journal::Event& event) {
  const journal::Envelope& about = event.envelope;
  const bool created = event.envelope.type == journal::EventType::session_created;
  const std::string_view fields = json::find(event.data, created ? "entry" : "set").value_or("{}");
  const auto unset = json::find(event.data, "unset").value_or("[]");
  for (Doc* doc : index_.documents().living(about.agent, about.key)) {
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

// Notes whether a session has the mark of archived ones.
void Feed::mark(const journal::Envelope& about, bool archived) {
  write_names();
  std::vector<Doc*> docs = index_.documents().living(about.agent, about.key);
  docs.push_back(index_.documents().find({about.agent, about.key, "", std::string(names_doc)}));
  for (Doc* doc : docs) {
    if (doc == nullptr || doc->archived == archived) continue;
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
  for (Doc* doc : index_.documents().living(agent, key)) index_.remove(*doc);
  if (Doc* names = index_.documents().find({agent, key, "", std::string(names_doc)})) index_.remove(*names);
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
    TRY(read(name, file));
  }
  if (session.name.empty() && session.label.empty()) return {};
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
  const std::string topic(
      store::topic_of_file(archive.session_id, std::string(file_before(archive.file))).value_or(""));
  if (topic.starts_with(stream_prefix)) return {};
  const DocName name{agent, archive.key, topic, archive.file};
  Doc& doc = index_.doc(name);
  doc.session_id = archive.session_id;
  doc.channel = archive.channel;
  doc.ending = transcripts::archive_ending(archive.file);
  index_.documents().changed(doc);
  return read(name, archive.file);
}

Result<void> Feed::read(const DocName& name, const std::string& file) {
  const std::uint64_t head = source_.journal().head();
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
  doc.scanned_from = head;
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
  for (const KnownArchive& archive : archives) TRY(read_archive(agent, archive));
  return {};
}

}  // namespace sessiond::search
