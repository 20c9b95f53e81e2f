#include "config/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "config/listen_address.hpp"
#include "config/rules.hpp"

namespace sessiond::config {
namespace {

// Collects faults, and knows which keys have one already.
class Findings {
 public:
  explicit Findings(std::vector<ConfigFault>& faults) : faults_(faults), known_(faults.size()) {}

  // Adds a fault at `at`, unless it or one of `others` has a fault already.
  void add(std::string_view at, std::initializer_list<std::string_view> others, std::string detail) {
    if (spoilt(at) || std::ranges::any_of(others, [&](std::string_view other) { return spoilt(other); })) return;
    faults_.push_back({std::string(at), std::move(detail)});
  }

 private:
  // Whether the key, something inside it, or a group around it has a fault.
  bool spoilt(std::string_view key) const {
    const auto covers = [](std::string_view outer, std::string_view inner) {
      return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
    };
    return std::any_of(faults_.begin(), faults_.begin() + static_cast<std::ptrdiff_t>(known_),
                       [&](const ConfigFault& f) { return covers(f.pointer, key) || covers(key, f.pointer); });
  }

  std::vector<ConfigFault>& faults_;
  std::size_t known_;
};

void check_listen(const Config::Listen& listen, Findings& findings) {
  std::vector<ListenAddress> seen;
  for (const std::string& text : listen.tcp) {
    const auto address = parse_listen_address(text);
    if (!address) continue;  // possible only in a Config made by code; parse_config refuses it
    if (!address->loopback && !listen.insecure && !listen.tls.cert)
      findings.add(
          "/listen/tcp", {"/listen/insecure", "/listen/tls"},
          fmt::format("{} can be reached from other machines, and without TLS tokens and messages can be read on "
                      "the way: set /listen/tls, listen on 127.0.0.1 (behind a proxy that speaks TLS), or set "
                      "/listen/insecure to true where the network is trusted",
                      text));
    if (address->port != 0 && std::ranges::find(seen, *address) != seen.end())
      findings.add("/listen/tcp", {}, fmt::format("{} is the address of an earlier element", text));
    seen.push_back(*address);
  }
  if (listen.tls.cert.has_value() != listen.tls.key.has_value())
    findings.add("/listen/tls", {"/listen/tls/cert", "/listen/tls/key"}, "needs both cert and key");
  if (listen.tls.client_ca && !listen.tls.cert)
    findings.add("/listen/tls/clientCa", {"/listen/tls/cert"}, "has no effect without cert and key");
  if (listen.tcp.empty() && !listen.unix)
    findings.add("/listen", {"/listen/tcp", "/listen/unix"}, "neither tcp nor unix: no client could reach the daemon");
}

}  // namespace

void find_contradictions(const Config& config, std::vector<ConfigFault>& faults) {
  Findings findings(faults);
  check_listen(config.listen, findings);
  if (config.limits.target_bytes > config.limits.header_bytes)
    findings.add(
        "/limits/targetBytes", {"/limits/headerBytes"},
        fmt::format("{} does not fit into headerBytes, {}", config.limits.target_bytes, config.limits.header_bytes));
  if (config.limits.header_timeout_ms > config.limits.request_timeout_ms &&
      config.limits.header_timeout_ms != Config::Limits{}.header_timeout_ms)
    findings.add("/limits/headerTimeoutMs", {"/limits/requestTimeoutMs"},
                 fmt::format("{} is longer than requestTimeoutMs, {}", config.limits.header_timeout_ms,
                             config.limits.request_timeout_ms));
  if (config.journal.max_bytes < config.journal.segment_bytes)
    findings.add("/journal/maxBytes", {"/journal/segmentBytes"},
                 fmt::format("{} is less than one segment (segmentBytes, {})", config.journal.max_bytes,
                             config.journal.segment_bytes));
  if (config.stream.heartbeat_ms > config.stream.stall_timeout_ms &&
      config.stream.heartbeat_ms != Config::Stream{}.heartbeat_ms)
    findings.add("/stream/heartbeatMs", {"/stream/stallTimeoutMs"},
                 fmt::format("{} is longer than stallTimeoutMs, {}: a client that is gone would not be noticed in time",
                             config.stream.heartbeat_ms, config.stream.stall_timeout_ms));
  if (is_outside(config.store.path_template) && !config.store.allow_outside)
    findings.add("/store/pathTemplate", {"/store/allowOutside"},
                 "must be relative, a path below stateDir, unless store.allowOutside is true");
  const Config::Session& session = config.session;
  if (!session.auto_save)
    findings.add("/session/autoSave", {}, "is always on: a write is answered when it is on disk; leave it out");
  if (session.max_sessions && session.maintenance.max_entries &&
      *session.max_sessions != *session.maintenance.max_entries)
    findings.add("/session/maxSessions", {"/session/maintenance/maxEntries"},
                 fmt::format("{} is not maintenance.maxEntries, {}: they are two names of one limit",
                             *session.max_sessions, *session.maintenance.max_entries));
  const Config::Lock& lock = config.store.lock;
  if (lock.poll_interval_ms > lock.timeout_ms)
    findings.add("/store/lock/pollIntervalMs", {"/store/lock/timeoutMs"},
                 fmt::format("{} is longer than timeoutMs, {}: the lock would be tried only once",
                             lock.poll_interval_ms, lock.timeout_ms));
  if (lock.poll_interval_ms > lock.stale_ms)
    findings.add("/store/lock/pollIntervalMs", {"/store/lock/staleMs"},
                 fmt::format("{} is longer than staleMs, {}", lock.poll_interval_ms, lock.stale_ms));
}

}  // namespace sessiond::config
