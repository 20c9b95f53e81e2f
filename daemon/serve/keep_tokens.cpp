#include "daemon/serve/keep_tokens.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <string>

#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"

namespace sessiond::serve {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds look_every{500};
constexpr int looks_a_save = 120;

// Reads the file again if it changed. A damaged or half-written file changes nothing and is logged once; `told` is the
// fault that was logged last.
asio::awaitable<void> look(api::Api& api, std::string& told) {
  const auto read =
      co_await runtime::run_on(api.ledger.parts().env.disk.get_executor(), [&api] { return api.tokens.look(); });
  if (read && *read) {
    api.streams.check_tokens();
    log::info("tokens_reloaded", {{"tokens", api.tokens.list().size()}});
  }
  std::string fault = read ? std::string() : read.error().detail;
  if (!fault.empty() && fault != told)
    log::error("tokens_not_reloaded", {{"error", fault}, {"next", "the tokens stay as they were until it is mended"}});
  told = std::move(fault);
}

}  // namespace

asio::awaitable<void> keep_tokens(api::Api& api) {
  asio::steady_timer timer(api.ledger.parts().env.io);
  std::string told;
  for (int looks = 1;; ++looks) {
    timer.expires_after(look_every);
    co_await timer.async_wait(asio::use_awaitable);
    co_await look(api, told);
    if (looks % looks_a_save != 0 || !api.tokens.unsaved()) continue;
    auto saved =
        co_await runtime::run_on(api.ledger.parts().env.disk.get_executor(), [&api] { return api.tokens.save(); });
    if (!saved) log::warn("tokens_not_saved", {{"error", saved.error().detail}});
  }
}

}  // namespace sessiond::serve
