#include "daemon/api/search_hits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "daemon/api/handler.hpp"
#include "daemon/ledger/show.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "store/try.hpp"
#include "transcripts/conversation.hpp"

namespace sessiond::api {
namespace {

using search::Hit;
using Clock = std::chrono::steady_clock;
using WhichArchived = search::Archived;

// A hit that the token may see, and where its entry lies.
struct PlacedHit {
  Hit hit{};
  std::string file{};        // empty: it is a name or a label, and needs no reading
  std::string transcript{};  // transcripts::transcript_name()
};

// The parts of an entry that a hit shows, as GET gives them.
struct ReadHit {
  std::string id{}, from{};
  std::optional<std::int64_t> time{};
  search::Snippet snippet{};
  std::optional<transcripts::CopiedLines> copied{};  // it was first written elsewhere
};

// Where the entry of a hit lies in an archive. Nothing: it is not shown.
std::optional<PlacedHit> placed_in_archive(const auth::Principal& principal, const search::Asked& asked,
                                           const decide::AgentState& state, const Hit& hit) {
  if (asked.archived == WhichArchived::no) return {};
  for (const decide::ArchiveRecord* record : state.archives.of_id(hit.session_id)) {
    const bool has_it = std::ranges::find(record->archived_as, hit.archive) != record->archived_as.end();
    if (record->purged || !has_it || !sees(principal, state, *record)) continue;
    return PlacedHit{
        .hit = hit,
        .file = hit.archive,
        .transcript = transcripts::transcript_name(record->session_id, decide::topic_of(*record, hit.archive))};
  }
  return {};
}

// The same for any hit. Its session may have got or lost the mark of archived ones since: the index is behind.
std::optional<PlacedHit> placed(const Api& api, const auth::Principal& principal, const search::Asked& asked,
                                const decide::AgentState& state, const Hit& hit, std::uint64_t position) {
  if (!api.search.is_current(hit, position)) return {};
  const bool of_session = search::is_of_session(hit.role);
  if (!hit.archive.empty() && !of_session) return placed_in_archive(principal, asked, state, hit);
  const auto found = state.by_name().find(hit.key);
  if (found == state.by_name().end()) return {};
  const decide::Session& session = *found->second;
  if (!sees(principal, state, session)) return {};
  if (asked.channel && session.channel != *asked.channel) return {};
  if (asked.archived != WhichArchived::any &&
      (asked.archived == WhichArchived::only) != session.archived_at.has_value())
    return {};
  if (of_session) {
    if (hit.text != (hit.role == search::Role::name ? session.name : session.label)) return {};
    PlacedHit placed{.hit = hit};
    placed.hit.session_id = session.session_id;  // a reset keeps the name
    return placed;
  }
  if (session.session_id != hit.session_id) return {};
  const auto topic = hit.topic.empty() ? std::nullopt : std::optional(hit.topic);
  std::string file = decide::AgentState::file_of(session, topic);
  if (topic && !state.may_use(session, file)) return {};
  return PlacedHit{
      .hit = hit,
      .file = std::move(file),
      .transcript = transcripts::transcript_name(hit.session_id, topic == session.own_topic() ? std::nullopt : topic)};
}

// Returns whether the entry is the one that the index has, and has what is searched for.
bool is_as_found(const search::Asked& asked, const Hit& hit, const search::MessageText& message) {
  if (message.id != hit.entry || message.role != hit.role) return false;
  if (!asked.from.empty() && !search::names_of(message.from).contains('\n' + search::folded(asked.from) + '\n'))
    return false;
  return asked.words.in(search::folded(message.text));
}

// Some hits, and what was read of them. Transcripts are read beside each other and in pieces, so that others who read
// them have their turn. The loop's, but for `ended`.
struct Readings {
  explicit Readings(asio::io_context& io) : timer(io) {}

  std::shared_ptr<const search::Asked> asked{};
  std::size_t text_bytes = 0;
  std::vector<PlacedHit> placed{};
  std::vector<std::optional<ReadHit>> read{};
  std::vector<bool> done{};  // by hit
  std::size_t open = 0;      // transcripts that are being read
  bool failed = false;
  std::atomic<bool> ended{false};  // nobody waits any more: nothing more is read or noted
  asio::steady_timer timer;        // is cancelled when something was done
};

// Reads hits of one transcript. Blocks.
class HitReader {
 public:
  HitReader(transcripts::Transcript& transcript, const Readings& readings) : transcript_(transcript), of_(readings) {}

