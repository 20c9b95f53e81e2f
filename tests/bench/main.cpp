// sessiond_bench: one scenario against a running server, its outcome as one JSON object on stdout. Exit 0, 1 (the run
// failed: why is on stderr) or 2 (usage).
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/bench/load.hpp"

namespace {

using namespace sessiond::bench;

constexpr const char* usage =
    "sessiond_bench --scenario S --port P [options]\n"
    "  S: create append patch get inbound redis-append redis-patch\n"
    "  --host 127.0.0.1     --token-file F       --agent main      --connections 64\n"
    "  --sessions 1         over so many sessions\n"
    "  --seconds 3          measured, after --warmup 0.5\n"
    "  --count N            exactly N requests, numbered from --first 0, instead of a time\n"
    "  --text-bytes 100     --idempotency-keys 0|1\n"
    "  --pid PID            measures this process's CPU time too\n";

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_token(const std::string& path, std::string& token) {
  std::ifstream in(path);
  return static_cast<bool>(in >> token);
}

bool read_option(std::string_view name, const std::string& value, Plan& plan) {
  Target& target = plan.target;
  if (name == "--scenario") return plan.scenario = value, true;
  if (name == "--host") return target.host = value, true;
  if (name == "--agent") return target.agent = value, true;
  if (name == "--port") return read_number(value, target.port);
  if (name == "--token-file") return read_token(value, target.token);
  if (name == "--connections") return read_number(value, plan.connections) && plan.connections > 0;
  if (name == "--sessions") return read_number(value, plan.sessions) && plan.sessions > 0;
  if (name == "--seconds") return read_number(value, plan.seconds);
  if (name == "--warmup") return read_number(value, plan.warmup_s);
  if (name == "--count") return read_number(value, plan.count);
  if (name == "--first") return read_number(value, plan.first_number);
  if (name == "--text-bytes") return read_number(value, target.text_bytes);
  if (name == "--idempotency-keys") return target.idempotency_keys = value == "1", true;
  if (name == "--pid") return read_number(value, plan.daemon_pid);
  return false;
}

void print(const Plan& plan, const Outcome& outcome) {
  const auto requests = static_cast<double>(outcome.latency.count());
  const auto us = [&](double q) { return static_cast<double>(outcome.latency.quantile(q)) / 1e3; };
  std::printf(
      "{\"scenario\":\"%s\",\"sessions\":%zu,\"connections\":%zu,\"requests\":%.0f,\"total\":%llu,\"seconds\":%.6f,"
      "\"perSecond\":%.1f,\"p50Us\":%.1f,\"p99Us\":%.1f,\"maxUs\":%.1f,\"clientCpuUs\":%.3f,\"daemonCpuUs\":%.3f}\n",
      plan.scenario.c_str(), plan.sessions, plan.connections, requests, static_cast<unsigned long long>(outcome.total),
      outcome.seconds, requests / outcome.seconds, us(0.5), us(0.99), static_cast<double>(outcome.latency.max()) / 1e3,
      outcome.client_cpu_s * 1e6 / requests, outcome.daemon_cpu_s * 1e6 / requests);
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && read_option(argv[i], argv[i + 1], plan)) continue;
    std::fprintf(stderr, "sessiond_bench: %s\n%s", argv[i], usage);
    return 2;
  }
  if (plan.scenario.empty() || plan.target.port == 0) {
    std::fputs(usage, stderr);
    return 2;
  }
  const auto outcome = run(plan);
  if (!outcome) {
    std::fprintf(stderr, "sessiond_bench %s: %s\n", plan.scenario.c_str(), outcome.error().c_str());
    return 1;
  }
  if (outcome->latency.count() == 0) {
    std::fprintf(stderr, "sessiond_bench %s: nothing was measured\n", plan.scenario.c_str());
    return 1;
  }
  print(plan, *outcome);
  return 0;
}
