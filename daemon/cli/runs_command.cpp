#include "daemon/cli/runs_command.hpp"

#include <fmt/format.h>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/table.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

Answer<std::string> ask(const RunsCommand& command) {
  TRY(const auto daemon, endpoint_of(command.asked));
  const std::string path = path_of(command.session);
  if (command.abort) {
    json::ObjectWriter body;
    if (command.run_id) body.string("runId", *command.run_id);
    body.string("reason", "stopped by sessiond runs --abort");
    return answer_of(daemon, "POST", path + "/abort", body.text());
  }
  if (command.run_id) return answer_of(daemon, "GET", path + "/runs/" + in_url(*command.run_id));
  return answer_of(daemon, "GET", fmt::format("{}/runs?limit={}", path, command.limit));
}

// How a run stands: its error where it has one, else what it said.
std::string outcome_of(std::string_view run) {
  if (const auto error = json::find(run, "error")) return text_at(*error, "code") + ": " + text_at(*error, "message");
  std::string said = text_at(run, "response");
  return said.substr(0, said.find('\n'));
}

void print_list(std::string_view answer) {
  std::vector<Row> rows;
  for (const std::string_view run : json::elements(json::find(answer, "data").value_or("[]")))
    rows.push_back({text_at(run, "runId"), text_at(run, "status"), time_of(json::int_at(run, "createdAt")),
                    fmt::to_string(json::int_at(run, "attempt").value_or(1)),
                    fmt::to_string(json::int_at(run, "steps").value_or(0)), text_at(run, "runner"), outcome_of(run)});
  if (rows.empty()) return fmt::print("no runs\n");
  fmt::print("{}", table({{.title = "RUN", .may_shrink = true},
                          {.title = "STATUS"},
                          {.title = "CREATED"},
                          {.title = "ATTEMPT", .to_the_right = true},
                          {.title = "STEPS", .to_the_right = true},
                          {.title = "RUNNER"},
                          {.title = "OUTCOME", .may_shrink = true}},
                         std::move(rows), terminal_width()));
}

void print_one(std::string_view run) {
  for (const char* name : {"runId", "status", "runner", "model", "response"})
    if (const std::string text = text_at(run, name); !text.empty())
      fmt::print("{:<10} {}\n", name, without_controls(text));
  if (json::find(run, "error")) fmt::print("{:<10} {}\n", "error", without_controls(outcome_of(run)));
}

}  // namespace

int run(const RunsCommand& command) {
  const auto answer = ask(command);
  if (!answer) return told("runs", answer.error());
  if (command.asked.json)
    fmt::print("{}\n", answer->empty() ? "null" : *answer);
  else if (command.abort && answer->empty())
    fmt::print("no run is active\n");
  else if (command.abort || command.run_id)
    print_one(*answer);
  else
    print_list(*answer);
  return 0;
}

}  // namespace sessiond::cli
