// Takes what people say and do on a chat platform, as its bridge tells it: messages, and what becomes of them later. A
// message is known by the id that the platform gave it (daemon/decide/platform_message.hpp).
#include <fmt/format.h>

#include "daemon/api/bridge_fields.hpp"
#include "daemon/api/media.hpp"
#include "daemon/api/transcript_source.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "policy/context/entry.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t most_messages = 100;  // in one request
constexpr std::size_t longest_emoji = 256;  // bytes

// A message by what its platform calls it.
struct Named {
  std::string channel{}, account_id{}, peer{}, id{};
};

std::string name_of(const std::string& agent, const Named& message) {
  return decide::platform_name(agent, message.channel, message.account_id, message.peer, message.id);
}

// Makes the name under which a request looks for a message. Its token must see the session and the channel.
ledger::MessageSearch search_for(const Api& api, const http::Request& request, const std::string& agent,
                                 const Named& message) {
  const auto sees_answer = [principal = request.principal, agent,
                            channel = store::lower(store::trim(message.channel))](std::string_view answer) {
    return principal.sees(agent, json::string_at(answer, "sessionKey").value_or(""), channel);
  };
  ledger::MessageSearch search{.name = name_of(agent, message), .actor = request.principal.id, .sees = sees_answer};
  for (const std::string_view chat_type : {"direct", "group", "channel"}) {
    const auto route = policy::route(api.ledger.rules().routing, {.agent = agent,
                                                                  .channel = message.channel,
                                                                  .account_id = message.account_id,
                                                                  .chat_type = chat_type,
                                                                  .peer = message.peer});
    if (route) search.keys.push_back(route->key);
  }
  return search;
}

// `most`: context.maxFilesPerMessage.
void check_files(Fields& fields, const decide::Inbound& command, std::int64_t most) {
  json::ObjectWriter message;
  if (!command.content.empty()) message.raw("content", command.content);
  if (!command.attachments.empty()) message.raw("attachments", command.attachments);
  const std::int64_t files = context::files_in(message.text());
  if (files > most)
    fields.fault(command.attachments.empty() ? "content" : "attachments",
                 fmt::format("has {} files; a message may have {} (context.maxFilesPerMessage)", files, most));
}

asio::awaitable<bool> has_session(Api& api, std::string agent, const std::string& key) {
  if (key.empty()) co_return false;
  const decide::AgentState* in_memory = api.ledger.parts().memory.of(agent);
  if (in_memory != nullptr && in_memory->find_key(key) != nullptr) co_return true;
  const auto there = co_await api.ledger.show(
      std::move(agent), false,
      [&key](const decide::AgentState& state, ledger::Seen&) { return Result<bool>(state.find_key(key) != nullptr); });
  co_return there.value_or(false);  // an agent that cannot be read refuses the commit
}

// Stands for the words of a message, in whichever form they come, and for what is attached.
std::string mark_of(const decide::Inbound& command) {
  if (command.content.empty()) return ledger::words_mark(command.text.value_or(""), "", command.attachments);
  const bool has_files = context::files_in(R"({"content":)" + command.content + "}") > 0;
  return ledger::words_mark(transcripts::text_of(command.content), has_files ? command.content : "",
                            command.attachments);
}

// Reads the words of a long message ahead of its decision. Blocks.
std::shared_ptr<const decide::InboundWords> seen_words(const decide::Inbound& command,
                                                       const std::vector<std::string>& reset_triggers) {
  auto words = std::make_shared<decide::InboundWords>(decide::words_of(command, reset_triggers));
  if (words->entry) transcripts::see(*words->entry);
  return words;
}

// A message as it was read.
struct Received {
  std::string agent{};
  decide::Inbound command{};
  std::string key{};   // idempotencyKey
  std::string mark{};  // mark_of() it
};

