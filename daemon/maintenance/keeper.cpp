#include "daemon/maintenance/keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <span>

#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::maintenance {
namespace {

constexpr std::int64_t day_ms = 24LL * 3'600'000;
constexpr std::int64_t first_look_ms = 60'000;  // after the start, at most

bool any(const policy::RetentionLimits& limits) {
  return limits.prune_after_ms || limits.max_entries || limits.max_disk_bytes || limits.archive_retention_ms;
}

std::string name_of(const Taken& one) { return one.kind == Taken::Kind::session ? one.key : std::string(one.file()); }

std::filesystem::path file_of(const ledger::Ledger& ledger) {
  return ledger.parts().env.paths.journal_dir() / "retention";
}

}  // namespace

Keeper::Keeper(ledger::Ledger& ledger, const config::Config& config, Blobs& blobs,
               std::function<asio::awaitable<decide::Streamed>()> streamed)
    : ledger_(ledger),
      config_(config),
      blobs_(blobs),
      streamed_(std::move(streamed)),
      timer_(ledger.parts().env.io),
      background_(ledger.parts().env.io) {
  load();
}

void Keeper::start() { background_.run(run(), "keeper"); }

asio::awaitable<void> Keeper::stop() {
  stopping_ = true;
  timer_.cancel();
  co_await background_.wait_until_all_ended();
}

asio::awaitable<void> Keeper::run() {
  co_await blobs_.count();
  std::int64_t next = store::steady_ms() + first_look_ms;
  while (!stopping_) {
    const std::int64_t soonest = store::steady_ms() + config_.session.maintenance.every_ms;
    next = std::min(next, soonest);
    timer_.expires_after(std::chrono::milliseconds(next - store::steady_ms()));
    boost::system::error_code reconfigured;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, reconfigured));
    if (stopping_ || store::steady_ms() < next) continue;
    co_await look();
    if (!stopping_) co_await blobs_.sweep();
    next = INT64_MAX;
  }
}

asio::awaitable<void> Keeper::look() {
  if (!any(limits_of(config_.session))) {
    notices_.clear();
    co_return co_await save();
  }
  const std::vector<std::string> agents = co_await ledger_.agent_ids();
  std::erase_if(notices_, [&](const auto& of) { return std::ranges::find(agents, of.first) == agents.end(); });
  for (const std::string& agent : agents) {
    if (stopping_) break;
    const std::int64_t told = notices_[agent].told;
    const auto looked = co_await look_at(agent);
    if (notices_[agent].told != told) co_await save();  // the notice is durable; that it was given must be, too
    if (!looked && looked.error().code != Code::agent_not_found && looked.error().code != Code::draining)
      log::warn("maintenance_failed",
                {{"agent", agent}, {"error", looked.error().detail}, {"next", "looking again later"}});
  }
  co_await save();
}

asio::awaitable<Result<void>> Keeper::look_at(std::string agent) {
  const Visit visit(ledger_, agent);
  const config::Config::Maintenance limits = config_.session.maintenance;  // a reload may change it meanwhile
  const decide::Protection protection{
      .preserve = limits.preserve, .streamed = co_await streamed_(), .main_key = ledger_.rules().routing.main_key};
  CO_TRY(auto selected, co_await select(ledger_, agent, limits_of(config_.session), protection));
  std::vector<Taken>& reached = selected.taken;

  Notices before = std::exchange(notices_[agent], {});
  Notices& notices = notices_[agent];
  notices.told = before.told;
  for (const Taken& one : reached) {
    const AllNamed& known = before.of(one);
    const auto named = known.find(name_of(one));
    if (named != known.end() && named->second.time == one.time) notices.of(one).insert(*named);
  }
  CO_TRY(co_await tell(agent, notices, reached));
  if (limits.mode != config::Config::MaintenanceMode::enforce) co_return Result<void>{};
  std::erase_if(reached, [&](const Taken& one) {
    const auto named = notices.of(one).find(name_of(one));
    return named == notices.of(one).end() || now() - named->second.at < limits.notice_ms;
  });
  if (reached.empty()) co_return Result<void>{};
  const auto done = co_await take(ledger_, "sessiond", reached, protection);
  for (const Taken& one : reached) notices.of(one).erase(name_of(one));
  if (!reached.empty()) log::info("maintained", {{"agent", agent}, {"count", reached.size()}});
  co_return done;
}

