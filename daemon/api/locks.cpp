// The locks that the daemon shares with foreign programs (store/lock/README.md): lists their holders, removes a lock at
// an operator's request, and lends the one of a sessions.json to a client. A client that has it may write every entry
// of the agent, so it needs a token that sees the whole agent and may operate (Permission::maintenance).
#include <fmt/format.h>

#include <algorithm>

#include "daemon/api/handler.hpp"
#include "store/lock/lock.hpp"

namespace sessiond::api {
namespace {

namespace fs = std::filesystem;
// The content of a foreign lock file: JSON as it is, anything else as a string.
std::string payload_json(const std::string& payload) {
  return json::check(payload) ? json::compact(payload) : json::quote(payload);
}

std::string holder_json(const lock::LockHolder& holder) {
  json::ObjectWriter writer;
  writer.raw("payload", payload_json(holder.payload));
  if (holder.pid > 0) writer.integer("pid", holder.pid);
  if (!holder.host.empty()) writer.string("host", holder.host);
  if (const auto created = json::check(holder.payload) ? json::string_at(holder.payload, "createdAt") : std::nullopt)
    writer.string("createdAt", *created);
  writer.integer("ageMs", holder.age_ms);
  writer.boolean("ours", holder.ours);
  writer.boolean("stale", holder.stale);
  if (holder.stale) writer.string("why", holder.why);
  return writer.text();
}

// A lock to be listed.
struct Listed {
  std::string agent;
  fs::path target{};
  int waiters = 0;                                  // requests
  std::optional<ledger::LentLocks::Lease> lease{};  // if it is lent
};

std::string lock_json(const Listed& listed) {
  const auto& [agent, target, waiters, lease] = listed;
  const lock::LockReport report = lock::lock_report(target);
  json::ObjectWriter writer;
  writer.string("agent", agent);
  writer.string("path", report.path);
  writer.boolean("held", report.holder.has_value());
  if (report.holder) writer.raw("holder", holder_json(*report.holder));
  if (lease)
    writer.raw("lent", fmt::format(R"({{"to":{},"expiresAt":{}}})", json::quote(lease->actor), lease->expires_at));
  if (report.wait) {
    writer.raw("waiting", fmt::format(R"({{"since":{},"attempts":{},"requests":{},"evictInMs":{}}})",
                                      report.wait->since_ms, report.wait->attempts, waiters, report.wait->evict_in_ms));
  }
  if (report.last_eviction) {
    const auto& [eviction, time] = *report.last_eviction;
    writer.raw("lastEviction", fmt::format(R"({{"time":{},"reason":{},"holder":{}}})", time,
                                           json::quote(eviction.reason), payload_json(eviction.holder)));
  }
  return writer.text();
}

// The transcripts in a folder that have a lock file.
std::vector<std::string> locked_transcripts(const fs::path& dir) {
  std::vector<std::string> files;
  store::each_in(dir, [&](const fs::directory_entry& entry) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(".jsonl.lock")) return;
    name.resize(name.size() - std::string_view(".lock").size());
    files.push_back(std::move(name));
  });
  std::ranges::sort(files);
  return files;
}

HandlerResult list_locks(Api& api, http::Request& request) {
  auto agents = co_await api.ledger.agent_ids();
  std::erase_if(agents, [&](const std::string& agent) { return !request.principal.sees_whole_agent(agent); });
  std::vector<Listed> stores;
  for (const std::string& agent : agents) {
    Listed& listed = stores.emplace_back(agent, api.ledger.parts().env.paths.store_file(agent));
    if (const auto* lease = api.ledger.parts().lent.find(agent)) listed.lease = *lease;
  }
  const auto report = [&api, stores = std::move(stores), shared = api.ledger.rules().shared,
                       waiters = api.ledger.parts().env.lock_waiters]() mutable -> Result<http::Response> {
    std::string body = "{\"data\":[";
    const auto add = [&](Listed listed) {
      const auto waiting = waiters.find(listed.target.native());
      if (waiting != waiters.end()) listed.waiters = waiting->second;
      append_element(body, lock_json(listed));
    };
    for (Listed& store : stores) {
      const std::string agent = store.agent;
      add(std::move(store));
      if (!shared) continue;
      const fs::path dir = sessions_folder(api, agent);
      for (const std::string& file : locked_transcripts(dir)) add({.agent = agent, .target = dir / file});
    }
    return json_response(body + "]}");
  };
  co_return co_await on_disk(api, report);
}

