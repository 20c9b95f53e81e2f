// Operating the daemon: whoami, tokens, checkpoint, backup, configuration, doctor, streams, audit log.
#include <fmt/format.h>

#include <algorithm>

#include "config/print.hpp"
#include "daemon/api/audit.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/secrets.hpp"
#include "daemon/backup/pack.hpp"
#include "daemon/doctor/doctor.hpp"
#include "daemon/runtime/log.hpp"
#include "store/number.hpp"

namespace sessiond::api {
namespace {

constexpr std::int64_t most_audit_lines = 1000;

HandlerResult whoami(Api& api, http::Request& request) {
  const auth::Principal& who = request.principal;
  json::ObjectWriter writer;
  writer.string("id", who.id);
  writer.string("role", auth::name(who.role));
  writer.raw("agents", json::array_of(who.agents));
  writer.raw("keyPrefix", who.key_prefix.empty() ? "null" : json::quote(who.key_prefix));
  writer.raw("channel", who.channel.empty() ? "null" : json::quote(who.channel));
  if (!who.key.empty()) writer.string("key", who.key);
  writer.raw("permissions", json::array_of(who.permissions));
  writer.string("note", who.note);
  if (const std::string csrf = api.authenticator.csrf_of(request); !csrf.empty()) writer.string("csrf", csrf);
  co_return json_response(writer.text());
}

HandlerResult list_tokens(Api& api, http::Request&) {
  std::string body = "{\"data\":[";
  for (const auth::TokenInfo& info : api.tokens.list()) append_element(body, auth::to_json(info));
  co_return json_response(body + "]}");
}

auto save_tokens(Api& api) {
  return on_disk(api, [&api] { return api.tokens.save(); });
}

auto announce_created(Api& api, const auth::TokenInfo& info, const http::Request& request) {
  std::string data = fmt::format(R"({{"id":{},"role":"{}"}})", json::quote(info.id), auth::name(info.role));
  return api.ledger.announce(journal::EventType::token_created, std::move(data), request.principal.id);
}

auto announce_revoked(Api& api, const std::string& id, const http::Request& request) {
  std::string data = fmt::format(R"({{"id":{}}})", json::quote(id));
  return api.ledger.announce(journal::EventType::token_revoked, std::move(data), request.principal.id);
}

// The reply that contains a new token's text. No other reply does.
http::Response created_response(const auth::CreatedToken& created, std::string_view more = {}) {
  std::string out = auth::to_json(created.info);
  out.pop_back();
  out += fmt::format(R"(,"token":{}{}}})", json::quote(created.token), more);
  http::Response response = json_response(std::move(out), 201);
  response.headers.emplace_back("Location", "/v1/admin/tokens/" + created.info.id);
  return response;
}

HandlerResult create_token(Api& api, http::Request& request) {
  CO_TRY(auto wish, co_await off_the_loop(api, request, [&](const Limits& limits) -> Result<auth::NewToken> {
           TRY(const auto body, body_of(request, limits));
           return auth::parse_new_token(body, store::unix_ms());
         }));
  CO_TRY(co_await check_secrets(api, request, "", store::trim(request.body)));  // in the token's note
  CO_TRY(auto created, api.tokens.create(wish, store::unix_ms()));
  if (auto saved = co_await save_tokens(api); !saved) {
    CO_TRY(api.tokens.revoke(created.info.id));
    co_return std::unexpected(std::move(saved.error()));
  }
  CO_TRY(co_await announce_created(api, created.info, request));
  co_return created_response(created);
}

HandlerResult rotate_token(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  const std::int64_t overlap = fields.integer("overlapMs").value_or(auth::default_overlap_ms);
  if (overlap > auth::max_overlap_ms)
    fields.fault("overlapMs", fmt::format("must be at most {} (7 days)", auth::max_overlap_ms));
  CO_TRY(fields.done());
  CO_TRY(auto rotated, api.tokens.rotate(request.params.at(0), overlap, store::unix_ms()));
  if (auto saved = co_await save_tokens(api); !saved) {
    api.tokens.undo(rotated);
    co_return std::unexpected(std::move(saved.error()));
  }
  api.streams.check_tokens();
  CO_TRY(co_await announce_created(api, rotated.made.info, request));
  if (rotated.revoked) {
    CO_TRY(co_await announce_revoked(api, rotated.before.id, request));
  }
  co_return created_response(rotated.made, fmt::format(R"(,"replaces":{{"id":{},"expiresAt":{}}})",
                                                       json::quote(rotated.before.id), rotated.ends_at));
}

HandlerResult revoke_token(Api& api, http::Request& request) {
  const std::string id = request.params.at(0);
  CO_TRY(api.tokens.revoke(id));
  api.streams.check_tokens();
  CO_TRY(co_await save_tokens(api));
  co_await api.work.outbox.forget_token(id);
  CO_TRY(co_await announce_revoked(api, id, request));
  co_return no_content();
}

HandlerResult checkpoint(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "make a checkpoint of all agents"));
  CO_TRY(co_await api.ledger.checkpointer().write_all());
  co_return json_response(fmt::format(R"({{"asOf":"{}"}})", api.ledger.as_of(0)));
}

HandlerResult configuration(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "read the configuration"));
  co_return json_response(config::to_json(api.config));
}

