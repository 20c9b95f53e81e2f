#include "daemon/cli/context_command.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/table.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

struct Shown {
  std::string context{};
  std::string plan{};  // empty: there is nothing to compact
};

Answer<Shown> ask(const ContextCommand& command) {
  TRY(const auto daemon, endpoint_of(command.asked));
  const std::string path = path_of(command.session);
  const std::string topic = command.topic ? "?topic=" + in_url(*command.topic) : "";
  TRY(auto context, answer_of(daemon, "GET", path + "/context" + topic));
  auto plan = call_daemon(daemon, "POST", path + "/compact" + topic, "{}", {});
  const bool there = plan && plan->status == 200;
  return Shown{std::move(context), there ? std::string(json::find(plan->body, "plan").value_or("")) : ""};
}

// A bar of `width` characters, or nothing if stdout is no terminal.
std::string bar(double share, std::optional<std::size_t> terminal) {
  if (!terminal) return "";
  const std::size_t width = std::clamp<std::size_t>(*terminal / 2, 10, 50);
  const auto full = std::min(width, static_cast<std::size_t>(share * static_cast<double>(width)));
  std::string out = "[";
  for (std::size_t at = 0; at < width; ++at) out += at < full ? "#" : ".";
  return out + "]  ";
}

void print(const Shown& shown) {
  const auto number = [&](std::string_view name) { return json::int_at(shown.context, name).value_or(0); };
  const double percent = json::as_double(json::find(shown.context, "percent").value_or("0")).value_or(0);
  fmt::print("{}{} of {} tokens, {:.1f} %\n", bar(percent / 100, terminal_width()), number("used"), number("window"),
             percent);
  fmt::print("counted by   {}\n", text_at(shown.context, "source") == "provider" ? "the model's last reply"
                                                                                 : "estimate (4 characters a token)");
  fmt::print("window from  {}\n", text_at(shown.context, "windowSource"));
  fmt::print("since        {}: {} messages in {} turns\n",
             json::find(shown.context, "checkpoint") == "null" ? "the beginning" : "the last compaction",
             number("messages"), number("turns"));
  const std::string_view due = json::find(shown.context, "due").value_or("{}");
  std::string reason = text_at(due, "reason");
  std::ranges::replace(reason, '_', ' ');
  const bool is_due = json::find(due, "compaction") == "true";
  fmt::print("compaction   {}{}\n", is_due ? "is due" : "is not due", reason == "due" ? "" : ": " + reason);
  if (const auto blocked = json::find(due, "blocked"))
    fmt::print("             {}\n", without_controls(text_at(*blocked, "remedy")));
  if (shown.plan.empty()) return fmt::print("             nothing to summarise yet\n");
  const std::string_view range = json::find(shown.plan, "summarize").value_or("{}");
  fmt::print("             would summarise {} messages and keep from {} on\n", json::int_at(range, "count").value_or(0),
             without_controls(text_at(shown.plan, "firstKeptEntryId")));
}

}  // namespace

int run(const ContextCommand& command) {
  const auto shown = ask(command);
  if (!shown) return told("context", shown.error());
  if (command.asked.json)
    fmt::print("{{\"context\":{},\"plan\":{}}}\n", shown->context, shown->plan.empty() ? "null" : shown->plan);
  else
    print(*shown);
  return 0;
}

}  // namespace sessiond::cli
