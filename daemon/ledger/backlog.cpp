#include "daemon/ledger/backlog.hpp"

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>

namespace sessiond::ledger {
namespace {

constexpr std::int64_t patience_ms = 10'000;

}  // namespace

void Backlog::advance_to(std::uint64_t seq) {
  from_ = seq;
  measure();
  waiting_.release(UINT64_MAX);  // each looks for itself whether there is room now
}

void Backlog::drain() {
  waiting_.fail(
      0, std::make_shared<const Problem>(Problem{.code = Code::draining, .detail = "the daemon is shutting down"}));
}

asio::awaitable<Result<void>> Backlog::wait_for_room() {
  if (!std::exchange(watched_, true)) env_.background.run(end_waits(), "end_waits_for_room");
  if (env_.draining) co_return fail(Code::draining, "the daemon is shutting down");
  const auto deadline = static_cast<std::uint64_t>(store::steady_ms() + patience_ms);
  while (!has_room()) {
    if (const auto trouble = co_await waiting_.wait(deadline)) co_return std::unexpected(*trouble);
  }
  co_return Result<void>{};
}

asio::awaitable<void> Backlog::end_waits() {
  asio::steady_timer pause(env_.io);
  do {
    pause.expires_after(std::chrono::milliseconds(250));
    co_await pause.async_wait(asio::use_awaitable);
    waiting_.expire(static_cast<std::uint64_t>(store::steady_ms()),
                    std::make_shared<const Problem>(Problem{
                        .code = Code::degraded,
                        .detail = fmt::format("the journal is {} MiB ahead of the files, which do not follow{}{}",
                                              bytes_ >> 20, trouble_.empty() ? "" : ": ", trouble_),
                        .retry_after_s = 5}));
  } while (!waiting_.empty() && !env_.stopping);
  watched_ = false;
}

Result<void> Backlog::check(const Agent& agent) const {
  if (agent.checkpoint.trouble.empty() || commits_.journal().bytes_after(agent.reached.store) <= most) return {};
  return std::unexpected(Problem{.code = Code::degraded,
                                 .detail = fmt::format("agent {} cannot be written, and more than {} MiB of journal "
                                                       "wait for it: {}",
                                                       agent.id, most >> 20, agent.checkpoint.trouble),
                                 .retry_after_s = 5});
}

}  // namespace sessiond::ledger
