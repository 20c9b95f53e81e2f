// Runs of a session: start, claim, stop, list (policy/runs/README.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>

#include "daemon/api/asking.hpp"
#include "daemon/api/context.hpp"
#include "daemon/api/media.hpp"
#include "daemon/api/open_list.hpp"
#include "daemon/api/transcript_source.hpp"
#include "daemon/decide/run_commands.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"

namespace sessiond::api {
namespace {

constexpr std::int64_t least_lease_ms = 100;
constexpr std::int64_t most_lease_ms = 600'000;
constexpr std::int64_t longest_wait_ms = 30'000;
constexpr std::int64_t longest_idle_ms = 3'600'000;

void check_between(Fields& fields, std::string_view name, std::optional<std::int64_t> value, std::int64_t least,
                   std::int64_t most) {
  if (value && (*value < least || *value > most)) fields.fault(name, fmt::format("must be {} to {}", least, most));
}

decide::RunTerms read_terms(Fields& fields) {
  decide::RunTerms terms;
  terms.runner = fields.string("runner", 128).value_or("");
  terms.lease_ms = fields.integer("leaseMs");
  check_between(fields, "leaseMs", terms.lease_ms, least_lease_ms, most_lease_ms);
  terms.idle_timeout_ms = fields.integer("idleTimeoutMs");
  check_between(fields, "idleTimeoutMs", terms.idle_timeout_ms, 0, longest_idle_ms);
  terms.max_steps = fields.integer("maxSteps");
  return terms;
}

// Reads the messages of a run's input: one or a list, of role user.
Result<std::vector<transcripts::NewEntry>> read_input(std::optional<std::string_view> input) {
  std::vector<transcripts::NewEntry> entries;
  if (!input || *input == "null") return entries;
  const bool list = json::kind(*input) == json::Kind::array;
  const auto read = [&entries](std::string_view element, const std::string& pointer) -> Result<void> {
    transcripts::NewEntry& entry = entries.emplace_back();
    TRY(read_client_entry(entry, element, pointer));
    if (entry.type != "message" || entry.role != "user")
      return fail_at(pointer + "/role", "must be user: the agent's own messages come with events and finish");
    return {};
  };
  if (!list) TRY(read(*input, "/input"));
  if (list) {
    for (const std::string_view element : json::elements(*input)) {
      if (entries.size() == limits::message_entries)
        return fail_at("/input", fmt::format("has more than {} entries", limits::message_entries));
      TRY(read(element, fmt::format("/input/{}", entries.size())));
    }
  }
  return entries;
}

Result<std::string> read_run_id(Fields& fields) {
  std::string id = fields.string("runId", 128).value_or("");
  if (id == "active") return fail(Code::reserved_name, "active is no run id: it stands for the run that is active");
  if (!id.empty() && !store::valid_entry_id(id)) fields.fault("runId", "must be 1..128 of [A-Za-z0-9._:-]");
  return id;
}

// Reads where an answer is sent, as Run.replyTo has it.
Result<delivery::Delivery> read_reply_to(std::string_view object) {
  TRY(auto fields, Fields::of(object, "/replyTo"));
  const auto trimmed = [&fields](const char* name, std::size_t most) -> std::optional<std::string> {
    const auto text = fields.string(name, most);
    const std::string_view value = store::trim(text ? std::string_view(*text) : std::string_view());
    return value.empty() ? std::nullopt : std::optional(std::string(value));
  };
  delivery::Delivery to{
      .channel = trimmed("channel", 256), .to = trimmed("to", 512), .account_id = trimmed("accountId", 256)};
  std::string thread;
  read_thread(fields, thread);
  if (!thread.empty()) to.thread_id = thread;
  if (to.channel) to.channel = store::lower(*to.channel);
  if (!to.channel) fields.fault("channel", "is missing");
  if (!to.to) fields.fault("to", "is missing");
  TRY(fields.done());
  return to;
}

// Refuses an address outside the token's scope. Whoever may start runs may send, too.
Result<void> check_reply_to(const auth::Principal& principal, const std::optional<delivery::Delivery>& reply_to) {
  const bool may =
      !reply_to || principal.channel.empty() || store::equals_nocase(*reply_to->channel, principal.channel);
  if (may) return {};
  return fail(Code::forbidden, fmt::format("replyTo: this token is limited to the channel {}", principal.channel));
}

// Reads a request. A long one on a disk thread.
Result<decide::StartRun> read_start(http::Request& request, const Limits& limits) {
  TRY(auto fields, fields_of(request, limits, Body::optional));
  decide::StartRun command;
  TRY(command.run_id, read_run_id(fields));
  const auto input = fields.raw("input");
  command.terms = read_terms(fields);
  command.terms.model = fields.string("model", 256).value_or("");
  command.terms.provider = fields.string("provider", 256).value_or("");
  command.terms.instructions = fields.string("instructions", 64 << 10).value_or("");
  command.when_busy = fields.one_of("whenBusy", {"reject", "queue", "steer", "interrupt"}).value_or("");
  command.queue_only = fields.boolean("queueOnly").value_or(false);
  const auto reply_to = fields.object("replyTo");
  TRY(fields.done());
  if (reply_to) {
    TRY(command.reply_to, read_reply_to(*reply_to));
  }
  TRY(command.input, read_input(input));
  if (is_long(request)) std::ranges::for_each(command.input, transcripts::see);
  return command;
}

HandlerResult start(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto topic, topic_of(request));
  CO_TRY(auto command,
         co_await off_the_loop(api, request, [&](const Limits& limits) { return read_start(request, limits); }));
  CO_TRY(check_reply_to(request.principal, command.reply_to));
  command.target = path.target;
  command.topic = std::move(topic);
  command.instance = request.path;
  command.request_id = request.request_id;
  co_return co_await start_run(api, request, path.agent, std::move(command));
}

// Returns whether there is an agent. One that cannot be read is there.
asio::awaitable<bool> is_there(Api& api, const std::string& agent) {
  if (api.ledger.parts().memory.of(agent) != nullptr) co_return true;
  const auto looked = co_await api.ledger.show(
      agent, false, [](const decide::AgentState&, const ledger::Seen&) -> Result<bool> { return true; });
  co_return looked || looked.error().code != Code::agent_not_found;
}

HandlerResult claim(Api& api, http::Request& request) {
  CO_TRY(const auto agent, agent_param(request));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  decide::RunTerms terms = read_terms(fields);
  const auto wait_ms = fields.integer("waitMs");
  check_between(fields, "waitMs", wait_ms, 0, longest_wait_ms);
  const std::string prefix = fields.string("keyPrefix", 512).value_or("");
  CO_TRY(fields.done());
  CO_TRY(auto requester, co_await requester_of(api, request));
  if (requester.scope) {  // the answer that was given is given again, also when no run waits
    const auto nothing = [](const decide::AgentState&, const decide::Context&,
                            const decide::FetchedLines&) -> Result<decide::Decision> {
      decide::Decision out;
      out.status = 204;
      return out;
    };
    auto known = co_await api.ledger.commit(agent, requester, nothing);
    if (known && known->replayed) co_return to_response(std::move(*known));
  }
  leases::Claims::Wish wish{
      .agent = agent,
      .runner = terms.runner.empty() ? request.principal.id : terms.runner,
      .wants =
          [&request, &prefix](const decide::AgentState& state, const decide::Session& session) {
            return sees(request.principal, state, session) && store::key_has_prefix(session.key(), prefix);
          },
      .gone = has_gone(api, request),
      .wait_ms = wait_ms.value_or(0),
      .take =
          [&](std::string key, std::string run_id) {
            return take_run(api, request, agent, requester,
                            {.target = {.key = std::move(key)}, .run_id = std::move(run_id), .terms = terms});
          }};
  CO_TRY(auto reply, co_await api.work.claims.claim(std::move(wish)));
  if (reply) co_return to_response(std::move(*reply));
  http::Response nothing = no_content();
  if (request.principal.sees_whole_agent(agent) && !co_await is_there(api, agent))
    nothing.headers.emplace_back("Sessiond-Hint", fmt::format("no agent {}", json::quote(agent)));
  co_return nothing;
}

// A run that starts tells how full the window is.
HandlerResult start_with_context(Api& api, http::Request& request) {
  CO_TRY(const auto agent, agent_param(request));
  CO_TRY(auto response, co_await start(api, request));
  if (response.status == 201) co_await add_context(api, request, agent, response);
  co_return response;
}

HandlerResult claim_with_context(Api& api, http::Request& request) {
  CO_TRY(const auto agent, agent_param(request));
  CO_TRY(auto response, co_await claim(api, request));
  if (response.status == 200) co_await add_context(api, request, agent, response);
  co_return response;
}

HandlerResult abort(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(auto fields, co_await body_fields(api, request, Body::optional));
  decide::AbortRun command{.target = path.target,
                           .run_id = fields.string("runId", 128).value_or(""),
                           .reason = fields.string("reason", 1024).value_or("")};
  CO_TRY(fields.done());
  co_return co_await commit(api, request, path.agent, std::move(command));
}

// The lease of the active run, for those who may know the fence: its holder and admins.
void add_lease(const Api& api, const auth::Principal& principal, const std::string& agent, const std::string& key,
               const decide::SessionRuns& runs, std::string& json) {
  const bool may = principal.id == runs.active->token || principal.role == auth::Role::admin;
  if (!may) return;
  const auto ends = api.work.claims.leases().lease_ends_at(agent, key);
  json.pop_back();
  json +=
      fmt::format(R"(,"lease":{{"fence":{}{}}}}})", runs.fence, ends ? fmt::format(R"(,"expiresAt":{})", *ends) : "");
}

HandlerResult get_run(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  const std::string id = request.params.at(2);
  co_return co_await ledger::show_of(
      api.ledger, path.agent, path.target.key, wants_fresh(request),
      [&](const decide::AgentState& state, ledger::Seen&) -> Result<http::Response> {
        TRY(const decide::Session* session, visible(state, path.target, request.principal));
        const decide::SessionRuns* runs = state.runs.find(session->key());
        const auto none = [&] {
          return fail(Code::run_not_found, id == "active" ? fmt::format("{} has no active run", session->key())
                                                          : fmt::format("{} has no run {}", session->key(), id));
        };
        if (runs == nullptr) return none();
        std::string body;
        if (runs->active && (id == "active" || runs->active->id == id)) {
          body = run_json(session->key(), *runs->active);
          add_lease(api, request.principal, path.agent, session->key(), *runs, body);
        } else if (const decide::Run* queued = runs->find_queued(id)) {
          body = run_json(session->key(), *queued);
        } else if (const std::string* ended = runs->find_ended(id)) {
          body = *ended;
        } else {
          return none();
        }
        return as_of_response(api, std::move(body), state.last_seq);
      });
}

HandlerResult list_runs(Api& api, http::Request& request) {
  CO_TRY(auto path, session_path(request, api));
  CO_TRY(const auto limit, page_limit(request));
  CO_TRY(const auto status,
         query_choice(request, "status",
                      {"", "queued", "running", "aborting", "done", "failed", "interrupted", "dropped", "expired"}));
  CO_TRY(const auto cursor, query_int(request, "cursor", 0, INT64_MAX));
  co_return co_await ledger::show_of(
      api.ledger, path.agent, path.target.key, wants_fresh(request),
      [&](const decide::AgentState& state, ledger::Seen&) -> Result<http::Response> {
        TRY(const decide::Session* session, visible(state, path.target, request.principal));
        const decide::SessionRuns* runs = state.runs.find(session->key());
        const auto begin = static_cast<std::size_t>(cursor.value_or(0));
        std::size_t at = 0;  // in the list of all runs of this status
        std::size_t shown = 0;
        bool more = false;
        std::string body = "{\"data\":[";
        const auto add = [&](decide::RunStatus of_run, const auto& json_of) {
          if (more || (!status.empty() && decide::name(of_run) != status) || at++ < begin) return;
          const std::string& run = json_of();
          more = shown == limit || (shown > 0 && body.size() + run.size() > limits::page_bytes);
          if (more) return;
          append_element(body, run);
          ++shown;
        };
        if (runs != nullptr) {  // the newest first
          for (const decide::Run& run : std::views::reverse(runs->queued))
            add(run.status, [&] { return run_json(session->key(), run); });
          if (runs->active)
            add(runs->active->status, [&] {
              std::string active = run_json(session->key(), *runs->active);
              add_lease(api, request.principal, path.agent, session->key(), *runs, active);
              return active;
            });
          for (const decide::EndedRun& run : std::views::reverse(runs->ended))
            add(run.status, [&]() -> const std::string& { return *run.json; });
        }
        body += page_end(more ? std::to_string(begin + shown) : "", more) + "}";
        return as_of_response(api, std::move(body), state.last_seq);
      });
}

HandlerResult open_runs(Api& api, http::Request& request) {
  CO_TRY(const auto status, query_choice(request, "status", {"", "queued", "running", "aborting"}));
  const auto add = [&](const decide::AgentState& state, const decide::Session& session, const decide::SessionRuns& runs,
                       const AddOpen& found) {
    const auto take = [&](const decide::Run& run) {
      if (!status.empty() && status != decide::name(run.status)) return;
      found({.since = run.created_at, .id = run.id, .json = [&] {
               json::Edit agent;
               agent.put_string("agent", state.id());
               return json::apply(run_json(session.key(), run), agent);
             }});
    };
    if (runs.active) take(*runs.active);
    std::ranges::for_each(runs.queued, take);
  };
  co_return co_await list_open(api, request, co_await api.work.claims.leases().places(), add);
}

}  // namespace

void add_run_routes(http::Router& router, Api& api) {
  const auto on = adding(router, api);
  const std::string session = "/v1/agents/{agent}/sessions/{key}";
  on("POST", session + "/runs", auth::Permission::run, words(lasting<start_with_context>), {"topic"});
  on("GET", session + "/runs", auth::Permission::read, list_runs, {"status", "limit", "cursor"});
  on("GET", session + "/runs/{id}", auth::Permission::read, get_run);
  on("GET", "/v1/runs", auth::Permission::read, open_runs, {"status", "agent", "channel"});
  on("POST", session + "/abort", auth::Permission::abort, words(abort));
  on("POST", "/v1/agents/{agent}/runs/claim", auth::Permission::run, claim_with_context);
}

}  // namespace sessiond::api
