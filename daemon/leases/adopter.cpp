#include "daemon/leases/adopter.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/try.hpp"

namespace sessiond::leases {

asio::awaitable<Result<void>> Adopter::store() {
  while (is_storing_) {  // one write at a time, so that the last one is the newest
    asio::steady_timer pause(ledger_.parts().env.io, std::chrono::milliseconds(1));
    boost::system::error_code woken;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  is_storing_ = true;
  const auto written = co_await runtime::run_on(
      ledger_.parts().env.disk.get_executor(),
      [file = ledger::adoptions_file(ledger_.parts().env.paths), json = ledger_.parts().env.adoptions->to_json()] {
        return ledger::write_adoptions(file, json);
      });
  is_storing_ = false;
  co_return written;
}

asio::awaitable<Result<void>> Adopter::adopt(decide::Adoption part) {
  decide::Adoptions& adoptions = *ledger_.parts().env.adoptions;
  part.claimed_at = ledger_.parts().commits.clock().now();
  CO_TRY(const bool changed, adoptions.renew(part, ledger_.rules().deliveries.adopt_ms / 10));
  if (!changed && !is_storing_) co_return Result<void>{};
  auto stored = co_await store();
  if (!stored) adoptions.mark_unstored(part);
  co_return stored;
}

void Adopter::renew(decide::Adoption part) {
  part.claimed_at = ledger_.parts().commits.clock().now();
  static_cast<void>(ledger_.parts().env.adoptions->renew(std::move(part), INT64_MAX));
}

// An adoption holds for a tenth longer than it must, since its last tenth may not be stored.
asio::awaitable<void> Adopter::drop_old() {
  const std::int64_t adopt_ms = ledger_.rules().deliveries.adopt_ms;
  const std::int64_t now = ledger_.parts().commits.clock().now();
  if (!ledger_.parts().env.adoptions->drop_older(now - adopt_ms - adopt_ms / 10)) co_return;
  if (auto stored = co_await store(); !stored)
    log::warn("adoptions_not_written",
              {{"error", stored.error().detail}, {"next", "trying again with the next claim"}});
}

}  // namespace sessiond::leases