// Reads one message: the body, or an element of the array in it. A long one is read on a disk thread.
Result<Received> read_message(std::string_view message, const Limits& limits, std::int64_t most_files) {
  TRY(auto fields, Fields::of(message));
  const auto text = [&fields](std::string_view name) { return fields.string(name).value_or(""); };
  Received out{.agent = agent_of(fields)};
  decide::Inbound& command = out.command;
  command.channel = text("channel");
  command.account_id = text("accountId");
  command.chat_type = text("chatType");
  command.peer = text("peer");
  command.from = person_of(fields, "from");
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
  command.from_me = fields.boolean("fromMe").value_or(false);
  command.activate = fields.boolean("activate");
  read_thread(fields, command.thread_id);
  command.topic = checked_topic(fields);
  command.text = fields.string("text", limits.body_bytes);
  check_content(fields, command.text, fields.raw("content"), command.content);
  if (const auto attachments = fields.array("attachments")) command.attachments = json::compact(*attachments);
  if (command.attachments == "[]") command.attachments.clear();
  check_not_empty(fields, command.text, "attachments", !command.attachments.empty());
  check_files(fields, command, most_files);
  out.key = text("idempotencyKey");
  TRY(fields.done());
  if (!command.message_id.empty()) out.mark = mark_of(command);
  return out;
}

// Takes one message. `message` is the body, or an element of the array in it.
HandlerResult receive(Api& api, const http::Request& request, std::string_view message) {
  const std::int64_t most_files = api.ledger.rules().context.files_per_message;
  CO_TRY(auto received, co_await off_the_loop(api, request, [&](const Limits& limits) {
           return read_message(message, limits, most_files);
         }));
  const std::string& agent = received.agent;
  decide::Inbound& command = received.command;
  if (!request.principal.sees_agent(agent))
    co_return fail(Code::forbidden, fmt::format("this token has no access to agent {}", agent));

  // The key is known before the decision, so scope is too.
  CO_TRY(command.route, decide::route_of(api.ledger.rules().routing, agent, command));
  std::string other_key = command.route.thread_key;
  if (co_await has_session(api, agent, other_key)) std::swap(command.route.key, other_key);
  const policy::Route route = command.route;
  if (!request.principal.sees(agent, route.key, route.channel))
    co_return fail(Code::forbidden, fmt::format("this token may not post into {}", route.key));
  CO_TRY(auto requester, co_await requester_of(api, request, received.key, message));
  if (!command.message_id.empty())
    requester.message =
        ledger::MessageName{.name = name_of(agent, {route.channel, command.account_id, route.peer, command.message_id}),
                            .key = route.key,
                            .other_key = other_key,
                            .actor = request.principal.id,
                            .addresses = command.mentioned && !command.from_me,
                            .author = command.from.has_id ? command.from.id : "",
                            .said = std::move(received.mark)};
  requester.in_memory = is_in_memory(api, agent, command);
  Pins pins, more_pins;
  if (!requester.in_memory) {
    CO_TRY(pins, co_await store_media(api, command.content));
    CO_TRY(more_pins, co_await store_media(api, command.attachments));
  }
  if (is_long(request))
    command.words =
        co_await off_the_loop(api, request, [&command, triggers = api.ledger.rules().reset_triggers](const Limits&) {
          return seen_words(command, triggers);
        });
  const ledger::Decide decide = scoped(std::move(command), request);
  CO_TRY(auto reply, co_await api.ledger.commit(agent, std::move(requester), decide, true));
  co_return to_response(std::move(reply));
}

// Takes the messages of an array in order. One that is refused does not stop the others.
HandlerResult receive_all(Api& api, const http::Request& request, const std::vector<std::string_view>& messages) {
  if (!request.header("idempotency-key").empty())
    co_return fail_at("", "each message of an array has an idempotencyKey of its own; the header is for one message");
  std::string results = "{\"results\":[";
  for (const std::string_view message : messages) {
    auto done = co_await receive(api, request, message);
    const http::Response reply =
        done ? std::move(*done) : http::to_response(as_seen(std::move(done.error()), request), request);
    begin_element(results);
    if (done)
      results.append(fmt::format(R"({{"status":{},)", reply.status)).append(std::string_view(reply.body).substr(1));
    else
      results += reply.body;
  }
  co_return json_response(results + "]}");
}

// The messages of a body: one, or those of an array.
struct Messages {
  std::vector<std::string_view> all{};
  bool is_list = false;
};

