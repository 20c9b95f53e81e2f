#include "daemon/ledger/notices.hpp"

#include <algorithm>

#include "daemon/runtime/log.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"

namespace sessiond::ledger {

void Notices::announce(journal::EventType type, std::string data, std::string agent) {
  env_.background.run(
      [](Notices& self, journal::EventType event, std::string json, std::string of) -> asio::awaitable<void> {
        const auto told = co_await self.commits_.announce(event, std::move(json), "sessiond", std::move(of));
        if (!told && !self.env_.stopping) log::warn("event_not_stored", {{"error", told.error().detail}});
      }(*this, type, std::move(data), std::move(agent)),
      "announce");
}

void Notices::degraded(std::string_view reason, const std::string& agent, std::string_view what) {
  if (commits_.failed() || env_.stopping) return;
  std::string data;
  json::ObjectWriter writer(data);
  if (!what.empty()) writer.string("what", what);
  writer.string("reason", reason);
  writer.close();
  announce(journal::EventType::store_degraded, std::move(data), agent);
}

void Notices::journal_repaired(std::string what) {
  log::warn("journal_repaired", {{"what", what}});
  repairs_.push_back(std::move(what));
}

void Notices::repaired(const std::string& agent, const std::vector<std::string>& repairs, const std::string& path) {
  for (const std::string& what : repairs) {
    // A store that is not written again is repaired each time it is read.
    if (std::ranges::find(repairs_, agent + ": " + what) != repairs_.end()) continue;
    log::warn("store_repaired", {{"agent", agent}, {"what", what}});
    if (repairs_.size() >= limits::repairs_told) continue;  // only logged
    repairs_.push_back(agent + ": " + what);
    std::string data;
    json::ObjectWriter writer(data);
    writer.string("path", path.empty() ? env_.paths.store_file(agent).string() : path);
    writer.string("what", what);
    writer.boolean("kept", true);
    writer.close();
    announce(journal::EventType::store_repaired, std::move(data), agent);
  }
}

void Notices::released(const std::string& agent, const decide::Session& session, std::string lineage) {
  if (!env_.on_passing_events) return;
  env_.on_passing_events({{journal::make_event({.time = store::unix_ms(),
                                                .type = journal::EventType::session_released,
                                                .agent = agent,
                                                .key = session.key(),
                                                .session_id = session.session_id,
                                                .channel = session.channel,
                                                .channels = session.channels,
                                                .chat_type = session.chat_type,
                                                .lineage = std::move(lineage),
                                                .actor = "sessiond",
                                                .source = "api"},
                                               "{}")}});
}

void Notices::evicted(const std::string& agent, const std::vector<lock::Eviction>& evictions) {
  for (const lock::Eviction& eviction : evictions) {
    ++evictions_;
    log::warn("lock_evicted", {{"agent", agent}, {"path", eviction.path}, {"reason", eviction.reason}});
    std::string data;
    json::ObjectWriter writer(data);
    writer.string("path", eviction.path);
    writer.string("reason", eviction.reason);
    writer.raw("holder", json::check(eviction.holder) ? json::compact(eviction.holder) : json::quote(eviction.holder));
    writer.close();
    announce(journal::EventType::lock_evicted, std::move(data), agent);
  }
}

}  // namespace sessiond::ledger
