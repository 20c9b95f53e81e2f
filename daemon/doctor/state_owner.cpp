#include "daemon/doctor/state_owner.hpp"

#include <unistd.h>

#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/process.hpp"

namespace sessiond::doctor {

StateOwner::State StateOwner::state() const {
  const store::Host where = store::where_ran(host, false);
  if (where == store::Host::earlier_boot) return State::gone;
  if (where == store::Host::elsewhere) return State::elsewhere;
  const store::ProcessStatus status = store::process_status(pid);
  return status.dead || status.starttime != starttime ? State::gone : State::alive;
}

std::filesystem::path state_lock_file(const std::filesystem::path& state_dir) { return state_dir / "sessiond.lock"; }

std::string to_json(const StateOwner& owner) {
  json::ObjectWriter out;
  out.integer("pid", owner.pid);
  out.integer("startedAt", owner.started_at);
  out.integer("starttime", static_cast<std::int64_t>(owner.starttime));
  out.string("host", owner.host);
  if (!owner.command.empty()) out.string("command", owner.command);
  return out.text() + "\n";
}

StateOwner this_process(std::int64_t now_ms, std::string_view command) {
  const pid_t pid = ::getpid();
  return {.pid = pid,
          .started_at = now_ms,
          .starttime = store::process_status(pid).starttime,
          .host = store::host_identity(),
          .command = std::string(command)};
}

Result<std::optional<StateOwner>> state_owner(const std::filesystem::path& state_dir) {
  const auto text = store::read_file(state_lock_file(state_dir));
  if (!text && text.error().code != Code::not_found) return std::unexpected(text.error());
  const auto pid = text && json::check(*text) ? json::int_at(*text, "pid") : std::nullopt;
  if (!pid) return std::nullopt;
  return StateOwner{.pid = *pid,
                    .started_at = json::int_at(*text, "startedAt").value_or(0),
                    .starttime = static_cast<std::uint64_t>(json::int_at(*text, "starttime").value_or(0)),
                    .host = json::string_at(*text, "host").value_or(""),
                    .command = json::string_at(*text, "command").value_or("")};
}

}  // namespace sessiond::doctor
