#include "daemon/doctor/repair.hpp"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <optional>

#include "daemon/doctor/examination.hpp"
#include "daemon/ledger/show.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"

namespace sessiond::doctor {
namespace {

namespace asio = boost::asio;

// An answer for which it is enough that the store can be read.
Result<bool> loaded_is_enough(const decide::AgentState&, const ledger::Seen&) { return true; }

// Opens the ledger and reads the damaged stores, which rebuilds them; then stops as the daemon does.
asio::awaitable<Result<std::vector<std::string>>> start_and_stop(ledger::Ledger& ledger,
                                                                 std::vector<std::string> agents) {
  Result<void> outcome;
  for (const std::string& agent : agents) {
    if (auto loaded = co_await ledger.show(agent, false, loaded_is_enough); !loaded && outcome)
      outcome = std::unexpected(std::move(loaded.error()));
  }
  co_await ledger.stop();
  if (!outcome) co_return std::unexpected(std::move(outcome.error()));
  co_return status_of(ledger.parts()).repairs;
}

Result<std::vector<std::string>> rebuild(const config::Config& config, const std::vector<std::string>& agents) {
  asio::io_context io{1};
  asio::thread_pool disk{1};
  TRY(auto ledger, ledger::Ledger::open(io, disk, config, decide::Rules{}, true));
  std::optional<Result<std::vector<std::string>>> done;
  std::exception_ptr bug;
  asio::co_spawn(io, start_and_stop(*ledger, agents),
                 [&](std::exception_ptr thrown, Result<std::vector<std::string>> outcome) {
                   bug = std::move(thrown);
                   done = std::move(outcome);
                 });
  const auto work = asio::make_work_guard(io);
  while (!done) io.run_one();
  disk.join();
  if (bug) std::rethrow_exception(bug);
  return std::move(*done);
}

}  // namespace

Report run_repair(const config::Config& config) {
  const DoctorOptions options{.state_dir = config.state_dir,
                              .path_template = config.store.path_template,
                              .damage_after = std::chrono::milliseconds(config.store.damage_after_ms),
                              .lock_held = true};
  Examination exam(options, true);
  examine(exam);
  Report report;
  for (const Step& step : exam.report.steps()) report.step(step);
  for (const Finding& finding : exam.report.findings())
    if (finding.check == "repair") report.add(finding);
  if (!exam.damaged_journal && exam.damaged_stores.empty() && !exam.lost_lines) return report;
  if (const auto checkpoint = exam.paths.journal_dir() / "CHECKPOINT"; exam.lost_lines && store::stat_of(checkpoint)) {
    if (auto kept = exam.put_away(checkpoint); !kept)  // without a CHECKPOINT, the whole journal is applied again
      report.error("repair", checkpoint.native(), kept.error().detail, "make sure that it can be moved");
  }

  const std::string place = exam.damaged_journal ? exam.paths.journal_dir().native() : config.state_dir;
  config::Config at_once = config;
  at_once.store.damage_after_ms = 0;  // the examination has left out what may be just being written
  const auto repairs = rebuild(at_once, exam.damaged_stores);
  if (!repairs) {
    report.error("repair", place, fmt::format("could not be rebuilt: {}", repairs.error().detail),
                 "what was kept is beside it; see the log above");
    return report;
  }
  for (const std::string& what : *repairs) report.step({.action = "rebuild", .path = place, .detail = what});
  return report;
}

}  // namespace sessiond::doctor
