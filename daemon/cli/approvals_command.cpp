#include "daemon/cli/approvals_command.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <vector>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/table.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

constexpr int look_again_ms = 2'000;  // when no event came

Answer<std::string> open_approvals(const Endpoint& daemon) {
  return answer_of(daemon, "GET", "/v1/approvals?open=true");
}

std::vector<std::string> elements_of(std::string_view answer) {
  std::vector<std::string> approvals;
  for (const std::string_view each : json::elements(json::find(answer, "data").value_or("[]")))
    approvals.emplace_back(each);
  return approvals;
}

Answer<std::string> answer_one(const Endpoint& daemon, std::string_view approval, std::string_view decision,
                               const std::optional<std::string>& reason) {
  json::ObjectWriter body;
  body.string("decision", decision);
  if (reason) body.string("reason", *reason);
  const std::string path = fmt::format("/v1/agents/{}/sessions/{}/approvals/{}", in_url(text_at(approval, "agent")),
                                       in_url(text_at(approval, "key")), in_url(text_at(approval, "id")));
  return answer_of(daemon, "POST", path, body.text());
}

std::string outcome_of_answer(std::string_view approval) {
  const bool allowed = text_at(approval, "decision") == "allow";
  const std::string by = text_at(approval, "by");
  return fmt::format("{} {}{}", allowed ? "allowed" : "denied", text_at(approval, "tool"),
                     by.empty() ? " (" + text_at(approval, "source") + ")" : " by " + by);
}

std::int64_t seconds_left(std::string_view approval) {
  const std::int64_t left = json::int_at(approval, "deadline").value_or(0) - store::unix_ms();
  return std::max<std::int64_t>(left / 1000, 0);
}

void print_approvals(std::string_view answer) {
  std::vector<Row> rows;
  for (const std::string& each : elements_of(answer))
    rows.push_back({text_at(each, "id"), text_at(each, "key"), text_at(each, "tool"),
                    std::string(json::find(each, "args").value_or("{}")), fmt::format("{} s", seconds_left(each))});
  if (rows.empty()) return fmt::print("no run waits for an answer\n");
  fmt::print("{}", table({{.title = "ID"},
                          {.title = "SESSION", .may_shrink = true},
                          {.title = "TOOL"},
                          {.title = "ARGS", .may_shrink = true},
                          {.title = "LEFT", .to_the_right = true}},
                         std::move(rows), terminal_width()));
}

// Asks the person at the terminal about one approval after the other.
class Dialog {
 public:
  explicit Dialog(Endpoint daemon) : daemon_(std::move(daemon)) {}

  // Returns when the input ends.
  Answer<void> run() {
    fmt::print("waiting for tools that runs ask for; Ctrl-D ends\n");
    for (bool more = true; more;) {
      TRY(const auto answer, open_approvals(daemon_));
      show_next(elements_of(answer));
      more = wait();
    }
    return {};
  }

 private:
  void show_next(const std::vector<std::string>& approvals) {
    const auto is_there = [&approvals](const std::string& id) {
      return std::ranges::any_of(approvals, [&id](const std::string& each) { return text_at(each, "id") == id; });
    };
    if (!asked_.empty() && !is_there(text_at(asked_, "id"))) {
      fmt::print("\nit was decided elsewhere, or its time is over\n");
      asked_.clear();
    }
    for (const std::string& each : approvals) {
      if (!asked_.empty()) break;
      if (!skipped_.contains(text_at(each, "id"))) asked_ = each;
      if (!asked_.empty()) ask();
    }
    std::fflush(stdout);
  }

  // All of the args are shown: a person must not allow what is not to be seen.
  void ask() const {
    fmt::print("\n{} asks for {}, {} s left\n  {}\nallow? y, n or always: ", without_controls(text_at(asked_, "key")),
               without_controls(text_at(asked_, "tool")), seconds_left(asked_),
               without_controls(json::find(asked_, "args").value_or("{}")));
  }

  // Waits for a line, an event or some time. False: the input has ended.
  bool wait() {
    if (!stream_) {
      // An open stream shows the daemon that somebody can answer (approvals.requireApprover).
      if (auto opened = open_stream(daemon_, "/v1/events?types=approval.*")) stream_ = std::move(*opened);
    }
    std::array<pollfd, 2> fds{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                               {.fd = stream_ ? stream_.get() : -1, .events = POLLIN, .revents = 0}}};
    ::poll(fds.data(), fds.size(), look_again_ms);
    std::array<char, 4096> bytes;
    if (fds[1].revents != 0 && ::recv(stream_.get(), bytes.data(), bytes.size(), 0) <= 0) stream_ = store::Fd();
    if (fds[0].revents == 0) return true;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got <= 0) return false;
    typed_.append(bytes.data(), static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = typed_.find('\n')) != std::string::npos;) {
      take(std::string(store::trim(typed_.substr(0, end))));
      typed_.erase(0, end + 1);
    }
    return true;
  }

  void take(const std::string& line) {
    if (asked_.empty()) return;
    const bool allow = line == "y" || line == "yes";
    const bool always = line == "a" || line == "always";
    if (!allow && !always && line != "n" && line != "no") return ask();
    const auto answer = answer_one(daemon_, asked_, always ? "allow-session" : allow ? "allow" : "deny", {});
    if (answer)
      fmt::print("{}\n", without_controls(outcome_of_answer(*answer)));
    else
      fmt::print("{}\n", without_controls(answer.error().detail));
    if (!answer) skipped_.insert(text_at(asked_, "id"));
    asked_.clear();
  }

  const Endpoint daemon_;
  store::Fd stream_{};
  std::string asked_{};              // the approval that the person is asked about; empty: none
  std::set<std::string> skipped_{};  // ids that could not be answered
  std::string typed_{};
};

Answer<std::string> answer_by_id(const Endpoint& daemon, const ApprovalsCommand& command) {
  TRY(const auto open, open_approvals(daemon));
  for (const std::string& each : elements_of(open))
    if (text_at(each, "id") == *command.id) return answer_one(daemon, each, command.decision, command.reason);
  return ended(fmt::format("no open approval has the id {}", *command.id), Exit::not_there);
}

}  // namespace

int run(const ApprovalsCommand& command) {
  const auto daemon = endpoint_of(command.asked);
  if (!daemon) return told("approvals", daemon.error());
  const bool asks = !command.id && !command.list && !command.asked.json && ::isatty(STDIN_FILENO) == 1 &&
                    ::isatty(STDOUT_FILENO) == 1;
  if (asks) {
    const auto end = Dialog(*daemon).run();
    return end ? 0 : told("approvals", end.error());
  }
  const auto answer = command.id ? answer_by_id(*daemon, command) : open_approvals(*daemon);
  if (!answer) return told("approvals", answer.error());
  if (command.asked.json)
    fmt::print("{}\n", *answer);
  else if (command.id)
    fmt::print("{}\n", without_controls(outcome_of_answer(*answer)));
  else
    print_approvals(*answer);
  return 0;
}

}  // namespace sessiond::cli
