// Deliveries: what bridges claim and say of them, and what operators see and do (daemon/leases/README.md).
#include <fmt/format.h>

#include <algorithm>

#include "daemon/api/cursor.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/decide/delivery_commands.hpp"

namespace sessiond::api {
namespace {

using decide::Delivery;

constexpr std::int64_t least_delivery_lease_ms = 1'000;
constexpr std::int64_t most_delivery_lease_ms = 600'000;
constexpr std::int64_t longest_claim_ms = 30'000;
constexpr std::int64_t longest_retry_ms = 24LL * 3'600'000;
constexpr std::int64_t most_claimed = 100;
constexpr std::size_t page_bytes = 1U << 20;  // a page ends when it has as many; it has one delivery at least

bool is_given(const Fields& fields, std::string_view name) {
  return json::find(fields.text(), name).value_or("null") != "null";
}

std::int64_t between(Fields& fields, const std::string& name, std::int64_t otherwise, std::int64_t least,
                     std::int64_t most) {
  const std::int64_t value = fields.integer(name).value_or(otherwise);
  if (value < least || value > most) fields.fault(name, fmt::format("must be {} to {}", least, most));
  return value;
}

decide::SeesDelivery seen_by(const auth::Principal& principal) {
  return [principal](const decide::AgentState& state, const Delivery& delivery) {
    return sees(principal, state, delivery.key, delivery.channel);
  };
}

std::unexpected<Problem> nothing_there() {
  return fail(Code::delivery_not_found, "this token has no deliveries there");
}

// The longer of two key prefixes, if it begins with the other one; nothing if no key has both.
std::optional<std::string> joined_prefixes(const std::string& of_token, const std::string& asked) {
  if (of_token.empty() || asked.empty()) return of_token + asked;
  if (store::key_has_prefix(asked, of_token)) return asked;
  if (store::key_has_prefix(of_token, asked)) return of_token;
  return {};
}

// The part of all deliveries that a claim names, within what its token sees. delivery_not_found if that is nothing.
Result<decide::Adoption> read_part(const auth::Principal& principal, Fields& fields) {
  decide::Adoption part{.token = principal.id, .agents = principal.agents};
  const std::string channel = store::lower(store::trim(fields.string("channel", 256).value_or("")));
  part.account_id = fields.string("accountId", 256);
  const auto named = fields.string("agent");
  const std::string prefix = fields.string("keyPrefix", 512).value_or("");
  const auto agent = named ? store::normalize_agent_id(*named) : std::nullopt;
  if (named && !agent) fields.fault("agent", "is not a valid agent id");
  TRY(fields.done());
  if (agent) {
    if (!principal.sees_agent(*agent)) return nothing_there();
    part.agents = {*agent};
  }
  if (!channel.empty() && !principal.channel.empty() && !store::equals_nocase(channel, principal.channel))
    return nothing_there();
  part.channel = channel.empty() ? store::lower(principal.channel) : channel;
  const auto joined = joined_prefixes(principal.key_prefix, prefix);
  if (!joined) return nothing_there();
  part.key_prefix = *joined;
  return part;
}

HandlerResult claim_deliveries(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  leases::Outbox::Wish wish{.sees = seen_by(request.principal), .actor = request.principal.id};
  wish.limit = static_cast<std::size_t>(between(fields, "limit", 10, 1, most_claimed));
  wish.wait_ms = between(fields, "waitMs", 0, 0, longest_claim_ms);
  wish.lease_ms = between(fields, "leaseMs", 60'000, least_delivery_lease_ms, most_delivery_lease_ms);
  wish.gone = has_gone(api, request);
  CO_TRY(wish.part, read_part(request.principal, fields));
  wish.tells_failure = wish.part.agents.size() == 1 && is_given(fields, "agent") &&
                       request.principal.sees_whole_agent(wish.part.agents.front());
  CO_TRY(const auto claimed, co_await api.work.outbox.claim(std::move(wish)));
  if (claimed.empty()) co_return no_content();
  std::string body = "{\"data\":[";
  for (const std::string& list : claimed)
    for (const std::string_view delivery : json::elements(list)) append_element(body, delivery);
  co_return as_of_response(api, body + "]}", 0);
}

// Commits a command about the delivery that the path names.
template <class Command>
HandlerResult commit_about(Api& api, http::Request& request, Command command) {
  command.id = request.params.at(0);
  command.sees = seen_by(request.principal);
  const auto decide = [&command](const decide::AgentState& state, const decide::Context& context,
                                 const decide::FetchedLines& lines) {
    if constexpr (requires { decide::decide(state, command, context, lines); }) {
      return decide::decide(state, command, context, lines);
    } else {
      return decide::decide(state, command, context);
    }
  };
  CO_TRY(const auto requester, co_await requester_of(api, request));
  for (const std::string& agent : co_await api.work.outbox.agents_with(command.id)) {
    if (!request.principal.sees_agent(agent)) continue;
    auto reply = co_await api.ledger.commit(agent, requester, decide);
    if (reply) co_return to_response(std::move(*reply));
    const bool is_elsewhere =
        reply.error().code == Code::delivery_not_found ||
        (ledger::is_of_one_agent(reply.error().code) && !request.principal.sees_whole_agent(agent));
    if (!is_elsewhere) co_return std::unexpected(std::move(reply.error()));
  }
  co_return decide::no_such_delivery(command.id);
}

HandlerResult ack(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  decide::AckDelivery command;
  static_cast<void>(fields.integer("attempt"));  // any is taken
  if (const auto id = fields.string("platformMessageId", 512)) command.platform_message_id = json::quote(*id);
  if (const auto parts = fields.array("parts")) command.parts = json::compact(*parts);
  if (command.parts.size() > 64U << 10) fields.fault("parts", "is longer than 65536 bytes");
  CO_TRY(fields.done());
  co_return co_await commit_about(api, request, std::move(command));
}

std::int64_t read_attempt(Fields& fields) {
  const auto attempt = fields.integer("attempt", 1);
  if (!is_given(fields, "attempt")) fields.fault("attempt", "is missing: it came with the claim");
  return attempt.value_or(0);
}

HandlerResult nack(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request));
  decide::NackDelivery command{.attempt = read_attempt(fields)};
  const auto error = fields.object("error");
  if (!is_given(fields, "error")) fields.fault("error", "is missing");
  if (is_given(fields, "retryAfterMs"))
    command.retry_after_ms = between(fields, "retryAfterMs", 0, 0, longest_retry_ms);
  command.final = fields.boolean("final").value_or(false);
  if (command.final && command.retry_after_ms) fields.fault("final", "and retryAfterMs exclude each other");
  CO_TRY(fields.done());
  CO_TRY(auto members, Fields::of(*error, "/error"));
  json::ObjectWriter out;
  const auto code = members.string("code", 128);
  if (!code) members.fault("code", "is missing");
  out.string("code", code.value_or(""));
  if (const auto message = members.string("message", 4096)) out.string("message", *message);
  CO_TRY(members.done());
  command.error = out.text();
  co_return co_await commit_about(api, request, std::move(command));
}

HandlerResult extend_delivery(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request));
  decide::ExtendDelivery command{.attempt = read_attempt(fields)};
  command.lease_ms = between(fields, "leaseMs", 60'000, least_delivery_lease_ms, most_delivery_lease_ms);
  CO_TRY(fields.done());
  co_return co_await commit_about(api, request, std::move(command));
}

