// sessiond_stream_bench: one run against a running server, its outcome as one JSON object on stdout; or the bare
// server. Exit 0, 1 (the run failed: why is on stderr) or 2 (usage).
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/bench/stream/bare_server.hpp"
#include "tests/bench/stream/run.hpp"

namespace {

using namespace sessiond::bench::stream;

constexpr const char* usage =
    "sessiond_stream_bench --server sessiond|nchan|bare --port P [options]\n"
    "sessiond_stream_bench --bare-server PORT   serves until it is ended, prints its port (0: any)\n"
    "  --mode fanout        --events N at --rate 50 a second, --burst 1 at a time; over when every reader has all\n"
    "         closed-loop   each publisher sends its next when the last is acknowledged, for --seconds;\n"
    "                       --most-behind N: they wait while a reader is further behind\n"
    "         replay        readers start where --path says; over when they reach the head or after --seconds\n"
    "         idle          readers are opened and left alone for --seconds\n"
    "  --host 127.0.0.1     --token-file F\n"
    "  --path /v1/events    of the stream          --publish-path P    nchan: where events are posted\n"
    "  --readers 1000       --opening 256 of them at once\n"
    "  --stalled 0          more readers that read nothing until the rest have all; --stalled-buffer 4096 bytes\n"
    "  --publishers 1       keep-alive connections, over --sessions 1\n"
    "  --payload 100        bytes of text in an event\n"
    "  --reconnect 0|1      readers resume with Last-Event-ID, publishers repeat with the same Idempotency-Key\n"
    "  --pid PID            a process of the server, measured; may be given again\n";

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_server(std::string_view text, Server& server) {
  if (text == "sessiond") return server = Server::sessiond, true;
  if (text == "nchan") return server = Server::nchan, true;
  if (text == "bare") return server = Server::bare, true;
  return false;
}

bool read_mode(std::string_view text, Mode& mode) {
  if (text == "fanout") return mode = Mode::fanout, true;
  if (text == "closed-loop") return mode = Mode::closed_loop, true;
  if (text == "replay") return mode = Mode::replay, true;
  if (text == "idle") return mode = Mode::idle, true;
  return false;
}

bool read_token(const std::string& path, std::string& token) {
  std::ifstream in(path);
  return static_cast<bool>(in >> token);
}

bool read_option(std::string_view name, const std::string& value, Plan& plan) {
  if (name == "--server") return read_server(value, plan.server);
  if (name == "--mode") return read_mode(value, plan.mode);
  if (name == "--host") return plan.host = value, true;
  if (name == "--port") return read_number(value, plan.port);
  if (name == "--token-file") return read_token(value, plan.token);
  if (name == "--path") return plan.path = value, true;
  if (name == "--publish-path") return plan.publish_path = value, true;
  if (name == "--readers") return read_number(value, plan.readers);
  if (name == "--opening") return read_number(value, plan.opening) && plan.opening > 0;
  if (name == "--stalled") return read_number(value, plan.stalled);
  if (name == "--stalled-buffer") return read_number(value, plan.stalled_buffer);
  if (name == "--publishers") return read_number(value, plan.publishers) && plan.publishers > 0;
  if (name == "--sessions") return read_number(value, plan.sessions) && plan.sessions > 0;
  if (name == "--events") return read_number(value, plan.events);
  if (name == "--rate") return read_number(value, plan.rate) && plan.rate > 0;
  if (name == "--burst") return read_number(value, plan.burst) && plan.burst > 0;
  if (name == "--most-behind") return read_number(value, plan.most_behind);
  if (name == "--payload") return read_number(value, plan.payload);
  if (name == "--seconds") return read_number(value, plan.seconds);
  if (name == "--reconnect") return plan.reconnect = value == "1", true;
  if (name == "--pid") return read_number(value, plan.pids.emplace_back());
  return false;
}

void print(const Plan& plan, const Outcome& outcome) {
  const auto number = [](const char* name, auto value) {
    std::printf(",\"%s\":%llu", name, static_cast<unsigned long long>(value));
  };
  const auto real = [](const char* name, double value) { std::printf(",\"%s\":%.4f", name, value); };
  const auto delivered = static_cast<double>(outcome.delivered);
  const auto each = [&](std::uint64_t sum) { return delivered > 0 ? static_cast<double>(sum) / delivered : 0; };
  const auto ms = [&](double q) { return static_cast<double>(outcome.latency.quantile(q)) / 1e6; };
  std::printf("{\"complete\":%s", outcome.complete ? "true" : "false");
  number("readers", plan.readers);
  number("stalled", plan.stalled);
  number("published", outcome.published);
  number("unacknowledged", outcome.unacknowledged);
  number("delivered", outcome.delivered);
  real("seconds", outcome.seconds);
  real("perSecond", outcome.seconds > 0 ? delivered / outcome.seconds : 0);
  real("serverCpuUs", each(outcome.server_cpu_ns) / 1e3);
  real("clientCpuUs", each(outcome.client_cpu_ns) / 1e3);
  real("serverCpuS", static_cast<double>(outcome.server_cpu_ns) / 1e9);
  real("bytesPerEvent", each(outcome.bytes));
  real("p50Ms", ms(0.5));
  real("p90Ms", ms(0.9));
  real("p99Ms", ms(0.99));
  real("p999Ms", ms(0.999));
  real("maxMs", static_cast<double>(outcome.latency.max()) / 1e6);
  number("lost", outcome.faults.lost);
  number("doubled", outcome.faults.doubled);
  number("outOfOrder", outcome.faults.out_of_order);
  number("changed", outcome.faults.changed);
  number("gaps", outcome.faults.gaps);
  number("reconnects", outcome.reconnects);
  number("retries", outcome.retries);
  real("lateMs", outcome.late_ms);
  real("openSeconds", outcome.open_seconds);
  real("drainSeconds", outcome.drain_seconds);
  number("residentBefore", outcome.before.resident);
  number("residentAfter", outcome.after.resident);
  number("proportionalBefore", outcome.before.proportional);
  number("proportionalAfter", outcome.after.proportional);
  std::puts("}");
}

int start(int argc, char** argv) {
  Plan plan;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    std::uint16_t port = 0;
    if (name == "--bare-server" && i + 1 < argc && read_number(argv[i + 1], port)) serve_bare(port);
    if (i + 1 < argc && read_option(name, argv[i + 1], plan)) continue;
    std::fprintf(stderr, "sessiond_stream_bench: %s\n%s", argv[i], usage);
    return 2;
  }
  if (plan.port == 0) {
    std::fputs(usage, stderr);
    return 2;
  }
  print(plan, run(plan));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sessiond_stream_bench: %s\n", error.what());
    return 1;
  }
}
