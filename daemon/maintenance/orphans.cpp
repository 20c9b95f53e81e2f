#include "daemon/maintenance/orphans.hpp"

#include <algorithm>
#include <optional>

#include "daemon/decide/steps.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"
#include "transcripts/counts.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::maintenance {
namespace {

constexpr std::size_t looked_through = 200;       // entries, for a time or the first message of a user
constexpr std::size_t first_message_chars = 200;  // code points
constexpr std::size_t name_chars = 200;

std::string beginning(std::string_view text, std::size_t characters) {
  std::size_t end = 0;
  while (end < text.size() && characters-- > 0) end += std::max<std::size_t>(store::utf8_sequence(text, end), 1);
  return std::string(text.substr(0, end));
}

// The time, unless no session can have begun then. The clock of whoever wrote it may have been wrong.
std::optional<std::int64_t> believed(std::optional<std::int64_t> time, std::int64_t now) {
  return time && *time > 0 && *time <= now ? time : std::nullopt;
}

// The time of the first of these lines that has one.
std::optional<std::int64_t> first_time(const std::vector<transcripts::StoredLine>& lines, std::int64_t now) {
  for (const transcripts::StoredLine& stored : lines) {
    const auto entry = transcripts::view_entry(stored.line, stored.seq, transcripts::View::full);
    if (const auto time = believed(entry ? json::int_at(*entry, "timestamp") : std::nullopt, now)) return time;
  }
  return {};
}

std::string first_user_text(const std::vector<transcripts::StoredLine>& lines) {
  for (const transcripts::StoredLine& stored : lines) {
    const auto entry = transcripts::view_entry(stored.line, stored.seq, transcripts::View::chat);
    if (!entry || json::string_at(*entry, "role") != "user") continue;
    if (auto text = json::string_at(*entry, "text").value_or(""); !text.empty()) return text;
  }
  return {};
}

struct Told {
  transcripts::Counts counts{};
  json::Edit entry{};  // of the session
};

// Reads what a transcript tells of its session; without `entry` only what it counts. `written`: the time of
// the file, for a transcript without times.
Result<Told> told_by(transcripts::Transcript& transcript, bool entry, std::int64_t written) {
  TRY(const auto counts, transcripts::counts_of(transcript));
  Told told{.counts = counts};
  if (!entry) return told;
  TRY(const auto first, transcript.page({.limit = looked_through}));
  TRY(const auto last, transcript.page({.limit = looked_through, .descending = true}));
  TRY(const auto named, transcript.page({.limit = 1, .descending = true, .types = {"session_info"}}));
  const std::int64_t now = store::unix_ms();
  const std::int64_t of_file = std::min(written, now);
  const std::int64_t begun =
      believed(transcript.started(), now).value_or(first_time(first.lines, now).value_or(of_file));
  told.entry.put_int("createdAt", begun);
  told.entry.put_int("sessionStartedAt", begun);
  told.entry.put_int("updatedAt", std::max(begun, first_time(last.lines, now).value_or(begun)));
  if (!named.lines.empty()) {
    const std::string name = json::string_at(named.lines.front().line, "name").value_or("");
    if (!name.empty()) told.entry.put_string("name", beginning(name, name_chars));
  }
  if (const std::string text = first_user_text(first.lines); !text.empty())
    told.entry.put_string("firstMessage", beginning(text, first_message_chars));
  return told;
}

// Returns whether a session was made.
asio::awaitable<Result<bool>> adopt_one(ledger::Ledger& ledger, std::string actor, std::string agent,
                                        const Orphan& orphan) {
  decide::AdoptOrphan command{.session_id = orphan.session_id, .files = orphan.files};
  transcripts::Counts counts;
  for (const std::string& file : orphan.files) {
    const bool first = file == orphan.files.front();
    CO_TRY(const auto told, co_await ledger.read_transcript(
                                agent, file, [first, written = orphan.written](transcripts::Transcript& transcript) {
                                  return told_by(transcript, first, written);
                                }));
    if (!store::is_stream_file(orphan.session_id, file)) counts.add(told.counts);
    if (first) command.entry = told.entry;
  }
  decide::put_counts(command.entry, counts);
  const auto decided = [&command](const decide::AgentState& state, const decide::Context& context,
                                  const decide::FetchedLines&) { return decide::decide(state, command, context); };
  CO_TRY(const auto reply, co_await ledger.commit(agent, {.actor = std::move(actor)}, decided));
  co_return reply.status == 201;
}

}  // namespace

asio::awaitable<Result<Adopted>> adopt(ledger::Ledger& ledger, std::string actor, std::string agent,
                                       std::vector<Orphan> orphans) {
  std::vector<std::string> files;
  for (const Orphan& orphan : orphans) std::ranges::copy(orphan.files, std::back_inserter(files));
  CO_TRY(co_await ledger.flusher().take_as_known(agent, std::move(files)));
  Adopted out;
  for (Orphan& orphan : orphans) {
    if (ledger.parts().env.draining) co_return fail(Code::draining, "the daemon is shutting down");
    auto made = co_await adopt_one(ledger, actor, agent, orphan);
    if (!made)
      out.failed.emplace_back(std::move(orphan.session_id), std::move(made.error().detail));
    else if (*made)
      out.orphans.push_back(std::move(orphan));
  }
  co_return out;
}

}  // namespace sessiond::maintenance
