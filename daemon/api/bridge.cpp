// Takes what an agent sends to a chat platform.
#include <algorithm>

#include "daemon/api/bridge_fields.hpp"
#include "daemon/api/media.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

constexpr std::uint64_t most_seq = 1ULL << 53;  // no transcript has so many entries

struct Asked {
  decide::Outbound command{};
  std::string key{};  // idempotencyKey
};

// Reads a request. A long one on a disk thread.
Result<Asked> read_outbound(http::Request& request, const Limits& limits) {
  TRY(auto fields, fields_of(request, limits));
  decide::Outbound command;
  command.topic = checked_topic(fields);
  command.text = fields.string("text", limits.body_bytes);
  check_content(fields, command.text, fields.raw("content"), command.content);
  command.media_urls = fields.strings("mediaUrls");
  command.usage = json::compact(fields.object("usage").value_or(""));
  command.model = fields.string("model", 256).value_or("");
  command.provider = fields.string("provider", 256).value_or("");
  command.stop_reason = fields.string("stopReason", 256).value_or("");
  command.deliver.to = fields.string("to").value_or("");
  read_thread(fields, command.deliver.thread_id);
  command.message_id = fields.string("messageId", 128).value_or("");
  if (!command.message_id.empty() && !store::valid_entry_id(command.message_id))
    fields.fault("messageId", "must be 1..128 of [A-Za-z0-9._:-]");
  command.mirror_only = fields.boolean("mirrorOnly").value_or(false);
  command.takes_over = fields.boolean("takeover").value_or(false);
  command.name = person_name(fields);
  if (fields.has("name") && !command.takes_over) fields.fault("name", "goes with takeover: true");
  if (const auto seen = fields.integer("seenSeq"))
    command.seen_seq = std::min(static_cast<std::uint64_t>(*seen), most_seq);
  check_not_empty(fields, command.text, "mediaUrls", !command.media_urls.empty());
  std::string key = fields.string("idempotencyKey").value_or("");
  TRY(fields.done());
  if (is_long(request)) transcripts::see(command.entry.emplace(decide::entry_of(command)));
  return Asked{.command = std::move(command), .key = std::move(key)};
}

HandlerResult outbound(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto asked,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_outbound(request, limits); }));
  decide::Outbound& command = asked.command;
  if (command.takes_over && !request.principal.may(auth::Permission::takeover))
    co_return fail(Code::forbidden, "this token may not take over; it needs the permission takeover");
  if (command.takes_over) request.person = command.name;
  command.target = path.target;
  command.instance = request.path;
  command.request_id = request.request_id;
  co_return co_await commit(api, request, path.agent, std::move(command),
                            co_await requester_of(api, request, asked.key));
}

}  // namespace

void add_bridge_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("POST", "/v1/agents/{agent}/sessions/{key}/outbound", auth::Permission::send, words(lasting<outbound>));
}

}  // namespace sessiond::api
