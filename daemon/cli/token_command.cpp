#include "daemon/cli/token_command.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>

#include "daemon/cli/token_store.hpp"
#include "store/clock.hpp"

namespace sessiond::cli {
namespace {

int token_failed(const Problem& problem) {
  fmt::print(stderr, "sessiond token: {}\n", problem.detail);
  return 1;
}

std::optional<TokenStore> open_store(const Where& where) {
  const auto settings = load_settings(where);
  return settings ? std::optional<TokenStore>(settings->config) : std::nullopt;
}

std::string day_of(std::optional<std::int64_t> ms) {
  if (!ms) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M}Z", fmt::gmtime(static_cast<std::time_t>(*ms / 1000)));
}

std::string limits_of(const auth::TokenInfo& info) {
  std::string text = info.agents.empty() ? "all agents" : fmt::format("{}", fmt::join(info.agents, ","));
  if (!info.key_prefix.empty()) text += fmt::format(" keys {}*", info.key_prefix);
  if (!info.channel.empty()) text += fmt::format(" channel {}", info.channel);
  if (!info.key.empty()) text += fmt::format(" session {}", info.key);
  if (!info.permissions.empty()) text += fmt::format(" may {}", fmt::join(info.permissions, ", "));
  return text;
}

int print_token(TokenStore& store, const std::string& token) {
  fmt::print("{}\n", token);
  if (std::fflush(stdout) == 0) return 0;
  // The token could not be shown, so it must not stay valid.
  const std::string id = token.substr(3, auth::token_id_size);
  const auto revoked = store.revoke(id);
  fmt::print(stderr, "sessiond token: the token could not be printed; {}\n",
             revoked ? "it is revoked" : fmt::format("revoke {} ({})", id, revoked.error().detail));
  return 1;
}

}  // namespace

std::optional<serve::Settings> load_settings(const Where& where) {
  auto settings = serve::load_settings(where.config, where.state_dir);
  if (settings) return std::move(*settings);
  fmt::print(stderr, "{}", serve::to_text(settings.error()));
  return std::nullopt;
}

int run(const TokenCreate& command) {
  // Checks the options first, so that their faults read the same whether a daemon runs or not.
  if (const auto checked = auth::check_new_token(command.wish, store::unix_ms()); !checked) {
    for (const Fault& fault : checked.error().errors)
      fmt::print(stderr, "sessiond token create: {} {}\n", fault.pointer.substr(1), fault.detail);
    return 1;
  }
  auto store = open_store(command.where);
  if (!store) return 1;
  const auto token = store->create(command.wish, store::unix_ms());
  if (!token) return token_failed(token.error());
  return print_token(*store, *token);
}

int run(const TokenList& command) {
  auto store = open_store(command.where);
  if (!store) return 1;
  const auto tokens = store->list();
  if (!tokens) return token_failed(tokens.error());
  if (command.json) {
    std::string list;
    for (const auth::TokenInfo& info : *tokens) list += (list.empty() ? "" : ",") + auth::to_json(info);
    fmt::print("{{\"data\":[{}]}}\n", list);
    return 0;
  }
  if (tokens->empty()) {
    fmt::print(stderr, "no tokens; the first admin token is made when the daemon starts\n");
    return 0;
  }
  fmt::print("{:<9} {:<9} {:<18} {:<18} {:<18} {}\n", "ID", "ROLE", "CREATED", "EXPIRES", "LAST USED", "LIMITS, NOTE");
  for (const auth::TokenInfo& info : *tokens)
    fmt::print("{:<9} {:<9} {:<18} {:<18} {:<18} {}{}{}\n", info.id, auth::name(info.role), day_of(info.created_at),
               day_of(info.expires_at), day_of(info.last_used_at), limits_of(info), info.note.empty() ? "" : "; ",
               info.note);
  return 0;
}

int run(const TokenRotate& command) {
  auto store = open_store(command.where);
  if (!store) return 1;
  const std::int64_t now = store::unix_ms();
  const auto token = store->rotate(command.id, command.overlap_ms, now);
  if (!token) return token_failed(token.error());
  const int printed = print_token(*store, *token);
  if (printed == 0 && command.overlap_ms == 0) fmt::print(stderr, "revoked {}\n", command.id);
  if (printed == 0 && command.overlap_ms > 0)
    fmt::print(stderr, "{} ends at {} at the latest\n", command.id, day_of(now + command.overlap_ms));
  return printed;
}

int run(const TokenRevoke& command) {
  auto store = open_store(command.where);
  if (!store) return 1;
  if (const auto revoked = store->revoke(command.id); !revoked) return token_failed(revoked.error());
  fmt::print(stderr, "revoked {}\n", command.id);
  return 0;
}

}  // namespace sessiond::cli