HandlerResult doctor(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "run the doctor"));
  auto report = co_await on_disk(api, [&api] {
    return doctor::run_doctor({.state_dir = api.config.state_dir,
                               .path_template = api.config.store.path_template,
                               .damage_after = std::chrono::milliseconds(api.config.store.damage_after_ms)});
  });
  for (const std::string& repair : ledger::status_of(api.ledger.parts()).repairs) report.ok("repaired", "", repair);
  co_return json_response(doctor::to_json(report));
}

// Sends the archive. Returns false when the client is gone or too slow, the daemon drains, or a file could not be read:
// the archive then ends without its manifest, so that its reader knows that it is incomplete.
asio::awaitable<bool> send_archive(const Api& api, std::shared_ptr<backup::Packer> packer, std::string request_id,
                                   http::StreamWriter& writer) {
  for (;;) {
    const auto bytes = co_await on_disk(api, [packer] { return packer->next(); });
    if (!bytes) {
      log::error("backup_failed", {{"requestId", request_id}, {"error", bytes.error().detail}});
      co_return false;
    }
    if (bytes->empty()) co_return true;
    if (api.draining || !co_await writer.write({*bytes})) co_return false;
  }
}

HandlerResult backup(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "make a backup"));
  CO_TRY(auto cut, co_await api.ledger.checkpointer().take_snapshot());
  const std::string as_of = cut->as_of;
  // Whichever owner releases the packer last, its links are removed on a disk thread.
  const std::shared_ptr<backup::Packer> packer(
      new backup::Packer(std::move(*cut), api.ledger.parts().env.paths.template_in_backup(), store::unix_ms()),
      [disk = api.ledger.parts().env.disk.get_executor()](backup::Packer* last) {
        asio::post(disk, [owned = std::unique_ptr<backup::Packer>(last)] {});
      });
  log::info("backup_begun", {{"requestId", request.request_id}, {"asOf", as_of}});
  http::Response response;
  response.content_type = "application/x-tar";
  response.headers.emplace_back("Content-Disposition", "attachment; filename=\"sessiond-" + as_of + ".tar\"");
  response.stream = [&api, packer, as_of,
                     id = request.request_id](http::StreamWriter& writer) -> asio::awaitable<void> {
    const bool whole = co_await send_archive(api, packer, id, writer);
    if (whole) {
      log::info("backup_sent", {{"requestId", id}, {"asOf", as_of}});
    } else {
      log::warn("backup_broken_off",
                {{"requestId", id}, {"next", "request the backup again; what was sent is not a backup"}});
    }
  };
  co_return response;
}

std::string to_json(const stream::StreamInfo& stream, const std::string& epoch) {
  json::ObjectWriter writer;
  writer.integer("id", static_cast<std::int64_t>(stream.id));
  writer.string("token", stream.token);
  writer.string("peer", stream.peer);
  writer.string("requestId", stream.request_id);
  writer.raw("filters", stream.filters);
  writer.string("state", stream.state);
  writer.string("position", fmt::format("{}-{}", epoch, stream.position));
  writer.raw("lag", fmt::format(R"({{"events":{},"bytes":{}}})", stream.lag_events, stream.lag_bytes));
  writer.integer("sentBytes", static_cast<std::int64_t>(stream.sent_bytes));
  writer.integer("openMs", stream.open_ms);
  if (stream.waits_ms > 0) writer.integer("waitsMs", stream.waits_ms);
  return writer.text();
}

HandlerResult list_streams(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "list the streams"));
  auto streams = co_await api.streams.list();
  std::ranges::sort(streams, {}, &stream::StreamInfo::id);
  std::string body = "{\"data\":[";
  for (const stream::StreamInfo& stream : streams) {
    append_element(body, to_json(stream, api.ledger.parts().commits.journal().epoch()));
  }
  co_return json_response(body + "]}");
}

HandlerResult close_stream(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "close streams"));
  const std::string& text = request.params.at(0);
  const auto id = store::parse_number<std::uint64_t>(text);
  if (!id || !co_await api.streams.close(*id)) co_return fail(Code::not_found, "there is no stream " + text);
  co_return no_content();
}

HandlerResult get_audit(Api& api, http::Request& request) {
  CO_TRY(require_full_scope(request, "read the audit log"));
  CO_TRY(const auto limit, query_int(request, "limit", 1, most_audit_lines));
  CO_TRY(auto lines, co_await api.audit.newest(static_cast<std::size_t>(limit.value_or(100))));
  co_return json_response(fmt::format(R"({{"data":[{}]}})", fmt::join(lines, ",")));
}

}  // namespace

void add_admin_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/whoami", auth::Permission::self, whoami);
  on("GET", "/v1/admin/tokens", auth::Permission::tokens, list_tokens);
  on("POST", "/v1/admin/tokens", auth::Permission::tokens, create_token);
  on("DELETE", "/v1/admin/tokens/{id}", auth::Permission::tokens, revoke_token);
  on("POST", "/v1/admin/tokens/{id}/rotate", auth::Permission::tokens, rotate_token);
  on("POST", "/v1/admin/checkpoint", auth::Permission::maintenance, checkpoint);
  on("POST", "/v1/admin/backup", auth::Permission::tokens, backup);  // tokens.json is in it
  on("GET", "/v1/admin/streams", auth::Permission::maintenance, list_streams);
  on("DELETE", "/v1/admin/streams/{id}", auth::Permission::maintenance, close_stream);
  on("GET", "/v1/admin/config", auth::Permission::maintenance, configuration);
  on("POST", "/v1/admin/doctor", auth::Permission::maintenance, doctor);
  on("GET", "/v1/admin/audit", auth::Permission::maintenance, get_audit, {"limit"});
}

}  // namespace sessiond::api
