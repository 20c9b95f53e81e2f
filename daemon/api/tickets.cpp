// POST /v1/stream-tickets: a ticket for an event stream, for clients that cannot send a token with it (EventSource).
#include "daemon/api/tickets.hpp"

#include <array>

#include "daemon/api/handler.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/stream/filter.hpp"

namespace sessiond::api {
namespace {

constexpr std::array filter_names{"types", "agent", "keyPrefix", "channel", "topic"};
constexpr std::size_t most_text = 512;  // bytes, as many as a session key may have

// Returns the filters as a JSON object of strings, checked as a stream's query is. A blank filter is a fault: it would
// filter nothing, and the stream would show more than was asked for.
Result<std::string> read_filters(std::string_view object) {
  TRY(auto fields, Fields::of(object, "/filters"));
  http::Request asked;
  json::ObjectWriter writer;
  for (const char* name : filter_names) {
    auto text = fields.string(name, most_text);
    if (!text) continue;
    if (store::trim(*text).empty()) fields.fault(name, "is blank; leave it out for no filter");
    writer.string(name, *text);
    asked.query.emplace_back(name, std::move(*text));
  }
  if (const auto sound = stream::EventFilter::parse(asked); !sound) {
    if (sound.error().errors.empty()) return std::unexpected(sound.error());
    for (const Fault& fault : sound.error().errors)
      fields.fault(std::string_view(fault.pointer).substr(1), fault.detail);  // "?types"
  }
  TRY(fields.done());
  return writer.text();
}

HandlerResult create_ticket(Api& api, http::Request& request) {
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  const auto wish = fields.object("filters");
  CO_TRY(fields.done());
  CO_TRY(auto filters, read_filters(wish.value_or("")));
  CO_TRY(auto created, api.tickets.create(request.principal, filters, store::unix_ms()));
  json::ObjectWriter writer;
  writer.string("ticket", created.ticket);
  writer.integer("expiresAt", created.expires_at);
  co_return json_response(writer.text(), 201);
}

}  // namespace

Result<std::optional<std::string>> take_ticket(Api& api, http::Request& request) {
  const std::string* given = request.query_value("ticket");
  if (given == nullptr) return std::nullopt;
  std::string ticket = *given;
  std::erase_if(request.query, [](const auto& parameter) { return parameter.first == "ticket"; });
  TRY(const auto found, api.tickets.find(ticket, store::unix_ms()));
  for (const json::Member member : json::members(found.filters)) {
    const std::string name = json::unescape(member.name);
    const std::string bound = json::as_string(member.value).value_or("");
    for (const auto& [parameter, value] : request.query) {
      if (parameter == name && value != bound)
        return fail(Code::bad_request, "the ticket is bound to another " + name + " than the query asks for");
    }
    request.query.emplace_back(name, bound);
  }
  return ticket;
}

asio::awaitable<void> remember_ticket(Api& api, std::string ticket, http::Response& response) {
  const auto open = api.tickets.use(ticket, store::unix_ms());
  if (response.take_over) {
    response.take_over = [open, give = std::move(response.take_over)](http::TakenSocket socket) {
      socket.slot = std::make_shared<std::pair<std::shared_ptr<void>, auth::Tickets::Handle>>(socket.slot, open);
      give(std::move(socket));
    };
  }
  if (!api.tickets.unsaved()) co_return;
  const auto saved = co_await on_disk(api, [&api] { return api.tickets.save(store::unix_ms()); });
  if (!saved) log::warn("tickets_not_saved", {{"error", saved.error().detail}});
}

void add_ticket_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("POST", "/v1/stream-tickets", auth::Permission::ticket, create_ticket);
}

}  // namespace sessiond::api
