#include "daemon/leases/adopter.hpp"

#include "daemon/ledger/book_files.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"

namespace sessiond::leases {

asio::awaitable<Result<void>> Adopter::store(std::uint64_t change) {
  while (stored_ < change) {
    if (is_storing_) {
      co_await written_.wait(0);
      continue;
    }
    is_storing_ = true;
    const std::uint64_t last = changes_;
    auto written = co_await runtime::run_on(
        ledger_.parts().env.disk.get_executor(),
        [file = ledger::adoptions_file(ledger_.parts().env.paths), json = ledger_.parts().env.adoptions->to_json()] {
          return ledger::write_adoptions(file, json);
        });
    is_storing_ = false;
    if (written) stored_ = last;
    written_.release(0);
    if (!written) co_return written;
  }
  co_return Result<void>{};
}

asio::awaitable<Result<void>> Adopter::adopt(decide::Adoption part) {
  decide::Adoptions& adoptions = *ledger_.parts().env.adoptions;
  part.claimed_at = ledger_.parts().commits.clock().now();
  if (adoptions.renew(part, ledger_.rules().deliveries.adopt_ms / 10)) ++changes_;
  auto stored = co_await store(changes_);
  if (!stored) adoptions.mark_unstored(part);
  co_return stored;
}

void Adopter::renew(decide::Adoption part) {
  part.claimed_at = ledger_.parts().commits.clock().now();
  ledger_.parts().env.adoptions->renew(std::move(part), INT64_MAX);
}

// An adoption holds for a tenth longer than it must, since its last tenth may not be stored.
asio::awaitable<void> Adopter::drop_old() {
  const std::int64_t adopt_ms = ledger_.rules().deliveries.adopt_ms;
  const std::int64_t now = ledger_.parts().commits.clock().now();
  co_await store_dropped(ledger_.parts().env.adoptions->drop_older(now - adopt_ms - adopt_ms / 10));
}

asio::awaitable<void> Adopter::drop_token(std::string_view token) {
  co_await store_dropped(ledger_.parts().env.adoptions->drop_token(token));
}

asio::awaitable<void> Adopter::store_dropped(bool dropped) {
  if (!dropped) co_return;
  if (auto stored = co_await store(++changes_); !stored)
    log::warn("adoptions_not_written",
              {{"error", stored.error().detail}, {"next", "trying again with the next claim"}});
}

}  // namespace sessiond::leases
