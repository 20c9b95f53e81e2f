#include "daemon/leases/hooks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::leases {
namespace {

constexpr std::size_t most_ended = 1'000;   // that a repeated answer finds
constexpr std::size_t most_open = 100'000;  // beyond them, calls that nobody waits for are not kept
constexpr std::int64_t longest_look = 60'000;
constexpr std::int64_t poll_ms = 1'000;  // how often a request that waits looks whether its client has gone

runs::HookAnswer answer_of(const Hooks::Call& call, std::int64_t now) {
  runs::HookAnswer answer{.name = call.call.name};
  const bool answered = !call.outcome.empty() && !json::find(call.outcome, "expired");
  if (!answered) {
    answer.is_open = call.outcome.empty() && call.until > now;
    answer.blocks = !answer.is_open && call.blocks_on_timeout;
    if (answer.blocks) answer.reason = fmt::format("{} did not answer in time", call.call.name);
    return answer;
  }
  answer.is_open = false;
  answer.blocks = json::find(call.outcome, "block") == "true";
  answer.reason = json::string_at(call.outcome, "reason").value_or("");
  answer.context = json::string_at(call.outcome, "additionalContext").value_or("");
  return answer;
}

}  // namespace

Hooks::Hooks(ledger::Ledger& ledger)
    : ledger_(ledger), timer_(ledger.parts().env.io), background_(ledger.parts().env.io) {}

void Hooks::start() { background_.run(run(), "hooks"); }

asio::awaitable<void> Hooks::stop() {
  stopping_ = true;
  timer_.cancel();
  co_await background_.wait_until_all_ended();
}

void Hooks::drain() {
  for (Waiter& waiter : waiting_) waiter.timer.cancel();
}

asio::awaitable<Result<void>> Hooks::change_now(Change how) {
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

void Hooks::keep(const journal::Event& event) {
  const bool waited_for = json::find(event.data, "blocking") == "true";
  if (!waited_for && due_.size() >= most_open) return;
  const auto text = [&event](std::string_view name) { return json::string_at(event.data, name).value_or(""); };
  const std::int64_t rest = json::int_at(event.data, "deadline").value_or(0) - event.envelope.time;
  auto call = std::make_shared<Call>(Call{.place = {event.envelope.agent, event.envelope.key},
                                          .call = {.target = {.key = event.envelope.key},
                                                   .id = text("id"),
                                                   .name = text("name"),
                                                   .event = text("event"),
                                                   .run_id = text("runId")},
                                          .blocks_on_timeout = text("onTimeout") == "block",
                                          .until = store::steady_ms() + std::max<std::int64_t>(rest, 1)});
  const bool is_next = due_.empty() || call->until < due_.begin()->first;
  due_.emplace(call->until, call->call.id);
  std::string id = call->call.id;
  calls_[std::move(id)] = std::move(call);
  if (is_next) timer_.cancel();
}

void Hooks::end(const std::string& id, std::string outcome) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || !found->second->outcome.empty()) return;
  const std::shared_ptr<Call> call = found->second;
  call->outcome = std::move(outcome);
  const auto [first, last] = due_.equal_range(call->until);
  for (auto each = first; each != last; ++each) {
    if (each->second != id) continue;
    due_.erase(each);
    break;
  }
  ended_.push_back(id);
  if (ended_.size() > most_ended) {
    calls_.erase(ended_.front());
    ended_.pop_front();
  }
  for (Waiter& waiter : waiting_)
    if (std::ranges::find(waiter.calls, call) != waiter.calls.end()) waiter.timer.cancel();
}

void Hooks::see(const journal::Event& event) {
  using journal::EventType;
  const EventType type = event.envelope.type;
  if (type == EventType::hook_called) return keep(event);
  if (type != EventType::hook_answered && type != EventType::hook_expired) return;
  std::string outcome(event.data);
  if (type == EventType::hook_expired) outcome.insert(1, R"("expired":true,)");
  end(json::string_at(event.data, "id").value_or(""), std::move(outcome));
}

asio::awaitable<void> Hooks::run() {
  while (!stopping_) {
    const std::int64_t now = store::steady_ms();
    const std::int64_t next = std::min(look(now), now + longest_look);
    timer_.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(next - now, 1)));
    boost::system::error_code woken;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

std::int64_t Hooks::look(std::int64_t now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const std::string id = due_.begin()->second;
    due_.erase(due_.begin());
    const std::shared_ptr<Call> call = calls_.at(id);
    for (Waiter& waiter : waiting_)
      if (std::ranges::find(waiter.calls, call) != waiter.calls.end()) waiter.timer.cancel();
    background_.run(expire(call), "expire_hook");
  }
  return due_.empty() ? INT64_MAX : due_.begin()->first;
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
  if (call->outcome.empty()) calls_.erase(call->call.id);
}

asio::awaitable<Result<runs::HookVerdict>> Hooks::wait(std::string calls, std::function<bool()> gone,
                                                       const bool& draining) {
  const auto waiter =
      waiting_.insert(waiting_.end(), {.calls = {}, .timer = asio::steady_timer(ledger_.parts().env.io)});
  const std::shared_ptr<void> leave(nullptr, [this, waiter](void*) { waiting_.erase(waiter); });
  for (const std::string_view id : json::elements(json::find(calls, "calls").value_or("[]")))
    if (const auto found = calls_.find(json::as_string(id).value_or("")); found != calls_.end())
      waiter->calls.push_back(found->second);
  for (;;) {
    if (draining) co_return fail(Code::draining, "the daemon is shutting down; nothing was stored");
    if (gone && gone()) co_return fail(Code::request_timeout, "the client has gone");
    const std::int64_t now = store::steady_ms();
    std::vector<runs::HookAnswer> answers;
    std::int64_t until = now + poll_ms;
    for (const auto& call : waiter->calls) {
      answers.push_back(answer_of(*call, now));
      if (answers.back().is_open) until = std::min(until, call->until);
    }
    if (const auto verdict = runs::verdict_of(answers)) co_return *verdict;
    waiter->timer.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(until - now, 1)));
    boost::system::error_code woken;
    co_await waiter->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

}  // namespace sessiond::leases
