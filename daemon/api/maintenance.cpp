// The routes of maintenance: they name or take what the limits of session.maintenance reach, and list or adopt
// transcripts that no session has.
#include <fmt/format.h>

#include <ranges>

#include "daemon/api/handler.hpp"
#include "daemon/maintenance/maintenance.hpp"
#include "daemon/maintenance/orphans.hpp"
#include "store/limits.hpp"

namespace sessiond::api {
namespace {

std::string to_json(const maintenance::Taken& taken) {
  json::ObjectWriter writer;
  writer.string("agent", taken.agent);
  writer.raw("key", taken.key.empty() ? "null" : json::quote(taken.key));
  writer.string("sessionId", taken.session_id);
  writer.string("reason", policy::name(taken.reason));
  writer.integer("lastInteractionAt", taken.time);
  writer.integer("bytes", static_cast<std::int64_t>(taken.bytes));
  if (!taken.file().empty()) writer.string("file", taken.file());
  return writer.text();
}

std::string to_json(const maintenance::Kept& kept) {
  return fmt::format(R"({{"agent":{},"key":{},"because":{}}})", json::quote(kept.agent), json::quote(kept.key),
                     json::quote(kept.because));
}

std::string to_json(const std::string& agent, const maintenance::Orphan& orphan) {
  json::ObjectWriter writer;
  writer.string("agent", agent);
  writer.string("key", decide::recovered_key(agent, orphan.session_id).value_or(""));
  writer.string("sessionId", orphan.session_id);
  writer.raw("files", json::array_of(orphan.files));
  writer.integer("writtenAt", orphan.written);
  writer.integer("bytes", static_cast<std::int64_t>(orphan.bytes));
  return writer.text();
}

HandlerResult maintain(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  const auto named = fields.string("agent", 64);
  policy::RetentionLimits limits = maintenance::limits_of(api.config.session);
  const bool dry_run = fields.boolean("dryRun").value_or(true);
  if (const auto keep = fields.integer("keep")) limits.max_entries = static_cast<std::uint64_t>(*keep);
  if (const auto age = fields.integer("olderThanMs")) limits.prune_after_ms = age;
  if (const auto most = fields.integer("maxDiskBytes")) limits.max_disk_bytes = static_cast<std::uint64_t>(*most);
  CO_TRY(fields.done());
  request.is_dry_run = dry_run;
  auto agents = co_await api.ledger.agent_ids();
  std::erase_if(agents, [&](const std::string& agent) {
    return !request.principal.sees_whole_agent(agent) || (named && store::normalize_agent_id(*named) != agent);
  });
  if (named && agents.empty()) co_return no_such_agent(*named);

  maintenance::Selected all;
  std::vector<std::pair<std::string, Problem>> failed;  // by agent
  for (const std::string& agent : agents) {
    const maintenance::Visit visit(api.ledger, agent);
    const decide::Protection protection{.preserve = api.config.session.maintenance.preserve,
                                        .streamed = co_await streamed_sessions(api),
                                        .main_key = api.ledger.rules().routing.main_key};
    auto selected = co_await maintenance::select(api.ledger, agent, limits, protection);
    Result<void> done;
    if (!selected)
      done = std::unexpected(std::move(selected.error()));
    else if (!dry_run)
      done = co_await maintenance::take(api.ledger, request.principal.id, selected->taken, protection);
    if (!done) failed.emplace_back(agent, std::move(done.error()));
    if (!selected) continue;
    std::ranges::move(selected->taken, std::back_inserter(all.taken));
    std::ranges::move(selected->kept, std::back_inserter(all.kept));
  }
  if (!failed.empty() && all.taken.empty()) co_return std::unexpected(std::move(failed.front().second));
  std::string body = fmt::format(R"({{"count":{},"data":[)", all.taken.size());
  for (const maintenance::Taken& taken : all.taken | std::views::take(limits::maintained))
    append_element(body, to_json(taken));
  body += "],\"kept\":[";
  for (const maintenance::Kept& kept : all.kept | std::views::take(limits::maintained))
    append_element(body, to_json(kept));
  body += "]";
  if (!failed.empty()) {
    body += ",\"failed\":[";
    for (const auto& [agent, problem] : failed)
      append_element(body,
                     fmt::format(R"({{"agent":{},"detail":{}}})", json::quote(agent), json::quote(problem.detail)));
    body += "]";
  }
  if (!dry_run && !named && request.principal.sees_everything() && api.blobs.active()) {
    const maintenance::Swept swept = co_await api.blobs.sweep();
    body += fmt::format(R"(,"blobs":{{"removed":{},"bytes":{}}})", swept.count, swept.bytes);
    if (!swept.skipped.empty())
      body.insert(body.size() - 1, fmt::format(R"(,"skipped":{})", json::quote(swept.skipped)));
  }
  co_return json_response(body + "}");
}

HandlerResult reindex(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "list or adopt transcripts without a session"));
  CO_TRY(auto fields, co_await body_fields(api, request));
  const auto named = fields.string("agent", 64);
  if (!named && !fields.has("agent")) fields.fault("agent", "is required");
  const bool adopts = fields.boolean("adopt").value_or(false);
  CO_TRY(fields.done());
  const auto agent = store::normalize_agent_id(named.value_or(""));
  if (!agent) co_return no_such_agent(named.value_or(""));
  CO_TRY(auto stock, co_await maintenance::take_stock(api.ledger, *agent, {}));
  maintenance::Adopted found{.orphans = std::move(stock.orphans)};
  if (adopts) {
    CO_TRY(found, co_await maintenance::adopt(api.ledger, request.principal.id, *agent, std::move(found.orphans)));
  }
  const std::vector<maintenance::Orphan>& orphans = found.orphans;
  std::string body = fmt::format(R"({{"count":{},"data":[)", orphans.size());
  for (const maintenance::Orphan& orphan : orphans | std::views::take(limits::maintained))
    append_element(body, to_json(*agent, orphan));
  body += "]";
  if (!found.failed.empty()) {
    body += ",\"failed\":[";
    for (const auto& [session_id, detail] : found.failed | std::views::take(limits::maintained))
      append_element(body,
                     fmt::format(R"({{"sessionId":{},"detail":{}}})", json::quote(session_id), json::quote(detail)));
    body += "]";
  }
  co_return json_response(body + "}");
}

}  // namespace

asio::awaitable<decide::Streamed> streamed_sessions(Api& api) {
  decide::Streamed out;
  for (const stream::StreamInfo& stream : co_await api.streams.list()) {
    auto agent = json::string_at(stream.filters, "agent");
    auto key = json::string_at(stream.filters, "key");
    if (agent && key) out.emplace(std::move(*agent), std::move(*key));
  }
  co_return out;
}

void add_maintenance_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("POST", "/v1/admin/maintenance", auth::Permission::maintenance, maintain);
  on("POST", "/v1/admin/reindex", auth::Permission::tokens, reindex);
}

}  // namespace sessiond::api