Result<Messages> read_messages(http::Request& request, const Limits& limits) {
  TRY(const auto body, body_of(request, limits));
  if (json::kind(body) != json::Kind::array) return Messages{.all = {body}};
  Messages messages{.is_list = true};
  std::size_t count = 0;
  for (const std::string_view message : json::elements(body))
    if (++count <= most_messages) messages.all.push_back(message);
  if (count == 0 || count > most_messages)
    return fail_at("", fmt::format("has {} messages; a request takes 1 to {}", count, most_messages));
  return messages;
}

HandlerResult inbound(Api& api, http::Request& request) {
  CO_TRY(const auto messages,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_messages(request, limits); }));
  if (messages.is_list) co_return co_await receive_all(api, request, messages.all);
  co_return co_await receive(api, request, messages.all.front());
}

std::unexpected<Problem> no_such_message() {
  return fail(Code::message_not_found, "no message with this messageId is known in this conversation");
}

// The id of the author of the message that a request is about, as `target.from` names it. Empty: it names nobody.
std::string target_author(Fields& fields) {
  const auto target = fields.object("target");
  if (!target) return {};
  auto members = Fields::of(*target, "/target");
  const std::string author = members ? person_of(*members, "from").id : "";
  if (author.empty() || !members->done()) fields.fault("target", "has from, the id of the author or a person, alone");
  return author;
}

// Keeps an edit or a deletion until its message comes.
HandlerResult keep_early(Api& api, const http::Request& request, std::string agent,
                         const decide::ChangeMessage& command, const ledger::MessageSearch& search,
                         const std::string& message_id, ledger::Requester requester) {
  const decide::KeepChange keep{.change = {.channel = command.channel,
                                           .account_id = command.account_id,
                                           .peer = command.peer,
                                           .message_id = message_id,
                                           .author = search.author,
                                           .deletes = command.what == decide::ChangeMessage::What::remove,
                                           .text = command.text,
                                           .content = command.content,
                                           .mentioned = command.mentioned,
                                           .actor = request.principal.id,
                                           .is_limited = !request.principal.sees_whole_agent(agent)},
                                .name = search.name};
  if (api.ledger.rules().early_change_ms == 0 || keep.change.bytes() > decide::EarlyChanges::longest)
    co_return no_such_message();
  // What is said in an ephemeral session goes to no file.
  const bool is_ephemeral = std::ranges::any_of(
      search.keys, [&](const std::string& key) { return api.ledger.parts().memory.holding(agent, key) != nullptr; });
  if (is_ephemeral && !keep.change.deletes) co_return no_such_message();
  const auto decide = [&](const decide::AgentState& state, const decide::Context& context,
                          const decide::FetchedLines&) {
    decide::Context now = context;
    now.is_coming_in = [&](const std::string& name) {
      const bool is_coming = context.is_coming_in && context.is_coming_in(name);
      return is_coming || !ledger::find_messages(api.ledger.parts(), search).empty();
    };
    return decide::decide(state, keep, now);
  };
  CO_TRY(auto reply, co_await api.ledger.commit(std::move(agent), std::move(requester), decide, true));
  co_return to_response(std::move(reply));
}

// Answers a second deletion of a message that was deleted before it came. `told`: the answer to the message.
HandlerResult answer_deleted(Api& api, std::string agent, std::string told, ledger::Requester requester) {
  const auto decide = [&told](const decide::AgentState&, const decide::Context&, const decide::FetchedLines&) {
    decide::Decision decision;
    json::ObjectWriter answer(decision.body);
    answer.string("sessionKey", json::string_at(told, "sessionKey").value_or(""));
    answer.raw("seq", "null");
    answer.raw("target", "null");
    answer.boolean("duplicate", true);
    answer.string("asOf", json::string_at(told, "asOf").value_or(""));
    answer.close();
    return Result<decide::Decision>(std::move(decision));
  };
  CO_TRY(auto reply, co_await api.ledger.commit(std::move(agent), std::move(requester), decide));
  co_return to_response(std::move(reply));
}

// What was done to a message, as a request names it.
struct Change {
  decide::ChangeMessage command{};
  std::string agent{};
  Named message{};
  std::string author{};
  std::string key{};  // idempotencyKey
};