  // Reads the first of these hits, until their entries exceed 1 MiB. Returns what is shown of each that it has read.
  // Nothing: the entry is not what the index says.
  Result<std::vector<std::optional<ReadHit>>> read(std::span<const std::size_t> hits) {
    const std::string& name = of_.placed[hits.front()].transcript;
    TRY(const std::string header, transcript_.header());
    const auto copied = transcripts::Origins::read(name, header).copied();
    std::vector<std::optional<ReadHit>> all;
    std::size_t bytes = 0;
    for (const std::size_t at : hits) {
      if (bytes > most_read_at_once || of_.ended) break;
      TRY(all.emplace_back(), read_one(of_.placed[at], name, bytes));
      if (!all.back()) continue;
      const std::uint64_t seq = of_.placed[at].hit.seq;
      const auto from =
          std::ranges::find_if(copied, [seq](const auto& lines) { return lines.first <= seq && seq <= lines.last; });
      if (from != copied.end()) all.back()->copied = *from;
    }
    return all;
  }

 private:
  static constexpr std::size_t most_read_at_once = 1 << 20;

  Result<std::optional<ReadHit>> read_one(const PlacedHit& placed, const std::string& name, std::size_t& bytes) {
    const std::uint64_t seq = placed.hit.seq;
    transcripts::PageQuery query{.limit = 1};
    if (seq > 0) query.after = seq - 1;
    TRY(auto page, transcript_.page(query));
    if (page.lines.empty() || page.lines.front().seq != seq) return std::nullopt;
    bytes += page.lines.front().line.size();
    TRY(const auto changes, transcripts::read_changes(transcript_, name, page.lines));
    std::string& line = page.lines.front().line;
    if (auto changed = transcripts::changed_line(line, seq, changes)) line = *std::move(changed);
    const auto entry = transcripts::view_entry(line, seq, transcripts::View::full);
    if (!entry) return std::nullopt;
    search::MessageText message = search::read_message(*entry, of_.text_bytes);
    if (!is_as_found(*of_.asked, placed.hit, message)) return std::nullopt;
    return ReadHit{.id = std::move(message.id),
                   .from = std::move(message.from),
                   .time = message.time,
                   .snippet = of_.asked->words.snippet(message.text)};
  }

