// A person speaks in place of the agent, and hands back (policy/runs/README.md, Takeover).
#include <fmt/format.h>

#include "daemon/api/bridge_fields.hpp"
#include "daemon/decide/takeover_commands.hpp"

namespace sessiond::api {
namespace {

constexpr std::int64_t least_ms = 60'000;
constexpr std::int64_t most_ms = 7LL * 24 * 3'600'000;
constexpr std::size_t most_handback_note = 4 << 10;

HandlerResult take_over(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  decide::TakeOver command{.target = path.target, .name = person_name(fields)};
  command.for_ms = fields.integer("forMs").value_or(0);
  if (fields.has("forMs") && (command.for_ms < least_ms || command.for_ms > most_ms))
    fields.fault("forMs", fmt::format("must be {} to {}", least_ms, most_ms));
  command.stop = fields.boolean("stop").value_or(false);
  command.force = fields.boolean("force").value_or(false);
  CO_TRY(fields.done());
  request.person = command.name;
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

HandlerResult hand_back(Api& api, http::Request& request) {
  using Answered = decide::HandBack::Answered;
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  decide::HandBack command{.target = path.target};
  const std::string answered = fields.one_of("answered", {"seen", "all", "none"}).value_or("seen");
  command.answered = answered == "all" ? Answered::all : answered == "none" ? Answered::none : Answered::seen;
  command.note = fields.string("note", most_handback_note).value_or("");
  command.force = fields.boolean("force").value_or(false);
  command.dry_run = fields.boolean("dryRun").value_or(false);
  CO_TRY(fields.done());
  request.is_dry_run = command.dry_run;
  co_return co_await commit(api, request, path.agent, std::move(command), co_await requester_of(api, request));
}

}  // namespace

void add_takeover_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string session = "/v1/agents/{agent}/sessions/{key}";
  on("POST", session + "/takeover", auth::Permission::takeover, words(take_over));
  on("POST", session + "/handback", auth::Permission::takeover, words(hand_back));
}

}  // namespace sessiond::api
