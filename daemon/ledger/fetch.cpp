#include "daemon/ledger/fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "daemon/decide/session_log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/files.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry_shape.hpp"
#include "transcripts/mend.hpp"

namespace sessiond::ledger {

asio::awaitable<Result<void>> mend_transcript(LedgerParts& parts, std::string agent, std::string file,
                                              transcripts::TornLine torn) {
  CO_TRY(co_await parts.flusher.flush(agent, file));
  const std::string below = file_path(parts.env.paths, agent, file);
  auto path = store::resolve_below(parts.env.paths.root(), below);
  if (!path) {
    const Problem why = store::in_the_way(parts.env.paths.root() / below, std::move(path.error()));
    parts.readers.note_refusal(below, &why);
    co_return std::unexpected(why);
  }
  CO_TRY(const auto mended, co_await parts.flusher.on_files(
                                [path = *path, torn](TranscriptFiles&) { return transcripts::mend_end(path, torn); }));
  if (mended && !mended->torn.empty())
    parts.notices.repaired(agent,
                           {fmt::format("{} ended in a torn line: {} bytes were cut off into {}", path->native(),
                                        mended->bytes, mended->torn.filename().native())},
                           path->native());
  co_return Result<void>{};
}

namespace {

// Blocks. A loop of calls that ended before is not warned of any more.
Result<std::shared_ptr<const context::Meter>> measured(transcripts::Transcript& transcript, std::int64_t doom_count,
                                                       const context::OrderAsked& order, const std::string& name) {
  TRY(auto meter, transcripts::measure(transcript, doom_count, order.waiting, name));
  meter.take_doom();
  return std::make_shared<const context::Meter>(std::move(meter));
}

}  // namespace

asio::awaitable<Result<decide::FetchedIds>> fetch_ids(const LedgerEnv& env, TranscriptFlusher& flusher,
                                                      std::string agent, std::vector<std::string> ids) {
  if (!ids.empty()) CO_TRY(co_await flusher.flush(agent, store::transcript_file(ids.front(), "")));
  co_return co_await runtime::run_on(env.disk.get_executor(), [dir = env.paths.root() / env.paths.sessions_dir(agent),
                                                               beside = env.paths.root() / dir_beside(env.paths, agent),
                                                               ids] { return files_of_ids(dir, ids, beside); });
}

namespace {

// Notes where a file beside transcripts ends. One that cannot be read is taken for empty: its lines are then placed
// behind what is there.
asio::awaitable<Result<void>> fetch_end_beside(LedgerParts& parts, const std::string& agent, const std::string& file) {
  const auto state = parts.agents.find_or_add(agent).state;
  const std::uint64_t forgotten = state ? state->transcripts.forgotten(file) : 0;
  std::optional<transcripts::TranscriptTail> tail;
  if (co_await mend_transcript(parts, agent, file, transcripts::TornLine::move_aside)) {
    const auto read = co_await parts.readers.read(
        agent, file, [](transcripts::Transcript& log) -> Result<transcripts::TranscriptTail> { return log.tail(); });
    if (read) tail = *read;
  }
  Agent& slot_now = parts.agents.find_or_add(agent);
  if (!slot_now.state || slot_now.state != state || state->transcripts.forgotten(file) != forgotten ||
      state->transcripts.find(file) != nullptr)
    co_return Result<void>{};  // the decision asks again if it still needs it
  decide::TranscriptEnd& end = state->transcripts.find_or_add(file);
  if (!tail) co_return Result<void>{};
  end.size = tail->size;
  end.count = tail->count;
  end.ends_in_newline = tail->ends_in_newline;
  end.last_id = tail->last_id;
  end.read_size = tail->size;
  co_return Result<void>{};
}

// Reads the structures of the last messages: decide::history_name.
Result<transcripts::StoredLine> read_history(transcripts::Transcript& transcript) {
  transcripts::PageQuery query{.limit = limits::log_history, .descending = true, .types = {"message"}};
  std::vector<std::string> newest_first;
  for (bool more = true; more && newest_first.size() < limits::log_history;) {
    TRY(const auto page, transcript.page(query));
    for (const transcripts::StoredLine& line : page.lines)
      newest_first.push_back(decide::log_structure(json::find(line.line, "message").value_or("{}")));
    more = page.has_more && page.next;
    query.before = page.next;
  }
  newest_first.resize(std::min<std::size_t>(newest_first.size(), limits::log_history));
  std::string all = "[";
  for (const std::string& one : newest_first | std::views::reverse) all.append(all.size() > 1 ? "," : "").append(one);
  return transcripts::StoredLine{.seq = transcript.tail().count, .line = all + "]"};
}

// Answers Need::What::behind.
Result<transcripts::StoredLine> message_behind(transcripts::Transcript& transcript, const std::string& id) {
  const std::uint64_t count = transcript.tail().count;
  TRY(const auto entry, transcript.find(id));
  transcripts::StoredLine answer{.seq = count, .line = {}};
  if (!entry || entry->seq + 1 >= count) return answer;
  const transcripts::SeqSpan rest{entry->seq + 1, count - 1};
  TRY(transcript.each({&rest, 1}, [&answer](std::uint64_t, std::string_view line) {
    const transcripts::EntryFields fields = transcripts::read_fields(line);
    const std::string type = json::as_string(fields.type).value_or("");
    const bool is_message = fields.shape == transcripts::EntryShape::nested ||
                            fields.shape == transcripts::EntryShape::flat || type == "compaction" ||
                            type == "custom_message";
    if (is_message) answer.line = "message";
    return !is_message;
  }));
  return answer;
}

}  // namespace

asio::awaitable<Result<void>> fetch(LedgerParts& parts, const std::string& agent, const decide::Need& need,
                                    decide::FetchedLines& lines, decide::FetchedIds& ids, decide::FetchedKept& kept) {
  if (need.what == decide::Need::What::kept) {
    CO_TRY(co_await parts.commits.wait_until_durable(parts.commits.last()));
    CO_TRY(kept[need.file + '\n' + need.ids.front()],
           co_await parts.readers.read(agent, need.file, [id = need.ids.front(), &need](transcripts::Transcript& from) {
             return transcripts::look_up_kept(from, id, need.name, need.order);
           }));
    co_return Result<void>{};
  }
  if (need.what == decide::Need::What::counts) co_return co_await parts.follower.put_counts_right(agent, need.file);
  if (need.what == decide::Need::What::sdk_session) co_return co_await parts.sdk_sessions.learn(need.file);
  const auto loaded = parts.agents.find_or_add(agent).shared_from_this();
  while (loaded->following.migrating.contains(need.file)) co_await loaded->waiting.wait(0);
  const auto state = loaded->state;
  const std::uint64_t forgotten = state ? state->transcripts.forgotten(need.file) : 0;
  // Renames and lines that were committed before the read must be in the files first.
  CO_TRY(co_await parts.commits.wait_until_durable(parts.commits.last()));
  if (need.what == decide::Need::What::id_files) {
    CO_TRY(auto found, co_await fetch_ids(parts.env, parts.flusher, agent, {need.file}));
    ids.merge(found);
    co_return Result<void>{};
  }
  if (need.what == decide::Need::What::transcript_end && store::is_beside(need.file))
    co_return co_await fetch_end_beside(parts, agent, need.file);
  if (parts.env.rules.shared) {
    CO_TRY(co_await parts.flusher.wait_until_written(agent, need.file));
  }
  const std::string name = state ? state->transcript_name_of(need.file) : "";
  switch (need.what) {
    case decide::Need::What::transcript_end: {
      // In shared mode a torn line stays, because a foreign program may be writing it; our next line then begins on a
      // line of its own.
      if (!parts.env.rules.shared)
        CO_TRY(co_await mend_transcript(parts, agent, need.file, transcripts::TornLine::move_aside));
      std::optional<std::int64_t> started;
      std::shared_ptr<const context::Meter> meter;
      const std::int64_t doom_count = parts.env.rules.context.doom_count;
      CO_TRY(const auto tail,
             co_await parts.readers.read(
                 agent, need.file, [&](transcripts::Transcript& transcript) -> Result<transcripts::TranscriptTail> {
                   started = transcript.started();
                   TRY(meter, measured(transcript, doom_count, need.order, name));
                   return transcript.tail();
                 }));
      Agent& slot_now = parts.agents.find_or_add(agent);
      if (!slot_now.state || slot_now.state != state || slot_now.state->transcripts.forgotten(need.file) != forgotten ||
          slot_now.state->transcripts.find(need.file) != nullptr)
        co_return Result<void>{};  // the decision asks again if it still needs it
      decide::TranscriptEnd& end = slot_now.state->transcripts.find_or_add(need.file);
      end.size = tail.size;
      end.count = tail.count;
      end.has_header = tail.has_header;
      end.ends_in_newline = tail.ends_in_newline;
      end.last_id = tail.last_id;
      end.read_size = tail.size;
      end.started = started;
      end.meter = std::move(meter);
      co_return Result<void>{};
    }
    case decide::Need::What::meter: {
      using Counted = std::pair<std::uint64_t, std::shared_ptr<const context::Meter>>;
      const std::int64_t doom_count = parts.env.rules.context.doom_count;
      auto read = co_await parts.readers.read(agent, need.file,
                                              [&, doom_count](transcripts::Transcript& transcript) -> Result<Counted> {
                                                TRY(auto meter, measured(transcript, doom_count, need.order, name));
                                                return Counted{transcript.tail().count, std::move(meter)};
                                              });
      if (!read) co_return std::unexpected(std::move(read.error()));
      Agent& slot_now = parts.agents.find_or_add(agent);
      if (!slot_now.state || slot_now.state->transcripts.forgotten(need.file) != forgotten ||
          slot_now.state->transcripts.find(need.file) == nullptr)
        co_return Result<void>{};
      decide::TranscriptEnd& end = slot_now.state->transcripts.find_or_add(need.file);
      if (read->first == end.count)
        end.meter = std::move(read->second);  // else the file has grown, and the decision asks again
      co_return Result<void>{};
    }
    case decide::Need::What::entry_ids: {
      using CountedIds = std::pair<std::uint64_t, std::shared_ptr<transcripts::IdSet>>;
      auto read =
          co_await parts.readers.read(agent, need.file, [](transcripts::Transcript& transcript) -> Result<CountedIds> {
            TRY(auto ids, transcript.ids());
            return CountedIds{transcript.tail().count, std::make_shared<transcripts::IdSet>(std::move(ids))};
          });
      if (!read) co_return std::unexpected(std::move(read.error()));
      Agent& slot_now = parts.agents.find_or_add(agent);
      if (!slot_now.state || slot_now.state->transcripts.find(need.file) == nullptr) co_return Result<void>{};
      decide::TranscriptEnd& end = slot_now.state->transcripts.find_or_add(need.file);
      if (read->first == end.count)
        end.ids = std::move(read->second);  // else the file has grown, and the decision asks again
      co_return Result<void>{};
    }
    case decide::Need::What::history: {
      CO_TRY(lines[std::string(decide::history_name)], co_await parts.readers.read(agent, need.file, read_history));
      co_return Result<void>{};
    }
    case decide::Need::What::shown: {
      const std::string& id = need.ids.front();
      CO_TRY(lines[decide::shown_name(id)],
             co_await parts.readers.read(agent, need.file, [&need](transcripts::Transcript& from) {
               return transcripts::read_shown_line(from, need.name, need.ids.front());
             }));
      co_return Result<void>{};
    }
    case decide::Need::What::calls: {
      CO_TRY(const auto there, co_await parts.readers.read(agent, need.file, [&need](transcripts::Transcript& from) {
        return transcripts::find_calls(from, {need.ids.begin(), need.ids.end()});
      }));
      for (const std::string& id : need.ids) lines[decide::call_name(id)].line = there.contains(id) ? "call" : "";
      co_return Result<void>{};
    }
    case decide::Need::What::behind: {
      CO_TRY(lines[decide::behind_name(need.ids.front())],
             co_await parts.readers.read(agent, need.file, [&need](transcripts::Transcript& from) {
               return message_behind(from, need.ids.front());
             }));
      co_return Result<void>{};
    }
    case decide::Need::What::id_files:
    case decide::Need::What::kept:
    case decide::Need::What::counts:
    case decide::Need::What::sdk_session:
      break;  // fetched above
    case decide::Need::What::lines: {
      CO_TRY(auto found, co_await parts.readers.read(agent, need.file, [ids = need.ids](transcripts::Transcript& from) {
        return from.find(ids);
      }));
      for (const std::string& id : need.ids) lines[id] = std::move(found[id]);
      co_return Result<void>{};
    }
  }
  co_return Result<void>{};
}

}  // namespace sessiond::ledger
