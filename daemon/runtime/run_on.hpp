// Runs a call on another executor and comes back with what it returned:
//   auto page = co_await run_on(disk.get_executor(), [] { return read(); });
// The call may block: it occupies its own thread, never the caller's. The coroutine is resumed on the executor that it
// was suspended on. The call must return a value (true when there is nothing to say) and must not throw.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <type_traits>

namespace sessiond::runtime {

template <class Executor, class Call>
boost::asio::awaitable<std::invoke_result_t<Call&>> run_on(Executor executor, Call call) {
  namespace asio = boost::asio;
  using Value = std::invoke_result_t<Call&>;
  return asio::async_initiate<const asio::use_awaitable_t<>, void(Value)>(
      [executor](auto handler, Call work) {
        auto back = asio::make_work_guard(asio::get_associated_executor(handler));
        asio::post(executor, [handler = std::move(handler), back = std::move(back), work = std::move(work)]() mutable {
          Value value = work();
          const auto home = back.get_executor();
          asio::post(home, [handler = std::move(handler), back = std::move(back), value = std::move(value)]() mutable {
            std::move(handler)(std::move(value));
          });
        });
      },
      asio::use_awaitable, std::move(call));
}

}  // namespace sessiond::runtime
