// Operating the daemon: who am I, tokens, locks, checkpoint, configuration, doctor (API §§7, 8).
#include <fmt/format.h>

#include "config/print.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/doctor/doctor.hpp"
#include "daemon/http/hop.hpp"
#include "store/lock.hpp"

namespace sessiond {
namespace {

using Served = asio::awaitable<Result<Response>>;

Served whoami(Api&, Request& request) {
  const Principal& who = request.principal;
  std::string body;
  json::ObjectWriter writer(body);
  writer.string("id", who.id);
  writer.string("role", name(who.role));
  writer.raw("agents", json_array(who.agents));
  writer.raw("keyPrefix", who.key_prefix.empty() ? "null" : json::quote(who.key_prefix));
  writer.raw("channel", who.channel.empty() ? "null" : json::quote(who.channel));
  writer.string("note", who.note);
  writer.close();
  co_return json_response(std::move(body));
}

Served list_tokens(Api& api, Request&) {
  std::string body = "{\"data\":[";
  for (const TokenInfo& info : api.tokens.list()) body.append(body.back() == '[' ? "" : ",").append(to_json(info));
  co_return json_response(body + "]}");
}

asio::awaitable<Result<void>> save_tokens(Api& api) {
  co_return co_await hop(api.ledger.disk().get_executor(), [&api] { return api.tokens.save(); });
}

Served create_token(Api& api, Request& request) {
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto wish = parse_new_token(*body, wall_now());
  if (!wish) co_return std::unexpected(std::move(wish.error()));
  auto created = api.tokens.create(*wish, wall_now());
  if (!created) co_return std::unexpected(std::move(created.error()));
  if (auto saved = co_await save_tokens(api); !saved) {
    if (auto gone = api.tokens.revoke(created->info.id); !gone) co_return std::unexpected(std::move(gone.error()));
    co_return std::unexpected(std::move(saved.error()));
  }
  const std::string data =
      fmt::format(R"({{"id":{},"role":"{}"}})", json::quote(created->info.id), name(created->info.role));
  if (auto told = co_await api.ledger.announce(EventType::token_created, data, request.principal.id); !told) {
    co_return std::unexpected(std::move(told.error()));
  }
  std::string out = to_json(created->info);
  out.pop_back();
  out += fmt::format(R"(,"token":{}}})", json::quote(created->token));
  Response response = json_response(std::move(out), 201);
  response.headers.emplace_back("Location", "/v1/admin/tokens/" + created->info.id);
  co_return response;
}

Served revoke_token(Api& api, Request& request) {
  const std::string id = request.params.at(0);
  if (auto gone = api.tokens.revoke(id); !gone) co_return std::unexpected(std::move(gone.error()));
  api.ledger.tail().wake();  // streams look at their tokens
  if (auto saved = co_await save_tokens(api); !saved) co_return std::unexpected(std::move(saved.error()));
  if (auto told = co_await api.ledger.announce(EventType::token_revoked, "{\"id\":" + json::quote(id) + "}",
                                               request.principal.id);
      !told) {
    co_return std::unexpected(std::move(told.error()));
  }
  Response response = json_response("", 204);
  response.content_type.clear();
  co_return response;
}

Served list_locks(Api& api, Request& request) {
  auto agents = co_await api.ledger.agent_ids();
  std::erase_if(agents, [&](const std::string& agent) { return !request.principal.sees_agent(agent); });
  co_return co_await hop(api.ledger.disk().get_executor(), [&paths = api.ledger.paths(), agents]() -> Result<Response> {
    std::string body = "{\"data\":[";
    for (const std::string& agent : agents) {
      const auto holder = lock_holder(paths.store_file(agent));
      std::string one;
      json::ObjectWriter writer(one);
      writer.string("agent", agent);
      writer.string("path", paths.store_file(agent).string() + ".lock");
      writer.boolean("held", holder.has_value());
      if (holder) {
        writer.raw("holder",
                   json::check(holder->payload) ? json::compact(holder->payload) : json::quote(holder->payload));
        writer.integer("pid", holder->pid);
        writer.integer("ageMs", holder->age_ms);
        writer.boolean("stale", holder->stale);
      }
      writer.close();
      body.append(body.back() == '[' ? "" : ",").append(one);
    }
    return json_response(body + "]}");
  });
}

Served evict(Api& api, Request& request) {
  auto agent = agent_param(request);
  if (!agent) co_return std::unexpected(std::move(agent.error()));
  auto evicted = co_await hop(api.ledger.disk().get_executor(),
                              [path = api.ledger.paths().store_file(*agent), who = request.principal.id] {
                                return evict_lock(path, "asked for by " + who);
                              });
  if (!evicted) co_return std::unexpected(std::move(evicted.error()));
  if (!*evicted) co_return json_response(R"({"evicted":false})");
  const Eviction& eviction = **evicted;
  const std::string holder =
      json::check(eviction.holder) ? json::compact(eviction.holder) : json::quote(eviction.holder);
  const std::string data = fmt::format(R"({{"path":{},"reason":{},"holder":{}}})", json::quote(eviction.path),
                                       json::quote(eviction.reason), holder);
  if (auto told = co_await api.ledger.announce(EventType::lock_evicted, data, request.principal.id, *agent); !told) {
    co_return std::unexpected(std::move(told.error()));
  }
  co_return json_response(fmt::format(R"({{"evicted":true,"holder":{}}})", holder));
}

Served checkpoint(Api& api, Request&) {
  if (auto done = co_await api.ledger.checkpoint_all(); !done) co_return std::unexpected(std::move(done.error()));
  co_return json_response(fmt::format(R"({{"asOf":"{}"}})", api.ledger.as_of(0)));
}

Served configuration(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may read the configuration");
  co_return json_response(to_json(api.config));
}

Served doctor(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may run the doctor");
  auto report = co_await hop(api.ledger.disk().get_executor(), [&api] {
    return run_doctor({.state_dir = api.config.state_dir, .path_template = api.config.store.path_template});
  });
  co_return json_response(to_json(report));
}

}  // namespace

void add_admin_routes(Router& router, Api& api) {
  const auto on = [&](const char* method, const char* pattern, Permission permission, Served (*call)(Api&, Request&)) {
    router.add(method, pattern, permission, answering([&api, call](Request& request) { return call(api, request); }));
  };
  on("GET", "/v1/whoami", Permission::self, whoami);
  on("GET", "/v1/admin/tokens", Permission::tokens, list_tokens);
  on("POST", "/v1/admin/tokens", Permission::tokens, create_token);
  on("DELETE", "/v1/admin/tokens/{id}", Permission::tokens, revoke_token);
  on("GET", "/v1/admin/locks", Permission::maintenance, list_locks);
  on("POST", "/v1/admin/locks/{agent}/evict", Permission::maintenance, evict);
  on("POST", "/v1/admin/checkpoint", Permission::maintenance, checkpoint);
  on("GET", "/v1/admin/config", Permission::maintenance, configuration);
  on("POST", "/v1/admin/doctor", Permission::maintenance, doctor);
}

}  // namespace sessiond
