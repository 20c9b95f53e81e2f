#include "daemon/leases/hooks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::leases {
namespace {

constexpr std::size_t most_ended = 1'000;   // that a repeated answer finds
constexpr std::size_t most_open = 100'000;  // beyond them, calls that nobody waits for are not kept
constexpr std::int64_t poll_ms = 1'000;     // how often a request that waits looks whether its client has gone

runs::HookAnswer answer_of(const Hooks::Call& call, std::int64_t now) {
  runs::HookAnswer answer{.name = call.call.name};
  if (!call.outcome || call.is_expired) {
    answer.is_open = !call.outcome && call.until > now;
    answer.blocks = !answer.is_open && call.blocks_on_timeout;
    if (answer.blocks) answer.reason = fmt::format("{} did not answer in time", call.call.name);
    return answer;
  }
  answer.is_open = false;
  const json::Index said(call.outcome->answer);
  answer.blocks = said.find("block") == "true";
  answer.reason = said.string_at("reason").value_or("");
  answer.context = said.string_at("additionalContext").value_or("");
  return answer;
}

}  // namespace

Hooks::Hooks(ledger::Ledger& ledger)
    : ledger_(ledger),
      clock_(ledger.parts().env.clock),
      background_(ledger.parts().env.io),
      deadlines_(ledger.parts().env.io, clock_, [this](const std::string& id) { call_is_due(id); }),
      polls_(ledger.parts().env.io, clock_) {}

void Hooks::start() { background_.run(deadlines_.run(), "hooks"); }

asio::awaitable<void> Hooks::stop() {
  deadlines_.stop();
  co_await background_.wait_until_all_ended();
}

asio::awaitable<Result<void>> Hooks::change_now(ListChange how) {
  runs::HookList changed = list();
  CO_TRY(how(changed));
  const auto written = co_await runtime::run_on(ledger_.parts().env.disk.get_executor(),
                                                [file = ledger::hooks_file(ledger_.parts().env.paths),
                                                 json = changed.to_json()] { return ledger::write_hooks(file, json); });
  CO_TRY(written);
  *ledger_.parts().env.hooks = std::move(changed);
  co_return Result<void>{};
}

asio::awaitable<Result<void>> Hooks::put(runs::Hook hook, std::function<bool(const runs::Hook&)> may_change) {
  return change([hook = std::move(hook), may_change = std::move(may_change)](runs::HookList& hooks) -> Result<void> {
    runs::Hook made = hook;
    if (const runs::Hook* there = hooks.find(hook.name)) {
      if (!may_change(*there)) return fail(Code::hook_exists, fmt::format("another has made a hook {}", hook.name));
      made.owner = there->owner;
    } else if (!hooks.has_room(hook.owner)) {
      return fail_at("", fmt::format("there are {} hooks {}, as many as there may be",
                                     hook.owner.empty() ? runs::HookList::most : runs::HookList::most_of_limited,
                                     hook.owner.empty() ? "of tokens that see everything" : "of this token"));
    }
    hooks.put(std::move(made));
    return {};
  });
}

asio::awaitable<Result<void>> Hooks::erase(std::string name) {
  return change([name = std::move(name)](runs::HookList& hooks) -> Result<void> {
    hooks.erase(name);
    return {};
  });
}

std::shared_ptr<const Hooks::Call> Hooks::find(const std::string& id) const {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second;
}

bool Hooks::begin_end(const std::string& id) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second->is_ending) return false;
  found->second->is_ending = true;
  return true;
}

void Hooks::undo_end(const std::string& id) {
  if (const auto found = calls_.find(id); found != calls_.end()) found->second->is_ending = false;
}

void Hooks::keep(const journal::Envelope& about, const decide::HookTold& called) {
  if (!called.blocking && deadlines_.size() >= most_open) return;
  const std::int64_t rest = called.deadline - about.time;
  auto call = std::make_shared<Call>(Call{.place = {about.agent, about.key},
                                          .call = {.target = {.key = about.key},
                                                   .id = called.id,
                                                   .name = called.name,
                                                   .event = called.event,
                                                   .run_id = called.run_id},
                                          .blocks_on_timeout = called.on_timeout == "block",
                                          .until = clock_.steady_ms() + std::max<std::int64_t>(rest, 1)});
  deadlines_.set(call->call.id, call->until);
  std::string id = call->call.id;
  calls_[std::move(id)] = std::move(call);
}

void Hooks::end(const decide::HookTold& outcome, bool is_expired) {
  const std::string& id = outcome.id;
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second->outcome) return;
  const std::shared_ptr<Call> call = found->second;
  call->outcome = outcome;
  call->is_expired = is_expired;
  deadlines_.erase(id);
  ended_.push_back(id);
  if (ended_.size() > most_ended) {
    calls_.erase(ended_.front());
    ended_.pop_front();
  }
  tell_those_that_wait_for(call);
}

void Hooks::tell_those_that_wait_for(const std::shared_ptr<const Call>& call) {
  polls_.wake([&call](const Calls& calls) { return std::ranges::find(calls, call) != calls.end(); });
}

void Hooks::see(const decide::Change& event) {
  const auto* hook = event.as<decide::HookTold>();
  if (hook == nullptr) return;
  if (event.envelope.type == journal::EventType::hook_called) return keep(event.envelope, *hook);
  end(*hook, event.envelope.type == journal::EventType::hook_expired);
}

void Hooks::call_is_due(const std::string& id) {
  const std::shared_ptr<Call> call = calls_.at(id);
  tell_those_that_wait_for(call);
  background_.run(expire(call), "expire_hook");
}

asio::awaitable<void> Hooks::expire(std::shared_ptr<Call> call) {
  const auto& [agent, key] = call->place;
  if (!begin_end(call->call.id)) co_return;
  ledger::Requester by{.actor = "sessiond"};
  by.in_memory = ledger_.parts().memory.holding(agent, key) != nullptr;
  const decide::ExpireHook command{.target = {.key = key}, .call = call->call};
  const auto told = co_await ledger_.commit(
      agent, std::move(by),
      [&command](const decide::AgentState& state, const decide::Context& context, const decide::FetchedLines&) {
        return decide::decide(state, command, context);
      });
  if (!told)
    log::warn("hook_not_expired",
              {{"agent", agent}, {"key", key}, {"hook", call->call.name}, {"error", told.error().detail}});
  // Its session may be gone, and then no event has ended it.
  if (!call->outcome) calls_.erase(call->call.id);
}

asio::awaitable<Result<runs::HookVerdict>> Hooks::wait(std::string calls, std::function<bool()> gone) {
  runtime::LongPoll<Calls>::Place place(polls_, {}, runtime::never, std::move(gone));
  for (const std::string_view id : json::elements(json::find(calls, "calls").value_or("[]")))
    if (const auto found = calls_.find(json::as_string(id).value_or("")); found != calls_.end())
      place.topic.push_back(found->second);
  for (;;) {
    const std::int64_t now = clock_.steady_ms();
    std::vector<runs::HookAnswer> answers;
    std::int64_t until = now + poll_ms;
    for (const auto& call : place.topic) {
      answers.push_back(answer_of(*call, now));
      if (answers.back().is_open) until = std::min(until, call->until);
    }
    if (const auto verdict = runs::verdict_of(answers)) co_return *verdict;
    const auto woken = co_await place.wait(until);
    if (woken == runtime::Woken::draining)
      co_return fail(Code::draining, "the daemon is shutting down; nothing was stored");
    if (woken == runtime::Woken::gone) co_return fail(Code::request_timeout, "the client has gone");
  }
}

}  // namespace sessiond::leases
