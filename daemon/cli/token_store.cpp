#include "daemon/cli/token_store.hpp"

#include <fmt/format.h>
#include "daemon/cli/client.hpp"
#include "daemon/serve/settings.hpp"
#include "daemon/serve/state_lock.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::cli {

TokenStore::TokenStore(const config::Config& config)
    : config_(config), state_dir_(config.state_dir), socket_(serve::socket_of(config)) {}

// Asks the daemon. Returns nothing when no daemon runs.
Result<std::optional<std::string>> TokenStore::ask(std::string_view method, std::string_view target,
                                                   std::string_view body) {
  auto reply = call_daemon(socket_, method, target, body);
  if (!reply && reply.error().nobody_there) {
    no_answer_ = std::move(reply.error().detail);
    return std::nullopt;
  }
  if (!reply) return fail(Code::degraded, std::move(reply.error().detail));
  if (reply->status / 100 != 2) return std::unexpected(problem_of(*reply));
  return std::optional(std::move(reply->body));
}

template <class Work>
auto TokenStore::offline(std::string_view command, Work work) -> decltype(work(std::declval<auth::Tokens&>())) {
  TRY(serve::require_state_dir(config_));
  TRY(serve::check_user(state_dir_));
  const auto lock = serve::StateLock::acquire(state_dir_, command);
  if (!lock) {
    Problem problem = lock.error();
    if (problem.code == Code::degraded)
      problem.detail +=
          fmt::format(", and it could not be asked ({}): wait until it has started, or stop it", no_answer_);
    return std::unexpected(std::move(problem));
  }
  TRY(auto tokens, auth::Tokens::load(state_dir_ / "tokens.json"));
  return work(*tokens);
}

namespace {

Result<std::string> token_in(std::string_view body) {
  auto token = json::check(body) ? json::string_at(body, "token") : std::nullopt;
  if (!token) return fail(Code::degraded, "the daemon's answer holds no token");
  return std::move(*token);
}

// Checks an id, which becomes part of a path.
Result<void> check_id(const std::string& id) {
  if (auth::valid_token_id(id)) return {};
  return fail(Code::not_found, fmt::format("there is no token {}", json::quote(id)));
}

}  // namespace

Result<std::string> TokenStore::create(const auth::NewToken& wish, std::int64_t now) {
  TRY(const auto body, ask("POST", "/v1/admin/tokens", to_json(wish)));
  if (body) return token_in(*body);
  return offline("token create", [&](auth::Tokens& tokens) -> Result<std::string> {
    TRY(auto created, tokens.create(wish, now));
    TRY(tokens.save());
    return std::move(created.token);
  });
}

// Reads without the lock: the file is always replaced as a whole.
Result<std::vector<auth::TokenInfo>> TokenStore::list() {
  TRY(const auto body, ask("GET", "/v1/admin/tokens", ""));
  if (body) return parse_token_list(*body);
  TRY(serve::require_state_dir(config_));
  TRY(auto tokens, auth::Tokens::load(state_dir_ / "tokens.json"));
  return tokens->list();
}

Result<std::string> TokenStore::rotate(const std::string& id, std::int64_t overlap_ms, std::int64_t now) {
  TRY(check_id(id));
  TRY(const auto body,
      ask("POST", fmt::format("/v1/admin/tokens/{}/rotate", id), fmt::format(R"({{"overlapMs":{}}})", overlap_ms)));
  if (body) return token_in(*body);
  return offline("token rotate", [&](auth::Tokens& tokens) -> Result<std::string> {
    TRY(auto rotated, tokens.rotate(id, overlap_ms, now));
    TRY(tokens.save());
    return std::move(rotated.made.token);
  });
}

Result<void> TokenStore::revoke(const std::string& id) {
  TRY(check_id(id));
  TRY(const auto body, ask("DELETE", "/v1/admin/tokens/" + id, ""));
  if (body) return {};
  return offline("token revoke", [&](auth::Tokens& tokens) -> Result<void> {
    TRY(tokens.revoke(id));
    return tokens.save();
  });
}

std::string to_json(const auth::NewToken& wish) {
  json::ObjectWriter out;
  out.string("role", wish.role);
  if (!wish.agents.empty()) out.raw("agents", json::array_of(wish.agents));
  if (!wish.key_prefix.empty()) out.string("keyPrefix", wish.key_prefix);
  if (!wish.channel.empty()) out.string("channel", wish.channel);
  if (!wish.key.empty()) out.string("key", wish.key);
  if (!wish.permissions.empty()) out.raw("permissions", json::array_of(wish.permissions));
  if (!wish.note.empty()) out.string("note", wish.note);
  if (wish.expires_at) out.integer("expiresAt", *wish.expires_at);
  return out.text();
}

Result<std::vector<auth::TokenInfo>> parse_token_list(std::string_view body) {
  const auto bad = [] { return fail(Code::degraded, "the daemon's answer is no list of tokens"); };
  if (!json::check(body) || json::kind(store::trim(body)) != json::Kind::object) return bad();
  const auto data = json::find(store::trim(body), "data");
  if (!data || json::kind(*data) != json::Kind::array) return bad();
  std::vector<auth::TokenInfo> tokens;
  for (const std::string_view item : json::elements(*data)) {
    const auto named =
        json::kind(item) == json::Kind::object ? auth::role(json::string_at(item, "role").value_or("")) : std::nullopt;
    if (!named) return bad();
    auth::TokenInfo info{.id = json::string_at(item, "id").value_or(""),
                         .role = *named,
                         .key_prefix = json::string_at(item, "keyPrefix").value_or(""),
                         .channel = json::string_at(item, "channel").value_or(""),
                         .key = json::string_at(item, "key").value_or(""),
                         .note = json::string_at(item, "note").value_or(""),
                         .created_at = json::int_at(item, "createdAt").value_or(0),
                         .expires_at = json::int_at(item, "expiresAt"),
                         .last_used_at = json::int_at(item, "lastUsed")};
    for (const std::string_view agent : json::elements(json::find(item, "agents").value_or("[]")))
      info.agents.push_back(json::as_string(agent).value_or(""));
    for (const std::string_view permission : json::elements(json::find(item, "permissions").value_or("[]")))
      info.permissions.push_back(json::as_string(permission).value_or(""));
    tokens.push_back(std::move(info));
  }
  return tokens;
}

}  // namespace sessiond::cli