HandlerResult retry_delivery(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  CO_TRY(fields.done());
  co_return co_await commit_about(api, request, decide::RetryDelivery{});
}

HandlerResult drop_delivery(Api& api, http::Request& request) {
  co_return co_await commit_about(api, request, decide::DropDelivery{});
}

HandlerResult get_delivery(Api& api, http::Request& request) {
  const std::string id = request.params.at(0);
  for (const std::string& agent : co_await api.work.outbox.agents_with(id)) {
    if (!request.principal.sees_agent(agent)) continue;
    auto shown = co_await api.ledger.show(
        agent, wants_fresh(request), [&](const decide::AgentState& state, ledger::Seen&) -> Result<http::Response> {
          const Delivery* delivery = state.deliveries.find(id);
          if (delivery == nullptr || !sees(request.principal, state, delivery->key, delivery->channel))
            return decide::no_such_delivery(id);
          return as_of_response(api, decide::delivery_json(*delivery), state.last_seq);
        });
    const bool is_elsewhere =
        !shown && (shown.error().code == Code::delivery_not_found || shown.error().code == Code::agent_not_found ||
                   (ledger::is_of_one_agent(shown.error().code) && !request.principal.sees_whole_agent(agent)));
    if (!is_elsewhere) co_return shown;
  }
  co_return decide::no_such_delivery(id);
}

struct ListQuery {
  std::size_t limit = 0;
  std::string status{}, channel{}, agent{}, key{};
  // The last delivery of the page before.
  bool continues = false;
  std::int64_t after_time = 0;
  std::string after_id{};

