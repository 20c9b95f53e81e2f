// `sessiond serve --demo`: a daemon with a believable day in it, to look at without a bridge. Its state lies in a
// temporary directory that is removed when it ends. The day is web/demo.http, which is played against the daemon's own
// API: first what has happened, then, for as long as the daemon runs, what goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/serve/serve.hpp"
#include "store/problem.hpp"

namespace sessiond::cli {

// A step of web/demo.http: a line `POST /v1/… {json}` with `keep` and `wait` before the next one.
struct DemoStep {
  std::string method{}, target{}, body{};
  std::map<std::string, std::string> keep{};  // name → field of the reply, `lease.fence`
  std::chrono::milliseconds wait{0};          // afterwards
};

struct DemoDay {
  std::vector<DemoStep> past{}, live{};  // once; over and over
};

// Reads web/demo.http. Fails with the line that it cannot read.
Result<DemoDay> read_day(std::string_view script);

// Puts times and kept values in: `{{-90m}}` is the time 90 minutes before `now_ms`, in ms since the epoch; `{{name}}`
// is what was kept under that name, else nothing.
std::string filled_in(std::string_view text, const std::map<std::string, std::string>& kept, std::int64_t now_ms);

// Runs until a signal ends the daemon. Exit codes: those of `serve`.
int serve_demo(serve::ServeOptions options);

}  // namespace sessiond::cli
