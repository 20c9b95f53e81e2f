// POST /v1/stream-tickets: a ticket for an event stream, for who cannot send a token with it (API §6).
#include "daemon/api/tickets.hpp"

#include <array>

#include "daemon/api/fields.hpp"
#include "daemon/api/handler.hpp"
#include "daemon/runtime/hop.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/stream/filter.hpp"
#include "store/clock.hpp"

namespace sessiond {
namespace {

constexpr std::array filter_names{"types", "agent", "keyPrefix", "channel", "topic"};
constexpr std::size_t most_text = 512;  // bytes, as of a session key

// The filters as a JSON object of strings, judged as a stream's query would be. A filter that is given but blank would
// filter nothing: a fault, so that nobody gets more than they asked for by accident.
Result<std::string> read_filters(std::string_view object) {
  auto fields = Fields::of(object, "/filters");
  if (!fields) return std::unexpected(std::move(fields.error()));
  Request asked;
  std::string filters;
  json::ObjectWriter writer(filters);
  for (const char* name : filter_names) {
    auto text = fields->string(name, most_text);
    if (!text) continue;
    if (trim(*text).empty()) fields->fault(name, "is blank; leave it out for no filter");
    writer.string(name, *text);
    asked.query.emplace_back(name, std::move(*text));
  }
  writer.close();
  if (const auto sound = EventFilter::parse(asked); !sound) {
    for (const Fault& fault : sound.error().errors)
      fields->fault(std::string_view(fault.pointer).substr(1), fault.detail);  // "?types"
  }
  if (auto done = fields->done(); !done) return std::unexpected(std::move(done.error()));
  return filters;
}

Served create_ticket(Api& api, Request& request) {
  auto body = json_body(request, api.config.limits.json_depth, true);
  if (!body) co_return std::unexpected(std::move(body.error()));
  auto fields = Fields::of(*body);
  if (!fields) co_return std::unexpected(std::move(fields.error()));
  const auto wish = fields->object("filters");
  if (auto done = fields->done(); !done) co_return std::unexpected(std::move(done.error()));
  auto filters = read_filters(wish.value_or(""));
  if (!filters) co_return std::unexpected(std::move(filters.error()));
  auto created = api.tickets.create(request.principal, *filters, unix_ms());
  if (!created) co_return std::unexpected(std::move(created.error()));
  std::string out;
  json::ObjectWriter writer(out);
  writer.string("ticket", created->ticket);
  writer.integer("expiresAt", created->expires_at);
  writer.close();
  co_return json_response(std::move(out), 201);
}

}  // namespace

Result<std::optional<std::string>> take_ticket(Api& api, Request& request) {
  const std::string* given = request.query_value("ticket");
  if (given == nullptr) return std::nullopt;
  std::string ticket = *given;
  std::erase_if(request.query, [](const auto& parameter) { return parameter.first == "ticket"; });
  const auto found = api.tickets.find(ticket, unix_ms());
  if (!found) return std::unexpected(found.error());
  for (const json::Member member : json::members(found->filters)) {
    const std::string name = json::unescape(member.name);
    const std::string bound = json::as_string(member.value).value_or("");
    for (const auto& [parameter, value] : request.query) {
      if (parameter == name && value != bound)
        return fail(Code::bad_request, "the ticket was made for another " + name + " than the query asks for");
    }
    request.query.emplace_back(name, bound);
  }
  return ticket;
}

asio::awaitable<void> remember_ticket(Api& api, std::string ticket, Response& response) {
  const auto open = api.tickets.use(ticket, unix_ms());
  if (response.take_over) {
    response.take_over = [open, give = std::move(response.take_over)](TakenSocket socket) {
      socket.slot = std::make_shared<std::pair<std::shared_ptr<void>, Tickets::Handle>>(socket.slot, open);
      give(std::move(socket));
    };
  }
  if (!api.tickets.unsaved()) co_return;
  const auto saved = co_await hop(api.ledger.disk().get_executor(), [&api] { return api.tickets.save(unix_ms()); });
  if (!saved) log::warn("tickets_not_saved", {{"error", saved.error().detail}});
}

void add_ticket_routes(Router& router, Api& api) {
  const auto on = adding(router, api);
  on("POST", "/v1/stream-tickets", Permission::ticket, create_ticket);
}

}  // namespace sessiond
