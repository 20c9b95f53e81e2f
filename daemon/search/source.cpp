#include "daemon/search/source.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <future>

#include "daemon/ledger/show.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "store/limits.hpp"
#include "store/try.hpp"
#include "transcripts/conversation.hpp"

namespace sessiond::search {
namespace {

KnownSession known(const decide::AgentState& state, const decide::Session& session, std::uint64_t as_of) {
  KnownSession out{.key = session.key(),
                   .session_id = session.session_id,
                   .channel = session.channel,
                   .name = session.name,
                   .label = session.label,
                   .created_at = session.created_at,
                   .archived = session.archived_at.has_value(),
                   .as_of = as_of};
  const std::string own = decide::AgentState::file_of(session, {});
  out.files.emplace_back("", own);
  if (const auto* topics = state.transcripts.topics(session.session_id)) {
    for (const std::string& topic : *topics) {
      std::string file = decide::AgentState::file_of(session, topic);
      if (file != own && !topic.starts_with("stream:") && state.may_use(session, file))
        out.files.emplace_back(topic, std::move(file));
    }
  }
  return out;
}

}  // namespace

Result<void> Source::check_goes_on() const {
  if (stop_) return fail(Code::draining, "the daemon is shutting down");
  return {};
}

template <class T>
Result<T> Source::ask(asio::awaitable<Result<T>> call) {
  TRY(check_goes_on());  // also where each answer comes at once
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  auto answer = promise->get_future();
  const auto run = [](asio::awaitable<Result<T>> asked, std::shared_ptr<std::promise<Result<T>>> to,
                      std::atomic<int>& open) -> asio::awaitable<void> {
    to->set_value(co_await std::move(asked));
    --open;
  };
  ++open_;
  asio::co_spawn(ledger_.parts().env.io, run(std::move(call), promise, open_), asio::detached);
  while (answer.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) TRY(check_goes_on());
  return answer.get();
}

Result<std::vector<std::string>> Source::agents() {
  const auto list = [](ledger::Ledger& ledger) -> asio::awaitable<Result<std::vector<std::string>>> {
    co_return co_await ledger.agent_ids();
  };
  return ask(list(ledger_));
}

Result<std::vector<KnownSession>> Source::sessions(std::string agent, std::string after) {
  const auto collect = [after = std::move(after), as_of = journal().head()](
                           const decide::AgentState& state, ledger::Seen&) -> Result<std::vector<KnownSession>> {
    std::vector<KnownSession> all;
    const auto& sessions = state.by_name();
    auto at = after.empty() ? sessions.begin() : sessions.upper_bound(after);
    for (; all.size() < limits::slice_sessions && at != sessions.end(); ++at)
      all.push_back(known(state, *at->second, as_of));
    return all;
  };
  return ask<std::vector<KnownSession>>(ledger_.show(std::move(agent), false, collect));
}

Result<std::optional<KnownSession>> Source::session(std::string agent, std::string key) {
  const auto find = [key = std::move(key), as_of = journal().head()](
                        const decide::AgentState& state, ledger::Seen&) -> Result<std::optional<KnownSession>> {
    const auto found = state.by_name().find(key);
    if (found == state.by_name().end()) return std::nullopt;
    return known(state, *found->second, as_of);
  };
  return ask<std::optional<KnownSession>>(ledger_.show(std::move(agent), false, find));
}

Result<std::vector<KnownArchive>> Source::archives(std::string agent) {
  const auto collect = [](const decide::AgentState& state, ledger::Seen&) -> Result<std::vector<KnownArchive>> {
    std::vector<KnownArchive> all;
    for (const auto& [order, record] : state.archives.all()) {
      if (record.purged) continue;
      for (const std::string& file : record.archived_as)
        all.push_back(
            {record.key, record.session_id, record.channel, decide::topic_of(record, file).value_or(""), file});
    }
    return all;
  };
  return ask<std::vector<KnownArchive>>(ledger_.show(std::move(agent), false, collect));
}

Result<Source::Lines> Source::lines(std::string agent, std::string file, std::string name, std::uint64_t from) {
  const auto read = [from, name = std::move(name)](transcripts::Transcript& transcript) -> Result<Lines> {
    transcripts::PageQuery query{.limit = 5'000};
    if (from > 0) query.after = from - 1;
    Lines out;
    TRY(out.page, transcript.page(query));
    TRY(const auto changes, transcripts::read_changes(transcript, name, out.page.lines));
    for (transcripts::StoredLine& line : out.page.lines)
      if (auto changed = transcripts::changed_line(line.line, line.seq, changes)) line.line = *std::move(changed);
    TRY(const std::string header, transcript.header());
    out.copied = transcripts::Origins::read(name, header).copied();
    return out;
  };
  const auto wait_and_read = [read, head = journal().head()](ledger::Ledger& ledger, std::string of,
                                                             std::string at) -> asio::awaitable<Result<Lines>> {
    // Until the event that told of the file is durable, the file may still be elsewhere.
    if (const auto durable = co_await ledger.wait_until_durable(head); !durable)
      co_return std::unexpected(durable.error());
    co_return co_await ledger.read_transcript(std::move(of), std::move(at), read);
  };
  return ask<Lines>(wait_and_read(ledger_, std::move(agent), std::move(file)));
}

}  // namespace sessiond::search
