// The routes for chat bridges: inbound and outbound messages, idempotent by the platform's event id.
#include <fmt/format.h>

#include "daemon/api/handler.hpp"
#include "policy/context/entry.hpp"
#include "policy/secret_scan.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

std::optional<std::string> checked_topic(Fields& fields) {
  auto topic = fields.string("topic");
  if (!topic) return {};
  if (auto fine = store::check_topic(*topic); !fine) fields.fault("topic", fine.error().detail);
  return topic;
}

void check_content(Fields& fields, const std::optional<std::string>& text, std::optional<std::string_view> content,
                   std::string& into) {
  if (text && content) fields.fault("content", "and text exclude each other");
  if (!content || *content == "null") return;
  if (json::kind(*content) != json::Kind::array && json::kind(*content) != json::Kind::string)
    fields.fault("content", "must be an array of parts or a string");
  if (*content == "[]" || *content == "\"\"") fields.fault("content", "is empty");
  into = *content;
}

// Checks that a message is not empty: it has text or content, or the field `other` (attachments, media URLs) holds
// something.
void check_not_empty(Fields& fields, const std::optional<std::string>& text, std::string_view other, bool has_other) {
  if (has_other || fields.has("content") || (text ? !text->empty() : fields.has("text"))) return;
  fields.fault("text", text ? "is empty" : fmt::format("text, content or {} is needed", other));
}

void check_files(Fields& fields, const decide::Inbound& command, std::int64_t most) {
  json::ObjectWriter message;
  if (!command.content.empty()) message.raw("content", command.content);
  if (!command.attachments.empty()) message.raw("attachments", command.attachments);
  const std::int64_t files = context::files_in(message.text());
  if (files > most)
    fields.fault(command.attachments.empty() ? "content" : "attachments",
                 fmt::format("has {} files; a message may have {} (context.maxFilesPerMessage)", files, most));
}

HandlerResult inbound(Api& api, http::Request& request) {
  CO_TRY(auto fields, body_fields(request, api));
  const auto text = [&fields](std::string_view name) { return fields.string(name).value_or(""); };
  decide::Inbound command;
  const std::string named = fields.string("agent").value_or("main");
  const auto agent = store::normalize_agent_id(named);
  if (!agent || policy::find_secret(named)) fields.fault("agent", "is not a valid agent id");
  command.channel = text("channel");
  command.account_id = text("accountId");
  command.chat_type = text("chatType");
  command.peer = text("peer");
  command.from = text("from");
  command.surface = text("surface");
  command.provider = text("provider");
  command.names.label = text("label");
  command.names.subject = text("subject");
  command.names.space = text("space");
  command.names.group_channel = text("groupChannel");
  command.names.display_name = text("displayName");
  command.message_id = text("messageId");
  command.timestamp = fields.time("timestamp");
  command.mentioned = fields.boolean("mentioned").value_or(false);
  command.activate = fields.boolean("activate");
  read_thread(fields, command.thread_id);
  command.topic = checked_topic(fields);
  command.text = fields.string("text", api.config.limits.body_bytes);
  check_content(fields, command.text, fields.raw("content"), command.content);
  if (const auto attachments = fields.array("attachments")) command.attachments = json::compact(*attachments);
  if (command.attachments == "[]") command.attachments.clear();
  check_not_empty(fields, command.text, "attachments", !command.attachments.empty());
  check_files(fields, command, api.ledger.rules().context.files_per_message);
  const std::string key = text("idempotencyKey");
  CO_TRY(fields.done());
  if (!request.principal.sees_agent(*agent))
    co_return fail(Code::forbidden, fmt::format("this token has no access to agent {}", *agent));

  // The key is known before the decision, so scope is too.
  CO_TRY(command.route, decide::route_of(api.ledger.rules().routing, *agent, command));
  const policy::Route route = command.route;
  const auto refusal = [&route] {
    return fail(Code::forbidden, fmt::format("this token may not post into {}", route.key));
  };
  if (!request.principal.sees(*agent, route.key, route.channel)) co_return refusal();
  CO_TRY(auto requester, requester_of(request, key));
  // A conversation that channels share (session.dmScope) is in one channel at a time. A token that is confined to
  // another channel must not take it over, since it would then see the messages. When the key itself names the token's
  // channel, the conversation belongs to that channel.
  requester.in_memory = is_in_memory(api, *agent, command);
  const ledger::Decide within = scoped(std::move(command), request.principal);
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines& lines) -> Result<decide::Decision> {
    const decide::Session* there = state.find_key(route.key);
    if (there != nullptr && !sees(request.principal, state, *there) &&
        !store::equals_nocase(store::parse_key(route.key).channel, route.channel)) {
      return refusal();
    }
    return within(state, context, lines);
  };
  CO_TRY(auto reply, co_await api.ledger.commit(*agent, std::move(requester), decide, true));
  co_return to_response(std::move(reply));
}

HandlerResult outbound(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, body_fields(request, api));
  decide::Outbound command{.target = path.target};
  command.topic = checked_topic(fields);
  command.text = fields.string("text", api.config.limits.body_bytes);
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
  check_not_empty(fields, command.text, "mediaUrls", !command.media_urls.empty());
  const std::string key = fields.string("idempotencyKey").value_or("");
  CO_TRY(fields.done());
  command.instance = request.path;
  command.request_id = request.request_id;
  co_return co_await commit(api, request, path.agent, std::move(command), requester_of(request, key));
}

}  // namespace

void add_bridge_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("POST", "/v1/inbound", auth::Permission::bridge, inbound);
  on("POST", "/v1/agents/{agent}/sessions/{key}/outbound", auth::Permission::send, outbound);
}

}  // namespace sessiond::api