  transcripts::Transcript& transcript_;
  const Readings& of_;
};

asio::awaitable<void> read_transcript(Api& api, std::shared_ptr<Readings> readings, std::vector<std::size_t> hits) {
  const Hit first = readings->placed[hits.front()].hit;
  const std::string file = readings->placed[hits.front()].file;
  for (std::size_t next = 0; next < hits.size() && !readings->ended;) {
    const std::vector<std::size_t> rest(hits.begin() + static_cast<std::ptrdiff_t>(next), hits.end());
    const auto call = [readings, rest](transcripts::Transcript& transcript) {
      return HitReader(transcript, *readings).read(rest);
    };
    auto read = co_await api.ledger.read_transcript(first.agent, file, call);
    if (readings->ended) break;
    readings->failed = readings->failed || !read;
    const std::size_t count = read ? read->size() : rest.size();
    for (std::size_t n = 0; n < count; ++n) {
      readings->done[rest[n]] = true;
      if (read) readings->read[rest[n]] = std::move((*read)[n]);
    }
    next += count;
    readings->timer.cancel();
  }
  --readings->open;
  readings->timer.cancel();
}

// Reads until the deadline, and then until the first one is done, so that each page gets on.
asio::awaitable<std::shared_ptr<Readings>> read_all(Api& api, std::shared_ptr<const search::Asked> asked,
                                                    std::vector<PlacedHit> placed, Clock::time_point deadline) {
  auto& io = api.ledger.parts().env.io;
  const auto readings = std::make_shared<Readings>(io);
  readings->asked = std::move(asked);
  readings->text_bytes = api.search.options().text_bytes;
  readings->placed = std::move(placed);
  readings->read.resize(readings->placed.size());
  readings->done.resize(readings->placed.size());
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> transcripts;
  for (std::size_t at = 0; at < readings->placed.size(); ++at) {
    const PlacedHit& one = readings->placed[at];
    readings->done[at] = one.file.empty();
    if (!one.file.empty()) transcripts[{one.hit.agent, one.file}].push_back(at);
  }
  readings->open = transcripts.size();
  for (auto& [of, hits] : transcripts)
    asio::co_spawn(io, read_transcript(api, readings, std::move(hits)), asio::detached);
  while (readings->open > 0) {
    const auto end = readings->done.front() ? deadline : Clock::time_point::max();
    if (Clock::now() >= end) break;
    readings->timer.expires_at(end);
    boost::system::error_code error;
    co_await readings->timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
  readings->ended = true;
  co_return readings;
}

// The transcript in which a copied entry was first written, for a token that may see it; else nothing.
std::string copy_of_json(const auth::Principal& principal, const decide::AgentState& state, const ReadHit& read) {
  if (!read.copied) return "";
  const auto [session_id, topic] = transcripts::parts_of(read.copied->name);
  const decide::Session* session = state.find_session_id(session_id);
  const auto records = state.archives.of_id(std::string(session_id));
  const bool is_seen = (session != nullptr && sees(principal, state, *session)) ||
                       std::ranges::any_of(records, [&](const decide::ArchiveRecord* record) {
                         return !record->purged && sees(principal, state, *record);
                       });
  if (!is_seen) return "";
  json::ObjectWriter writer;
  writer.string("sessionId", session_id);
  if (!topic.empty()) writer.string("topic", topic);
  writer.string("id", read.id);
  return writer.text();
}

std::string hit_json(const search::Asked& asked, const Hit& hit, const ReadHit* read, const std::string& copy_of) {
  json::ObjectWriter writer;
  writer.string("agent", hit.agent);
  writer.string("key", hit.key);
  writer.string("sessionId", hit.session_id);
  if (!hit.topic.empty()) writer.string("topic", hit.topic);
  if (!hit.archive.empty() && read != nullptr) writer.string("archive", hit.archive);
  if (read == nullptr) {
    writer.raw("seq", "null");
    writer.raw("id", "null");
  } else {
    writer.integer("seq", static_cast<std::int64_t>(hit.seq));
    writer.string("id", read->id);
  }
  writer.string("role", search::name(hit.role));
  if (read != nullptr && !read->from.empty()) writer.raw("from", read->from);
  writer.integer("timestamp", read != nullptr ? read->time.value_or(hit.time) : hit.time);
  const search::Snippet snippet = read == nullptr ? asked.words.snippet(hit.text) : read->snippet;
  writer.string("snippet", snippet.text);
  std::string ranges = "[";
  for (const auto& range : snippet.ranges) append_element(ranges, fmt::format("[{},{}]", range.at, range.length));
  writer.raw("ranges", ranges + "]");
  if (!copy_of.empty()) writer.raw("copyOf", copy_of);
  return writer.text();
}

std::vector<std::string> agents_of(const search::Found& found) {
  std::vector<std::string> agents;
  agents.reserve(found.hits.size());
  for (const Hit& hit : found.hits) agents.push_back(hit.agent);
  std::ranges::sort(agents);
  agents.erase(std::ranges::unique(agents).begin(), agents.end());
  return agents;
}

const decide::AgentState* state_of(const ledger::Ledger::States& states, const std::string& agent) {
  const auto state = std::ranges::find(states, agent, &decide::AgentState::id);
  return state == states.end() ? nullptr : *state;
}

}  // namespace

asio::awaitable<Result<ShownHits>> hits_as_shown(Api& api, const auth::Principal& principal,
                                                 std::shared_ptr<const search::Asked> asked, search::Found found,
                                                 std::chrono::steady_clock::time_point deadline) {
  const auto agents = agents_of(found);
  const auto place = [&](const ledger::Ledger::States& states, const ledger::Seen&) -> Result<std::vector<PlacedHit>> {
    std::vector<PlacedHit> all;
    for (const Hit& hit : found.hits) {
      const decide::AgentState* state = state_of(states, hit.agent);
      if (state == nullptr) continue;
      if (auto one = placed(api, principal, *asked, *state, hit, found.position)) all.push_back(*std::move(one));
    }
    return all;
  };
  std::vector<std::string> degraded;
  CO_TRY(auto hits, co_await api.ledger.show_all(agents, false, place, &degraded));
  const auto readings = co_await read_all(api, asked, std::move(hits), deadline);
  ShownHits shown{.partial = !degraded.empty() || readings->failed};
  const auto show = [&](const ledger::Ledger::States& states, const ledger::Seen&) -> Result<bool> {
    shown.hits.clear();
    shown.unread = 0;
    for (std::size_t at = 0; at < readings->placed.size(); ++at) {
      const Hit& hit = readings->placed[at].hit;
      const bool of_session = readings->placed[at].file.empty();
      const auto& read = readings->read[at];
      if (!readings->done[at]) {
        shown.unread = hit.row;
        break;
      }
      const decide::AgentState* state = state_of(states, hit.agent);
      // The state may have changed while the entries were read.
      if (state == nullptr || !placed(api, principal, *asked, *state, hit, found.position)) continue;
      if (!of_session && !read) continue;
      const std::string copy_of = read ? copy_of_json(principal, *state, *read) : "";
      shown.hits.push_back({hit.row, hit_json(*asked, hit, read ? &*read : nullptr, copy_of)});
    }
    return true;
  };
  CO_TRY(const bool done, co_await api.ledger.show_all(agents, false, show, &degraded));
  static_cast<void>(done);
  shown.partial = shown.partial || !degraded.empty();
  co_return shown;
}

}  // namespace sessiond::api
