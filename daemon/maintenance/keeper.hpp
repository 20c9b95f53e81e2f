// Maintains the stores by itself, every session.maintenance.everyMs: removes blobs that no session names, and, when a
// limit is set, looks for what it reaches. What a limit reaches is named
// in the event retention.notice, which is published for an agent once a day at most. In mode enforce it goes when
// noticeMs has passed since it was named and a limit reaches it still. A session that was used meanwhile, or that no
// limit reaches any more, has to be named again.
//
// The file journal/retention says what was named when, so that neither a restart nor a second notice within a day
// begins anew:
//   {"<agent>":{"told":<time>,"sessions":{"<key>":[<named>,<last interaction>]},"files":{"<name>":[<named>,<time>]}}}
// `told` and `named` are ms of the clock of ages (store/journal/age_clock.hpp), which nobody can set. If the file is
// lost or damaged, everything is named again before it goes. Thread: the loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/maintenance/blobs.hpp"
#include "daemon/maintenance/maintenance.hpp"

namespace sessiond::maintenance {

class Keeper {
 public:
  // `config` may change while this lives; reconfigured() is called then. Reads the file: blocks.
  Keeper(ledger::Ledger& ledger, const config::Config& config, Blobs& blobs,
         std::function<asio::awaitable<decide::Streamed>()> streamed);

  void start();                  // looks from now on
  asio::awaitable<void> stop();  // ends a look that is under way
  void reconfigured() { timer_.cancel(); }
  asio::awaitable<void> look();  // at all agents, once

 private:
  asio::awaitable<void> run();
  struct Named {
    std::int64_t at = 0;    // of the notice
    std::int64_t time = 0;  // Taken::time as it was then
  };
  using AllNamed = std::map<std::string, Named, std::less<>>;
  struct Notices {
    std::int64_t told = 0;  // the last notice; 0: none
    AllNamed sessions{};    // by key
    AllNamed files{};       // archives and orphans by name

    AllNamed& of(const Taken& one) { return one.kind == Taken::Kind::session ? sessions : files; }
  };

  asio::awaitable<Result<void>> look_at(std::string agent);
  asio::awaitable<Result<void>> tell(const std::string& agent, Notices& notices, const std::vector<Taken>& reached);
  asio::awaitable<void> save();
  void load();
  std::int64_t now() const { return ledger_.parts().commits.clock().now(); }

  ledger::Ledger& ledger_;
  const config::Config& config_;
  Blobs& blobs_;
  std::function<asio::awaitable<decide::Streamed>()> streamed_;
  asio::steady_timer timer_;
  ledger::Background background_;
  bool stopping_ = false;
  std::map<std::string, Notices, std::less<>> notices_{};  // by agent
  std::string saved_{};                                    // what the file holds
};

}  // namespace sessiond::maintenance
