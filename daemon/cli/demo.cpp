#include "daemon/cli/demo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stop_token>
#include <thread>

#include "daemon/cli/client.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::cli {

extern const std::string_view demo_script;

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// Long waits for people: nobody who looks around is hurried. One rule denies a channel, so that there is one to find.
constexpr std::string_view demo_config = R"({
  "approvals": {"timeoutMs": 86400000},
  "sendPolicy": {"default": "allow", "evaluation": "first-match", "rules": [
    {"match": {"channel": "slack", "to": "C-announcements"}, "action": "deny"},
    {"match": {"channel": "whatsapp", "chatType": "group"}, "action": "deny"},
    {"match": {"channel": "email", "accountId": "press"}, "action": "deny"}]}
})";

// `-90m`: a time before now; nothing for other words.
std::optional<std::int64_t> moment_before(std::string_view word, std::int64_t now) {
  if (!word.starts_with('-') || word.size() < 3) return std::nullopt;
  std::int64_t number = 0;
  const auto end = word.data() + word.size() - 1;
  if (std::from_chars(word.data() + 1, end, number).ptr != end) return std::nullopt;
  switch (word.back()) {
    case 's':
      return now - number * 1000;
    case 'm':
      return now - number * 60'000;
    case 'h':
      return now - number * 3'600'000;
    default:
      return std::nullopt;
  }
}

// The value at a path as `lease.fence`, a string without its quotes.
std::string value_at(std::string_view body, std::string_view path) {
  std::string_view value = body;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const auto found = json::find(value, path.substr(0, dot));
    if (!found) return {};
    value = *found;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return json::as_string(value).value_or(std::string(value));
}

class Player {
 public:
  Player(fs::path socket, std::string url) : daemon_(std::move(socket)), url_(std::move(url)) {}

  // Plays the day until `stop` is asked for.
  void play(const DemoDay& day, const std::stop_token& stop) {
    while (!stop.stop_requested() && !answers()) pause(milliseconds(50), stop);
    for (const DemoStep& step : day.past) play_step(step, stop, true);
    if (!stop.stop_requested()) tell_address();
    // These may fail: people may have deleted a session or stopped a run in the page meanwhile.
    while (!stop.stop_requested() && !day.live.empty())
      for (const DemoStep& step : day.live) play_step(step, stop, false);
  }

 private:
  bool answers() const {
    const auto reply = call_daemon(daemon_, "GET", "/readyz", {});
    return reply && reply->status == 200;
  }

