#include "daemon/cli/search_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/table.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

Answer<std::string> ask_for_hits(const SearchCommand& command) {
  TRY(const auto daemon, endpoint_of(command.asked));
  std::string path =
      fmt::format("/v1/search?q={}&limit={}", in_url(fmt::format("{}", fmt::join(command.words, " "))), command.limit);
  if (command.agent) path += "&agent=" + in_url(*command.agent);
  if (command.channel) path += "&channel=" + in_url(*command.channel);
  if (command.role) path += "&role=" + *command.role;
  if (command.within_ms)
    path += fmt::format("&since={}", std::max<std::int64_t>(store::unix_ms() - *command.within_ms, 0));
  if (command.archived) path += "&archived=any";
  TRY(auto answer, answer_of(daemon, "GET", path));
  if (json::find(answer, "enabled") == "false")
    return ended("the daemon has no index of what was said: search.enabled is false");
  return answer;
}

// A session as sessions of its agent are named, and where in it.
std::string place_of(std::string_view hit) {
  std::string place = text_at(hit, "key");
  if (place.empty()) place = text_at(hit, "sessionId");
  if (const std::string topic = text_at(hit, "topic"); !topic.empty()) place += " topic " + topic;
  if (!text_at(hit, "archive").empty()) place += " (archived)";
  return place;
}

}  // namespace

int run(const SearchCommand& command) {
  const auto answer = ask_for_hits(command);
  if (!answer) return told("search", answer.error());
  if (command.asked.json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  std::vector<Row> rows;
  for (const std::string_view hit : json::elements(json::find(*answer, "data").value_or("[]"))) {
    const auto seq = json::int_at(hit, "seq");
    rows.push_back({time_of(json::int_at(hit, "timestamp")), text_at(hit, "role"), place_of(hit),
                    seq ? fmt::to_string(*seq) : "-", text_at(hit, "snippet")});
  }
  if (rows.empty())
    fmt::print("nothing found\n");
  else
    fmt::print("{}", table({{.title = "TIME"},
                            {.title = "BY"},
                            {.title = "SESSION", .may_shrink = true},
                            {.title = "SEQ", .to_the_right = true},
                            {.title = "TEXT", .may_shrink = true}},
                           std::move(rows), terminal_width()));
  if (json::find(*answer, "partial") == "true")
    fmt::print(stderr, "sessiond search: not everything was looked at, so there may be more\n");
  return 0;
}

}  // namespace sessiond::cli