// Publishes what has not been named, unless there was a notice today.
asio::awaitable<Result<void>> Keeper::tell(const std::string& agent, Notices& notices,
                                           const std::vector<Taken>& reached) {
  std::vector<const Taken*> fresh;
  for (const Taken& one : reached)
    if (!notices.of(one).contains(name_of(one))) fresh.push_back(&one);
  const std::int64_t time = now();
  const bool told_today = notices.told != 0 && notices.told <= time && time - notices.told < day_ms;
  if (fresh.empty() || told_today) co_return Result<void>{};
  for (std::span<const Taken* const> left(fresh); !left.empty();) {
    const auto some = left.first(std::min(left.size(), limits::noticed));
    left = left.subspan(some.size());
    std::vector<std::string> keys;
    std::vector<std::string> files;
    for (const Taken* one : some) (one->kind == Taken::Kind::session ? keys : files).push_back(name_of(*one));
    json::ObjectWriter data;
    data.raw("keys", json::array_of(keys));
    if (!files.empty()) data.raw("files", json::array_of(files));
    CO_TRY(co_await ledger_.announce(journal::EventType::retention_notice, data.text(), "sessiond", agent));
    for (const Taken* one : some) notices.of(*one)[name_of(*one)] = {.at = time, .time = one->time};
  }
  notices.told = time;
  co_return Result<void>{};
}

asio::awaitable<void> Keeper::save() {
  const auto json_of = [](const AllNamed& all) {
    std::string out;
    for (const auto& [name, named] : all)
      out += fmt::format("{}{}:[{},{}]", out.empty() ? "" : ",", json::quote(name), named.at, named.time);
    return "{" + out + "}";
  };
  json::ObjectWriter all;
  for (const auto& [agent, notices] : notices_) {
    json::ObjectWriter one;
    one.integer("told", notices.told);
    one.raw("sessions", json_of(notices.sessions));
    one.raw("files", json_of(notices.files));
    if (notices.told != 0) all.raw(agent, one.text());
  }
  std::string text = all.text() + "\n";
  if (text == (saved_.empty() ? "{}\n" : saved_)) co_return;
  const auto saved = co_await runtime::run_on(ledger_.parts().env.disk.get_executor(), [path = file_of(ledger_), text] {
    return store::replace_file(path, text);
  });
  if (saved)
    saved_ = std::move(text);
  else
    log::warn("notices_not_saved",
              {{"error", saved.error().detail}, {"next", "after a restart, everything is named again before it goes"}});
}

void Keeper::load() {
  const auto path = file_of(ledger_);
  auto text = store::read_file(path);
  if (!text && text.error().code == Code::not_found) return;
  const std::string_view object = text ? store::trim(*text) : "";
  if (!json::check(object) || json::kind(object) != json::Kind::object)
    return log::warn("notices_damaged",
                     {{"path", path.native()}, {"next", "everything is named again before it goes"}});
  const auto read = [](std::string_view notices, std::string_view list, AllNamed& out) {
    for (const json::Member& member : json::members(json::find(notices, list).value_or("{}"))) {
      std::vector<std::int64_t> times;
      for (const auto time : json::elements(member.value)) times.push_back(json::as_int(time).value_or(INT64_MAX));
      if (times.size() == 2) out[json::unescape(member.name)] = {.at = times[0], .time = times[1]};
    }
  };
  for (const json::Member& agent : json::members(object)) {
    Notices& notices = notices_[json::unescape(agent.name)];
    notices.told = json::int_at(agent.value, "told").value_or(0);
    read(agent.value, "sessions", notices.sessions);
    read(agent.value, "files", notices.files);
  }
  saved_ = std::move(*text);
}

}  // namespace sessiond::maintenance