  void play_step(const DemoStep& step, const std::stop_token& stop, bool complain) {
    if (stop.stop_requested()) return;
    if (!step.method.empty()) {
      const auto reply = call_daemon(daemon_, step.method, filled_in(step.target, kept_, store::unix_ms()),
                                     filled_in(step.body, kept_, store::unix_ms()), {.timeout = milliseconds(40'000)});
      if (complain && (!reply || reply->status >= 300))
        fmt::print(stderr, "demo: {} {}: {}\n", step.method, step.target, reply ? reply->body : reply.error().detail);
      for (const auto& [name, field] : step.keep) kept_[name] = reply ? value_at(reply->body, field) : "";
    }
    pause(step.wait, stop);
  }

  void tell_address() {
    const auto made = call_daemon(daemon_, "POST", "/v1/admin/tokens", R"({"role":"admin","note":"the demo's own"})");
    if (!made || made->status != 201) return;
    fmt::print("\n  The demo is at  {}/#token={}\n\n  It is gone when you end it with Ctrl-C.\n\n", url_,
               value_at(made->body, "token"));
    std::fflush(stdout);
  }

  void pause(milliseconds time, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, stop, time, [] { return false; });
  }

  Endpoint daemon_;
  std::string url_;
  std::map<std::string, std::string> kept_{};
  std::mutex mutex_{};
  std::condition_variable_any ended_{};
};

// `wait 800`, `keep run runId`: true when the line was one of these.
bool takes_word(DemoStep& step, std::string_view line) {
  const auto rest = [&](std::string_view word) { return line.substr(word.size()); };
  if (line.starts_with("wait ")) {
    int ms = 0;
    const std::string_view number = rest("wait ");
    std::from_chars(number.data(), number.data() + number.size(), ms);
    step.wait += milliseconds(ms);
    return true;
  }
  if (!line.starts_with("keep ")) return false;
  const std::string_view pair = rest("keep ");
  const std::size_t space = std::min(pair.find(' '), pair.size());
  step.keep[std::string(pair.substr(0, space))] = pair.substr(std::min(space + 1, pair.size()));
  return true;
}

bool is_request(std::string_view line) {
  return std::ranges::any_of(std::array{"GET ", "POST ", "PUT ", "PATCH ", "DELETE "},
                             [&](std::string_view method) { return line.starts_with(method); });
}

}  // namespace

std::string filled_in(std::string_view text, const std::map<std::string, std::string>& kept, std::int64_t now) {
  std::string out;
  while (!text.empty()) {
    const std::size_t begin = text.find("{{");
    out += text.substr(0, begin);
    const std::size_t end = begin == std::string_view::npos ? begin : text.find("}}", begin);
    if (end == std::string_view::npos) break;
    const std::string_view word = text.substr(begin + 2, end - begin - 2);
    if (const auto time = moment_before(word, now))
      out += std::to_string(*time);
    else if (const auto found = kept.find(std::string(word)); found != kept.end())
      out += found->second;
    text.remove_prefix(end + 2);
  }
  return out;
}

Result<DemoDay> read_day(std::string_view script) {
  DemoDay day;
  std::vector<DemoStep>* part = &day.past;
  for (int number = 1; !script.empty(); ++number) {
    const std::size_t end = std::min(script.find('\n'), script.size());
    std::string_view line = script.substr(0, end);
    script.remove_prefix(std::min(end + 1, script.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty() || line.starts_with('#')) continue;
    if (line == "over and over") {
      part = &day.live;
      continue;
    }
    if (!part->empty() && takes_word(part->back(), line)) continue;
    if (!is_request(line)) {
      if (part->empty()) return fail(Code::bad_request, fmt::format("web/demo.http: line {} is no request", number));
      part->back().body += line;  // a body goes on over lines
      continue;
    }
    const std::size_t method = line.find(' ');
    const std::size_t target = std::min(line.find(' ', method + 1), line.size());
    part->push_back({.method = std::string(line.substr(0, method)),
                     .target = std::string(line.substr(method + 1, target - method - 1)),
                     .body = std::string(line.substr(std::min(target + 1, line.size())))});
  }
  return day;
}

int serve_demo(serve::ServeOptions options) {
  const auto day = read_day(demo_script);
  if (!day) {
    fmt::print(stderr, "{}\n", day.error().detail);
    return 1;
  }
  std::string home = (fs::temp_directory_path() / "sessiond-demo-XXXXXX").native();
  if (::mkdtemp(home.data()) == nullptr) {
    fmt::print(stderr, "no directory for the demo can be made in {}\n", fs::temp_directory_path().native());
    return 1;
  }
  const fs::path folder = home;
  if (!options.config) {
    options.config = (folder / "sessiond.json").native();
    std::ofstream(*options.config) << demo_config;  // the directory is the user's alone
  }
  options.state_dir = (folder / "state").native();
  if (!options.listen) options.listen = "127.0.0.1:7433";
  ::setenv("XDG_CONFIG_HOME", folder.c_str(), 1);  // its admin.token is its own
  Player player(folder / "state" / "sessiond.sock", "http://" + *options.listen);
  int code = 0;
  {
    const std::jthread plays([&](const std::stop_token& stop) { player.play(*day, stop); });
    code = serve::serve(options);
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return code;
}

}  // namespace sessiond::cli
