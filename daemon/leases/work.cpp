#include "daemon/leases/work.hpp"

namespace sessiond::leases {

void Work::start() {
  claims.leases().start();
  runners.start();
  approvals.start();
  takeovers.start();
  hooks.start();
  outbox.start();
  early.start();
}

void Work::see(const decide::Change& event) {
  claims.leases().see(event);
  runners.see(event);
  approvals.see(event);
  takeovers.see(event);
  hooks.see(event);
  outbox.see(event);
  early.see(event);
}

void Work::drain() {
  claims.leases().drain();
  claims.drain();
  approvals.drain();
  hooks.drain();
  outbox.drain();
}

asio::awaitable<void> Work::stop() {
  co_await claims.leases().stop();
  co_await runners.stop();
  co_await approvals.stop();
  co_await takeovers.stop();
  co_await hooks.stop();
  co_await outbox.stop();
  co_await early.stop();
}

}  // namespace sessiond::leases