  std::string filters() const {
    std::string text = "deliveries";
    for (const std::string& part : {status, channel, agent, key}) text.append(1, '\n').append(part);
    return text;
  }
};

Result<ListQuery> read_list_query(const Api& api, const http::Request& request) {
  ListQuery query;
  TRY(query.limit, page_limit(request));
  TRY(const auto status, query_choice(request, "status", {"", "pending", "leased", "sent", "failed"}));
  query.status = status;
  query.channel = store::lower(store::trim(query_text(request, "channel").value_or("")));
  if (const auto agent = query_text(request, "agent")) {
    const auto id = store::normalize_agent_id(*agent);
    if (!id) return fail(Code::bad_request, "agent: is not a valid agent id");
    query.agent = *id;
  }
  query.key = query_text(request, "key").value_or("");
  if (const auto cursor = query_text(request, "cursor")) {
    TRY(const auto text, open_cursor(api, *cursor, query.filters()));
    query.continues = true;
    query.after_time = json::int_at(text, "t").value_or(0);
    query.after_id = json::string_at(text, "i").value_or("");
  }
  return query;
}

// The newest first.
bool is_before(const Delivery& a, const Delivery& b) {
  return a.created_at != b.created_at ? a.created_at > b.created_at : a.id < b.id;
}

bool is_asked_for(const ListQuery& query, const Delivery& delivery) {
  if (!query.status.empty() && decide::name(delivery.status) != query.status) return false;
  if (!query.channel.empty() && delivery.channel != query.channel) return false;
  if (!query.key.empty() && !store::same_key(delivery.key, query.key)) return false;
  if (!query.continues) return true;
  if (delivery.created_at != query.after_time) return delivery.created_at < query.after_time;
  return delivery.id > query.after_id;
}

HandlerResult list_deliveries(Api& api, http::Request& request) {
  CO_TRY(const auto query, read_list_query(api, request));
  std::vector<std::string> agents = co_await api.work.outbox.agents_with();
  std::erase_if(agents, [&](const std::string& agent) {
    return !request.principal.sees_agent(agent) || (!query.agent.empty() && agent != query.agent);
  });
  std::vector<std::string> degraded;
  co_return co_await api.ledger.show_all(
      std::move(agents), wants_fresh(request),
      [&](const ledger::Ledger::States& states, ledger::Seen&) -> Result<http::Response> {
        std::vector<const Delivery*> found;
        std::uint64_t last_seq = 0;
        for (const decide::AgentState* state : states) {
          last_seq = std::max(last_seq, state->last_seq);
          for (const auto& [id, delivery] : state->deliveries.all())
            if (is_asked_for(query, delivery) && sees(request.principal, *state, delivery.key, delivery.channel))
              found.push_back(&delivery);
        }
        const std::size_t most = std::min(query.limit, found.size());
        std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(most),
                                  [](const Delivery* a, const Delivery* b) { return is_before(*a, *b); });
        std::string body = "{\"data\":[";
        std::size_t shown = 0;
        while (shown < most && (shown == 0 || body.size() + found[shown]->fixed.size() <= page_bytes))
          append_element(body, decide::delivery_json(*found[shown++]));
        std::string next;
        if (shown < found.size()) {
          json::ObjectWriter cursor;
          cursor.integer("t", found[shown - 1]->created_at);
          cursor.string("i", found[shown - 1]->id);
          cursor.string("f", query.filters());
          next = seal_cursor(api, cursor.text());
        }
        body += page_end(next, !next.empty());
        body += degraded_member(request.principal, degraded);
        return as_of_response(api, body + "}", last_seq);
      },
      &degraded);
}

}  // namespace

void add_delivery_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string one = "/v1/deliveries/{id}";
  on("POST", "/v1/deliveries/claim", auth::Permission::deliver, claim_deliveries);
  on("GET", "/v1/deliveries", auth::Permission::read, list_deliveries,
     {"status", "channel", "agent", "key", "limit", "cursor"});
  on("GET", one, auth::Permission::read, get_delivery);
  on("DELETE", one, auth::Permission::maintenance, drop_delivery);
  on("POST", one + "/ack", auth::Permission::deliver, ack);
  on("POST", one + "/nack", auth::Permission::deliver, words(nack));
  on("POST", one + "/extend", auth::Permission::deliver, extend_delivery);
  on("POST", one + "/retry", auth::Permission::maintenance, retry_delivery);
}

}  // namespace sessiond::api
