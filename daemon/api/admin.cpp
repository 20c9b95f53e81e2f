// Operating the daemon: who am I, tokens, checkpoint, backup, configuration, doctor, audit log (API §§7, 8).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "config/print.hpp"
#include "daemon/api/audit.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/api/secrets.hpp"
#include "daemon/backup/pack.hpp"
#include "daemon/doctor/doctor.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"
#include "store/clock.hpp"

namespace sessiond {
namespace {

constexpr std::int64_t most_audit_lines = 1000;

Served whoami(Api& api, Request& request) {
  const Principal& who = request.principal;
  std::string body;
  json::ObjectWriter writer(body);
  writer.string("id", who.id);
  writer.string("role", name(who.role));
  writer.raw("agents", json_array(who.agents));
  writer.raw("keyPrefix", who.key_prefix.empty() ? "null" : json::quote(who.key_prefix));
  writer.raw("channel", who.channel.empty() ? "null" : json::quote(who.channel));
  writer.string("note", who.note);
  if (const std::string csrf = api.door.csrf_of(request); !csrf.empty()) writer.string("csrf", csrf);
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

asio::awaitable<Result<void>> tell_created(Api& api, const TokenInfo& info, std::string actor) {
  const std::string data = fmt::format(R"({{"id":{},"role":"{}"}})", json::quote(info.id), name(info.role));
  auto told = co_await api.ledger.announce(EventType::token_created, data, std::move(actor));
  if (!told) co_return std::unexpected(std::move(told.error()));
  co_return Result<void>{};
}

asio::awaitable<Result<void>> tell_revoked(Api& api, const std::string& id, std::string actor) {
  auto told =
      co_await api.ledger.announce(EventType::token_revoked, "{\"id\":" + json::quote(id) + "}", std::move(actor));
  if (!told) co_return std::unexpected(std::move(told.error()));
  co_return Result<void>{};
}

// The one answer that holds a token's text.
Response created_response(const CreatedToken& created, std::string_view more = {}) {
  std::string out = to_json(created.info);
  out.pop_back();
  out += fmt::format(R"(,"token":{}{}}})", json::quote(created.token), more);
  Response response = json_response(std::move(out), 201);
  response.headers.emplace_back("Location", "/v1/admin/tokens/" + created.info.id);
  return response;
}

Served create_token(Api& api, Request& request) {
  auto body = json_body(request, api.config.limits.json_depth);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto wish = parse_new_token(*body, unix_ms());
  if (!wish) co_return std::unexpected(std::move(wish.error()));
  if (auto fine = check_secrets(api, request, "", *body); !fine)  // a note is no place for one either
    co_return std::unexpected(std::move(fine.error()));
  auto created = api.tokens.create(*wish, unix_ms());
  if (!created) co_return std::unexpected(std::move(created.error()));
  if (auto saved = co_await save_tokens(api); !saved) {
    if (auto gone = api.tokens.revoke(created->info.id); !gone) co_return std::unexpected(std::move(gone.error()));
    co_return std::unexpected(std::move(saved.error()));
  }
  if (auto told = co_await tell_created(api, created->info, request.principal.id); !told)
    co_return std::unexpected(std::move(told.error()));
  co_return created_response(*created);
}

Served rotate_token(Api& api, Request& request) {
  auto body = json_body(request, api.config.limits.json_depth, true);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  const std::int64_t overlap = fields->integer("overlapMs").value_or(default_overlap_ms);
  if (overlap > max_overlap_ms) fields->fault("overlapMs", fmt::format("must be at most {} (7 days)", max_overlap_ms));
  if (auto fine = fields->done(); !fine) co_return std::unexpected(std::move(fine.error()));
  auto rotated = api.tokens.rotate(request.params.at(0), overlap, unix_ms());
  if (!rotated) co_return std::unexpected(std::move(rotated.error()));
  if (auto saved = co_await save_tokens(api); !saved) {
    api.tokens.undo(*rotated);
    co_return std::unexpected(std::move(saved.error()));
  }
  api.streams.check_tokens();
  if (auto told = co_await tell_created(api, rotated->made.info, request.principal.id); !told)
    co_return std::unexpected(std::move(told.error()));
  if (rotated->revoked) {
    if (auto told = co_await tell_revoked(api, rotated->before.id, request.principal.id); !told)
      co_return std::unexpected(std::move(told.error()));
  }
  co_return created_response(rotated->made, fmt::format(R"(,"replaces":{{"id":{},"expiresAt":{}}})",
                                                        json::quote(rotated->before.id), rotated->ends_at));
}

Served revoke_token(Api& api, Request& request) {
  const std::string id = request.params.at(0);
  if (auto gone = api.tokens.revoke(id); !gone) co_return std::unexpected(std::move(gone.error()));
  api.streams.check_tokens();
  if (auto saved = co_await save_tokens(api); !saved) co_return std::unexpected(std::move(saved.error()));
  if (auto told = co_await tell_revoked(api, id, request.principal.id); !told)
    co_return std::unexpected(std::move(told.error()));
  co_return no_content();
}

Served checkpoint(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may make a checkpoint of all agents");
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
  for (const std::string& repair : api.ledger.status().repairs) report.ok("repaired", "", repair);
  co_return json_response(to_json(report));
}

// False: the client is gone or slow, the daemon drains, or a file could not be read. The archive then ends without its
// manifest, and whoever reads it knows.
asio::awaitable<bool> send_archive(const Api& api, std::shared_ptr<Packer> packer, std::string request_id,
                                   StreamWriter& writer) {
  for (;;) {
    const auto bytes = co_await hop(api.ledger.disk().get_executor(), [packer] { return packer->next(); });
    if (!bytes) {
      log::error("backup_failed", {{"requestId", request_id}, {"error", bytes.error().detail}});
      co_return false;
    }
    if (bytes->empty()) co_return true;
    if (api.draining || !co_await writer.write({*bytes})) co_return false;
  }
}

Served backup(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may make a backup");
  auto cut = co_await api.ledger.cut();
  if (!cut) co_return std::unexpected(std::move(cut.error()));
  const std::string as_of = (*cut)->as_of;
  // Whoever lets go of it last, its links are removed on a disk thread.
  const std::shared_ptr<Packer> packer(new Packer(std::move(**cut), api.config.store.path_template, unix_ms()),
                                       [disk = api.ledger.disk().get_executor()](Packer* last) {
                                         asio::post(disk, [owned = std::unique_ptr<Packer>(last)] {});
                                       });
  log::info("backup_begun", {{"requestId", request.request_id}, {"asOf", as_of}});
  Response response;
  response.content_type = "application/x-tar";
  response.headers.emplace_back("Content-Disposition", "attachment; filename=\"sessiond-" + as_of + ".tar\"");
  response.stream = [&api, packer, as_of, id = request.request_id](StreamWriter& writer) -> asio::awaitable<void> {
    const bool whole = co_await send_archive(api, packer, id, writer);
    if (whole) {
      log::info("backup_sent", {{"requestId", id}, {"asOf", as_of}});
    } else {
      log::warn("backup_broken_off", {{"requestId", id}, {"next", "ask again; what was sent is no backup"}});
    }
  };
  co_return response;
}

std::string to_json(const StreamInfo& stream, const std::string& epoch) {
  std::string out;
  json::ObjectWriter writer(out);
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
  writer.close();
  return out;
}

Served list_streams(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may list the streams");
  auto streams = co_await api.streams.list();
  std::ranges::sort(streams, {}, &StreamInfo::id);
  std::string body = "{\"data\":[";
  for (const StreamInfo& stream : streams) {
    if (body.back() != '[') body += ',';
    body += to_json(stream, api.ledger.epoch());
  }
  co_return json_response(body + "]}");
}

Served close_stream(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may close streams");
  const std::string& text = request.params.at(0);
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool number = error == std::errc() && end == text.data() + text.size();
  if (!number || !co_await api.streams.close(id)) co_return fail(Code::not_found, "there is no stream " + text);
  co_return no_content();
}

Served get_audit(Api& api, Request& request) {
  if (!request.principal.sees_everything())
    co_return fail(Code::forbidden, "only a token that sees everything may read the audit log");
  const auto limit = query_int(request, "limit", 1, most_audit_lines);
  if (!limit) co_return std::unexpected(limit.error());
  auto lines = co_await api.audit.newest(static_cast<std::size_t>(limit->value_or(100)));
  if (!lines) co_return std::unexpected(std::move(lines.error()));
  co_return json_response(fmt::format(R"({{"data":[{}]}})", fmt::join(*lines, ",")));
}

}  // namespace

void add_admin_routes(Router& router, Api& api) {
  const auto on = adding(router, api);
  on("GET", "/v1/whoami", Permission::self, whoami);
  on("GET", "/v1/admin/tokens", Permission::tokens, list_tokens);
  on("POST", "/v1/admin/tokens", Permission::tokens, create_token);
  on("DELETE", "/v1/admin/tokens/{id}", Permission::tokens, revoke_token);
  on("POST", "/v1/admin/tokens/{id}/rotate", Permission::tokens, rotate_token);
  on("POST", "/v1/admin/checkpoint", Permission::maintenance, checkpoint);
  on("POST", "/v1/admin/backup", Permission::tokens, backup);  // tokens.json is in it
  on("GET", "/v1/admin/streams", Permission::maintenance, list_streams);
  on("DELETE", "/v1/admin/streams/{id}", Permission::maintenance, close_stream);
  on("GET", "/v1/admin/config", Permission::maintenance, configuration);
  on("POST", "/v1/admin/doctor", Permission::maintenance, doctor);
  on("GET", "/v1/admin/audit", Permission::maintenance, get_audit, {"limit"});
}

}  // namespace sessiond
