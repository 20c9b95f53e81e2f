#include "daemon/ledger/background.hpp"

#include <boost/asio/co_spawn.hpp>
#include <exception>

#include "daemon/runtime/log.hpp"

namespace sessiond::ledger {
namespace {

void end_process(const std::exception_ptr& thrown, std::string_view name) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    log::error("fatal", {{"in", name}, {"error", error.what()}, {"next", "ending; the next start recovers"}});
  } catch (...) {
    log::error("fatal", {{"in", name}, {"next", "ending; the next start recovers"}});
  }
  std::terminate();
}

}  // namespace

void Background::run(asio::awaitable<void> task, std::string_view name) {
  ++running_;
  asio::co_spawn(io_, std::move(task), [this, name](const std::exception_ptr& thrown) {
    if (thrown) end_process(thrown, name);
    --running_;
    ended_.release(0);
  });
}

asio::awaitable<void> Background::wait_until_all_ended() {
  while (running_ > 0) co_await ended_.wait(0);
}

}  // namespace sessiond::ledger
