#include "store/fault_point.hpp"

#ifdef SESSIOND_FAULT_POINTS

#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "store/number.hpp"

namespace sessiond::store {
namespace {

struct Plan {
  std::size_t point = 0;
  int nth = 1;
  int signal = SIGKILL;
};

[[noreturn]] void refuse(std::string_view text) {
  std::fprintf(stderr, "SESSIOND_FAULT: \"%.*s\" is not <point>[:<nth>]=kill|stop\n", static_cast<int>(text.size()),
               text.data());
  std::_Exit(2);
}

Plan read_plan(std::string_view text) {
  Plan plan;
  const std::size_t equals = text.find('=');
  const std::string_view action = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  if (action != "kill" && action != "stop") refuse(text);
  if (action == "stop") plan.signal = SIGSTOP;
  const std::string_view where = text.substr(0, equals);
  const std::size_t colon = where.find(':');
  if (colon != std::string_view::npos) {
    plan.nth = parse_number<int>(where.substr(colon + 1)).value_or(0);
    if (plan.nth < 1) refuse(text);
  }
  const auto point = std::ranges::find(fault_points, where.substr(0, colon));
  if (point == fault_points.end()) refuse(text);
  plan.point = static_cast<std::size_t>(point - fault_points.begin());
  return plan;
}

std::vector<Plan> read_plans() {
  std::vector<Plan> plans;
  const char* const given = std::getenv("SESSIOND_FAULT");
  for (std::string_view rest = given == nullptr ? "" : given; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    plans.push_back(read_plan(rest.substr(0, comma)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return plans;
}

}  // namespace

void fault_point(FaultPoint point) {
  static const std::vector<Plan> plans = read_plans();
  static std::array<std::atomic<int>, fault_points.size()> times{};
  if (plans.empty()) return;
  const int time = ++times[point.index];
  for (const Plan& plan : plans)
    if (plan.point == point.index && plan.nth == time) ::raise(plan.signal);
}

}  // namespace sessiond::store

#endif