// The file whose lock the request names: sessions.json, or the agent's transcript ?transcript=<file>.
Result<fs::path> lock_target(const Api& api, const std::string& agent, const http::Request& request) {
  const auto transcript = query_text(request, "transcript");
  if (!transcript) return api.ledger.parts().env.paths.store_file(agent);
  if (!transcript->ends_with(".jsonl") || transcript->contains('/') || transcript->contains('\0'))
    return fail(Code::bad_request, "transcript must be the name of a .jsonl file in the agent's folder");
  return sessions_folder(api, agent) / *transcript;
}

HandlerResult evict(Api& api, http::Request& request) {
  CO_TRY(auto agent, agent_param(request));
  if (!request.principal.sees_whole_agent(agent))
    co_return fail(Code::forbidden, "a lock concerns all sessions of its agent; this token sees only some");
  CO_TRY(auto target, lock_target(api, agent, request));
  CO_TRY(auto evicted, co_await on_disk(api, [&]() -> Result<std::optional<lock::Eviction>> {
           std::error_code error;
           if (!fs::is_directory(target.parent_path(), error)) return no_such_agent(agent);
           return lock::evict_lock(target, "admin");
         }));
  if (!evicted) co_return fail(Code::not_found, "there is no lock at " + target.native() + ".lock");
  const lock::Eviction& eviction = *evicted;
  json::ObjectWriter writer;
  writer.string("path", eviction.path);
  writer.string("reason", eviction.reason);
  writer.raw("holder", payload_json(eviction.holder));
  std::string data = writer.text();
  CO_TRY(co_await api.ledger.announce(journal::EventType::lock_evicted, data, request.principal.id, agent));
  co_return json_response(std::move(data));
}

// The agent of the path; forbidden unless the token sees all of it.
Result<std::string> lending_agent(const http::Request& request) {
  TRY(auto agent, agent_param(request));
  if (request.principal.sees_whole_agent(agent)) return agent;
  return fail(Code::forbidden, "a lock concerns all sessions of its agent; this token sees only some");
}

std::int64_t time_of(Fields& fields, std::string_view name, std::int64_t least, std::optional<std::int64_t> otherwise) {
  constexpr std::int64_t most = 30'000;  // ms
  const auto given = fields.integer(name, least);
  if (given && *given > most) fields.fault(name, fmt::format("must be at most {}", most));
  if (!given && !otherwise && !fields.has(name)) fields.fault(name, "is missing");
  return given.value_or(otherwise.value_or(0));
}

http::Response lease_json(const ledger::LentLocks::Lease& lease, int status) {
  json::ObjectWriter writer;
  writer.string("id", lease.id);
  writer.string("path", lease.path);
  writer.integer("expiresAt", lease.expires_at);
  return json_response(writer.text(), status);
}

HandlerResult lend(Api& api, http::Request& request) {
  CO_TRY(auto agent, lending_agent(request));
  CO_TRY(auto fields, co_await body_fields(api, request));
  const std::int64_t ttl = time_of(fields, "ttlMs", 1, {});
  const std::int64_t wait = time_of(fields, "waitMs", 0, api.config.store.lock.timeout_ms);
  CO_TRY(fields.done());
  CO_TRY(const auto lease, co_await api.ledger.lent_locks().lend(agent, ttl, wait, request.principal.id));
  co_return lease_json(lease, 201);
}

HandlerResult renew(Api& api, http::Request& request) {
  CO_TRY(auto agent, lending_agent(request));
  CO_TRY(auto fields, co_await body_fields(api, request));
  const std::int64_t ttl = time_of(fields, "ttlMs", 1, {});
  CO_TRY(fields.done());
  CO_TRY(const auto lease, co_await api.ledger.lent_locks().renew(agent, request.params.at(1), ttl));
  co_return lease_json(lease, 200);
}

HandlerResult give_back(Api& api, http::Request& request) {
  CO_TRY(auto agent, lending_agent(request));
  CO_TRY(co_await api.ledger.lent_locks().give_back(agent, request.params.at(1)));
  co_return no_content();
}

}  // namespace

void add_lock_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/admin/locks", auth::Permission::maintenance, list_locks);
  on("POST", "/v1/admin/locks/{agent}/evict", auth::Permission::maintenance, evict, {"transcript"});
  const std::string locks = "/v1/agents/{agent}/locks";
  on("POST", locks, auth::Permission::maintenance, lend);
  on("POST", locks + "/{id}/renew", auth::Permission::maintenance, renew);
  on("DELETE", locks + "/{id}", auth::Permission::maintenance, give_back);
}

}  // namespace sessiond::api