// Reads which message it is, behind the fields that say what was done to it.
Result<Change> read_change(Fields& fields, decide::ChangeMessage command) {
  Change change{.command = std::move(command), .agent = agent_of(fields)};
  const auto needed = [&fields](std::string_view name) {
    auto text = fields.string(name);
    if (!text || store::trim(*text).empty()) fields.fault(name, text ? "is empty" : "is missing");
    return text.value_or("");
  };
  change.message = {.channel = needed("channel"),
                    .account_id = fields.string("accountId").value_or(""),
                    .peer = needed("peer"),
                    .id = needed("messageId")};
  change.author = target_author(fields);
  change.key = fields.string("idempotencyKey").value_or("");
  TRY(fields.done());
  return change;
}

// Finds the session of a message that a request names, and commits what was done to it.
HandlerResult change_message(Api& api, const http::Request& request, Change change) {
  auto& [command, agent, message, author, key] = change;
  if (!request.principal.sees_agent(agent))
    co_return fail(Code::forbidden, fmt::format("this token has no access to agent {}", agent));
  ledger::MessageSearch search = search_for(api, request, agent, message);
  search.author = author;
  CO_TRY(auto requester, co_await requester_of(api, request, key));
  const std::vector<ledger::FoundMessage> there = ledger::find_messages(api.ledger.parts(), search);
  command.channel = store::lower(store::trim(message.channel));
  command.account_id = store::trim(message.account_id);
  command.peer = store::trim(message.peer);
  const bool deletes = command.what == decide::ChangeMessage::What::remove;
  if (there.empty() && command.what != decide::ChangeMessage::What::react)
    co_return co_await keep_early(api, request, agent, command, search, message.id, std::move(requester));
  if (there.empty()) co_return no_such_message();
  if (there.size() > 1)
    co_return fail_at("/target/from",
                      "several people said something under this messageId: the id of the author is needed");
  const ledger::FoundMessage& found = there.front();
  if (deletes && !found.deleted.empty())
    co_return co_await answer_deleted(api, agent, found.deleted, std::move(requester));
  if (!found.place) co_return no_such_message();
  command.target.key = found.place->key;
  command.place = *found.place;
  if (command.mentioned)
    requester.message = ledger::MessageName{.name = found.name,
                                            .key = command.place.key,
                                            .actor = request.principal.id,
                                            .addresses = true,
                                            .is_edit = true};
  Pins pins;
  if (!is_in_memory(api, agent, command)) {
    CO_TRY(pins, co_await store_media(api, command.content));
  }
  if (deletes) {  // a message is deleted once
    const decide::MessagePlace& at = command.place;
    requester.message = ledger::MessageName{.name = json::array_of(std::vector<std::string>{
                                                "deleted", agent, at.session_id, at.topic.value_or(""), at.entry_id}),
                                            .key = at.key,
                                            .actor = request.principal.id};
  }
  co_return co_await commit(api, request, agent, std::move(command), std::move(requester));
}

// Takes what was done to a message. `read` reads the fields that say it. A long body is read on a disk thread.
HandlerResult take_change(Api& api, http::Request& request,
                          decide::ChangeMessage (*read)(Fields& fields, const Limits& limits)) {
  CO_TRY(auto change, co_await off_the_loop(api, request, [&](const Limits& limits) -> Result<Change> {
           TRY(auto fields, fields_of(request, limits));
           return read_change(fields, read(fields, limits));
         }));
  co_return co_await change_message(api, request, std::move(change));
}

decide::ChangeMessage read_edit(Fields& fields, const Limits& limits) {
  decide::ChangeMessage command{.what = decide::ChangeMessage::What::edit};
  command.text = fields.string("text", limits.body_bytes);
  check_content(fields, command.text, fields.raw("content"), command.content);
  check_not_empty(fields, command.text, "nothing else", command.text.has_value());  // attachments may stay
  command.mentioned = fields.boolean("mentioned").value_or(false);
  return command;
}

decide::ChangeMessage read_deletion(Fields&, const Limits&) { return {.what = decide::ChangeMessage::What::remove}; }

