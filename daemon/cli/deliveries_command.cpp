#include "daemon/cli/deliveries_command.hpp"

#include <fmt/format.h>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/table.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

Answer<std::string> ask_for_deliveries(const DeliveriesCommand& command) {
  TRY(const auto daemon, endpoint_of(command.asked));
  if (command.action) {
    const std::string path = "/v1/deliveries/" + in_url(*command.id);
    if (*command.action == "drop") return answer_of(daemon, "DELETE", path);
    return answer_of(daemon, "POST", path + "/retry", "{}");
  }
  std::string path = fmt::format("/v1/deliveries?limit={}", command.limit);
  if (command.status) path += "&status=" + *command.status;
  if (command.channel) path += "&channel=" + in_url(*command.channel);
  return answer_of(daemon, "GET", path);
}

// Why a delivery is as it is, else how its text begins.
std::string about(std::string_view delivery) {
  if (const auto error = json::find(delivery, "error"))
    return text_at(*error, "code") + ": " + text_at(*error, "message");
  const std::string text = text_at(delivery, "text");
  return text.substr(0, text.find('\n'));
}

Row row_of(std::string_view delivery) {
  return {text_at(delivery, "deliveryId"),
          text_at(delivery, "status"),
          time_of(json::int_at(delivery, "createdAt")),
          fmt::to_string(json::int_at(delivery, "attempt").value_or(0)),
          text_at(delivery, "channel"),
          text_at(delivery, "to"),
          about(delivery)};
}

void print(std::vector<Row> rows) {
  if (rows.empty()) return fmt::print("no deliveries\n");
  fmt::print("{}", table({{.title = "DELIVERY"},
                          {.title = "STATUS"},
                          {.title = "CREATED"},
                          {.title = "ATTEMPT", .to_the_right = true},
                          {.title = "CHANNEL"},
                          {.title = "TO", .may_shrink = true},
                          {.title = "ABOUT", .may_shrink = true}},
                         std::move(rows), terminal_width()));
}

}  // namespace

int run(const DeliveriesCommand& command) {
  const auto answer = ask_for_deliveries(command);
  if (!answer) return told("deliveries", answer.error());
  if (command.asked.json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  std::vector<Row> rows;
  if (command.action) rows.push_back(row_of(*answer));
  for (const std::string_view delivery : json::elements(json::find(*answer, "data").value_or("[]")))
    rows.push_back(row_of(delivery));
  print(std::move(rows));
  return 0;
}

}  // namespace sessiond::cli