decide::ChangeMessage read_reaction(Fields& fields, const Limits&) {
  decide::ChangeMessage command{.what = decide::ChangeMessage::What::react};
  const auto emoji = fields.string("emoji", longest_emoji);
  if (emoji ? emoji->empty() : !fields.has("emoji")) fields.fault("emoji", emoji ? "is empty" : "is missing");
  command.emoji = emoji.value_or("");
  command.from = person_of(fields, "from");
  if (const auto from = fields.raw("from").value_or("null"); from == "null" || from == "\"\"")
    fields.fault("from", "is missing");
  command.removed = fields.boolean("removed").value_or(false);
  return command;
}

HandlerResult edit_message(Api& api, http::Request& request) { return take_change(api, request, read_edit); }
HandlerResult delete_message(Api& api, http::Request& request) { return take_change(api, request, read_deletion); }
HandlerResult react_to_message(Api& api, http::Request& request) { return take_change(api, request, read_reaction); }

// A message, and the position of the state that it was read at.
struct ShownMessage {
  std::string json{}, as_of{};
};

// Shows the message at a place. Empty: it is not there, or the token may not see it.
asio::awaitable<Result<ShownMessage>> message_at(Api& api, const http::Request& request, const std::string& agent,
                                                 const decide::MessagePlace& place) {
  auto source = co_await source_at(api, request,
                                   {.path = {.agent = agent, .target = {.key = place.session_id}},
                                    .topic = place.topic,
                                    .fresh = wants_fresh(request)});
  if (!source && (source.error().code == Code::session_not_found || source.error().code == Code::agent_not_found ||
                  source.error().code == Code::not_found))
    co_return ShownMessage{};
  CO_TRY(const auto there, std::move(source));
  CO_TRY(const auto line, co_await read_source(api, there, [&](auto& transcript) {
           return find_as_left(transcript, there, place.entry_id);
         }));
  if (!line) co_return ShownMessage{};
  json::Edit where;
  where.put_string("key", place.key);
  where.put_string("sessionId", place.session_id);
  const std::string shown = transcripts::view_entry(line->line, line->seq, transcripts::View::full).value_or("{}");
  co_return ShownMessage{.json = json::apply(shown, where), .as_of = there.as_of};
}

// Finds a message by its platform's id. A message that the token may not see is none.
HandlerResult find_message(Api& api, http::Request& request) {
  CO_TRY(const auto agent, agent_param(request));
  for (const std::string_view name : {"channel", "peer", "platformMessageId"})
    if (query_text(request, name).value_or("").empty())
      co_return fail(Code::bad_request, fmt::format("{} is needed", name));
  const Named message{.channel = *query_text(request, "channel"),
                      .account_id = query_text(request, "accountId").value_or(""),
                      .peer = *query_text(request, "peer"),
                      .id = *query_text(request, "platformMessageId")};
  std::string data = "[", as_of;
  const auto found = ledger::find_messages(api.ledger.parts(), search_for(api, request, agent, message));
  for (const ledger::FoundMessage& each : found) {
    if (!each.place) continue;
    CO_TRY(const auto shown, co_await message_at(api, request, agent, *each.place));
    if (shown.json.empty()) continue;
    append_element(data, shown.json);
    if (as_of.empty()) as_of = shown.as_of;
  }
  data += "]";
  if (as_of.empty()) co_return as_of_response(api, R"({"data":[]})", 0);
  co_return as_of_response("{\"data\":" + data + "}", as_of);
}
}  // namespace

void add_inbound_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  on("POST", "/v1/inbound", auth::Permission::bridge, words(inbound));
  on("POST", "/v1/inbound/edits", auth::Permission::bridge, words(edit_message));
  on("POST", "/v1/inbound/deletes", auth::Permission::bridge, words(delete_message));
  on("POST", "/v1/inbound/reactions", auth::Permission::bridge, words(react_to_message));
  on("GET", "/v1/agents/{agent}/messages", auth::Permission::read, find_message,
     {"channel", "accountId", "peer", "platformMessageId"});
}

}  // namespace sessiond::api
