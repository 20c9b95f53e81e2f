#include "daemon/cli/session_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/table.hpp"
#include "daemon/decide/session_index.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

constexpr std::chrono::minutes prune_patience{30};  // many sessions may have to go

// --- sessions list ---

struct Listed {
  std::vector<std::string> sessions{};
  bool more = false;
};

Answer<Listed> list_sessions(const SessionsList& command) {
  TRY(const auto daemon, endpoint_of(command.asked));
  std::string query = command.archived ? "archived=true" : "archived=any";
  if (command.channel) query += "&channel=" + in_url(*command.channel);
  if (command.text) query += "&q=" + in_url(*command.text);
  const std::string base =
      command.agent ? fmt::format("/v1/agents/{}/sessions", in_url(*command.agent)) : std::string("/v1/sessions");
  Listed listed;
  for (std::string cursor;;) {
    const std::size_t left = static_cast<std::size_t>(command.limit) - listed.sessions.size();
    TRY(const auto body, answer_of(daemon, "GET",
                                   fmt::format("{}?{}&limit={}{}{}", base, query, std::min<std::size_t>(left, 200),
                                               cursor.empty() ? "" : "&cursor=", in_url(cursor))));
    for (const auto session : json::elements(json::find(body, "data").value_or("[]")))
      listed.sessions.emplace_back(session);
    cursor = text_at(json::find(body, "page").value_or("{}"), "next");
    listed.more = !cursor.empty();
    if (!listed.more || listed.sessions.size() >= static_cast<std::size_t>(command.limit)) return listed;
  }
}

std::string title_of(std::string_view session) {
  for (const std::string_view field : {"name", "label", "displayName", "subject"})
    if (std::string title = text_at(session, field); !title.empty()) return title;
  std::string first = text_at(session, "firstMessage");
  std::ranges::replace_if(first, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return first;
}

// --- sessions show ---

void print_fields(std::string_view session) {
  std::size_t width = 0;
  for (const json::Member& member : json::members(session)) width = std::max(width, member.name.size());
  for (const json::Member& member : json::members(session)) {
    std::string value = json::as_string(member.value).value_or(std::string(member.value));
    const auto number = json::as_int(member.value);
    if (number && (member.name.ends_with("At") || member.name.ends_with("Ms")) && *number > 1'000'000'000'000)
      value = fmt::format("{} ({} UTC)", *number, time_of(number));
    fmt::print("{:<{}}  {}\n", without_controls(json::unescape(member.name)), width, without_controls(value));
  }
}

}  // namespace

int run(const SessionsList& command) {
  const auto listed = list_sessions(command);
  if (!listed) return told("sessions list", listed.error());
  if (command.asked.json) {
    fmt::print("{{\"data\":[{}]}}\n", fmt::join(listed->sessions, ","));
    return 0;
  }
  std::vector<Row> rows;
  for (const std::string& session : listed->sessions)
    rows.push_back({text_at(session, "key"), time_of(json::int_at(session, "updatedAt")),
                    std::to_string(json::int_at(session, "messageCount").value_or(0)), title_of(session)});
  fmt::print("{}", table({{.title = "KEY", .may_shrink = true},
                          {.title = "UPDATED (UTC)"},
                          {.title = "MESSAGES", .to_the_right = true},
                          {.title = "NAME", .may_shrink = true}},
                         std::move(rows), terminal_width()));
  if (listed->more) fmt::print(stderr, "there are more: --limit {}\n", command.limit * 2);
  return 0;
}

int run(const SessionsShow& command) {
  const auto shown = [&]() -> Answer<std::string> {
    TRY(const auto daemon, endpoint_of(command.asked));
    return answer_of(daemon, "GET", path_of(command.session));
  }();
  if (!shown) return told("sessions show", shown.error());
  if (command.asked.json)
    fmt::print("{}\n", *shown);
  else
    print_fields(*shown);
  return 0;
}

int run(const SessionsChange& command) {
  using What = SessionsChange::What;
  constexpr std::array<std::string_view, 5> names{"reset", "archive", "unarchive", "delete", "restore"};
  const std::string_view name = names.at(static_cast<std::size_t>(command.what));
  const auto changed = [&]() -> Answer<std::string> {
    TRY(const auto daemon, endpoint_of(command.asked));
    const std::string path = path_of(command.session);
    if (command.what == What::remove) return answer_of(daemon, "DELETE", path + (command.purge ? "?purge=true" : ""));
    json::ObjectWriter order;
    if (command.archived) order.string("archive", *command.archived);
    return answer_of(daemon, "POST", fmt::format("{}/{}", path, name), command.archived ? order.text() : "");
  }();
  if (!changed) return told(fmt::format("sessions {}", name), changed.error());
  if (command.asked.json && !changed->empty()) fmt::print("{}\n", *changed);
  if (command.asked.json) return 0;
  if (command.what == What::remove) {
    fmt::print(stderr, "deleted {}{}\n", command.session.key,
               command.purge ? ", its transcripts too" : "; its transcripts are archived");
  } else if (command.what == What::reset) {
    fmt::print(stderr, "{} begins anew as {}; before it was {}\n", text_at(*changed, "key"),
               text_at(*changed, "sessionId"), text_at(*changed, "previousSessionId"));
  } else {
    fmt::print(stderr, "{}d {}\n", name, text_at(*changed, "key"));  // archived, unarchived, restored
  }
  return 0;
}

int run(const SessionsPrune& command) {
  const auto pruned = [&]() -> Answer<std::string> {
    TRY(const auto daemon, endpoint_of(command.asked));
    json::ObjectWriter order;
    if (command.agent) order.string("agent", *command.agent);
    if (command.keep) order.integer("keep", *command.keep);
    if (command.older_than_ms) order.integer("olderThanMs", *command.older_than_ms);
    if (command.max_disk_bytes) order.integer("maxDiskBytes", *command.max_disk_bytes);
    order.boolean("dryRun", !command.yes);
    return answer_of(daemon, "POST", "/v1/admin/maintenance", order.text(), {.timeout = prune_patience});
  }();
  if (!pruned) return told("sessions prune", pruned.error());
  if (command.asked.json) {
    fmt::print("{}\n", *pruned);
    return 0;
  }
  std::vector<Row> rows;
  std::uint64_t archives = 0;
  std::uint64_t orphans = 0;
  for (const auto row : json::elements(json::find(*pruned, "data").value_or("[]"))) {
    const std::string file = text_at(row, "file");
    const std::string reason = text_at(row, "reason");
    if (!file.empty()) ++(reason == "orphan" ? orphans : archives);
    rows.push_back({file.empty() ? text_at(row, "key") : file, reason, time_of(json::int_at(row, "lastInteractionAt")),
                    std::to_string(json::int_at(row, "bytes").value_or(0))});
  }
  if (!rows.empty())
    fmt::print("{}", table({{.title = "KEY OR FILE", .may_shrink = true},
                            {.title = "REASON"},
                            {.title = "LAST USED (UTC)"},
                            {.title = "BYTES", .to_the_right = true}},
                           std::move(rows), terminal_width()));
  for (const auto kept : json::elements(json::find(*pruned, "kept").value_or("[]")))
    fmt::print(stderr, "stays: {} ({})\n", without_controls(text_at(kept, "key")), text_at(kept, "because"));
  const auto count = static_cast<std::uint64_t>(json::int_at(*pruned, "count").value_or(0));
  std::string went = serve::counted(count - archives - orphans, "session");
  if (archives > 0) went += ", " + serve::counted(archives, "archive");
  if (orphans > 0) went += ", " + serve::counted(orphans, "orphan");
  fmt::print(stderr, "{} {}{}\n", went, command.yes ? "went" : "would go",
             command.yes || count == 0 ? "" : "; add --yes to let them go");
  return 0;
}

int run(const LocksCommand& command) {
  const auto answer = [&]() -> Answer<std::string> {
    TRY(const auto daemon, endpoint_of(command.asked));
    if (!command.evict) return answer_of(daemon, "GET", "/v1/admin/locks");
    return answer_of(daemon, "POST",
                     fmt::format("/v1/admin/locks/{}/evict{}{}", in_url(*command.evict),
                                 command.transcript ? "?transcript=" : "", in_url(command.transcript.value_or(""))));
  }();
  if (!answer) return told("locks", answer.error());
  if (command.asked.json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  if (command.evict) {
    fmt::print(stderr, "removed {}\n", text_at(*answer, "path"));
    return 0;
  }
  std::vector<Row> rows;
  for (const auto lock : json::elements(json::find(*answer, "data").value_or("[]"))) {
    const std::string_view holder = json::find(lock, "holder").value_or("{}");
    const bool held = json::find(lock, "held") == "true";
    const auto pid = json::int_at(holder, "pid");
    std::string by = !held                                  ? "free"
                     : json::find(holder, "ours") == "true" ? "the daemon"
                     : pid                                  ? fmt::format("pid {} {}", *pid, text_at(holder, "host"))
                                                            : "an unknown program";
    if (json::find(holder, "stale") == "true") by += ", stale";
    rows.push_back({text_at(lock, "path"), std::move(by),
                    held ? fmt::format("{} s", json::int_at(holder, "ageMs").value_or(0) / 1000) : "-",
                    std::to_string(json::int_at(json::find(lock, "waiting").value_or("{}"), "requests").value_or(0))});
  }
  fmt::print("{}", table({{.title = "LOCK", .may_shrink = true},
                          {.title = "HELD BY", .may_shrink = true},
                          {.title = "AGE", .to_the_right = true},
                          {.title = "WAITING", .to_the_right = true}},
                         std::move(rows), terminal_width()));
  return 0;
}

int run(const PathsCommand& command) {
  const auto settings = load_settings(command.asked.where);
  if (!settings) return as_code(Exit::failed);
  const ledger::Paths paths(settings->config.state_dir, settings->config.store.path_template);
  const std::string named = command.agent.value_or(agent_in(command.session.value_or("")));
  const auto agent = store::normalize_agent_id(named);
  if (!agent) return told("paths", {Exit::not_there, fmt::format("{} is not a valid agent id", named)});
  std::vector<std::pair<std::string_view, std::string>> found{{"store", paths.store_file(*agent).native()}};
  if (command.session) {
    const auto session = [&]() -> Answer<std::string> {
      TRY(const auto daemon, endpoint_of(command.asked));
      return answer_of(daemon, "GET",
                       path_of({.key = *command.session, .agent = agent}) + "?fields=sessionId,sessionFile");
    }();
    if (!session) return told("paths", session.error());
    const auto folder = paths.root() / paths.sessions_dir(*agent);
    const decide::Session known(text_at(*session, "key"), std::make_shared<const std::string>(*session));
    found.emplace_back("transcript", (folder / decide::SessionIndex::file_of(known, {})).native());
    if (command.topic)
      found.emplace_back("topic", (folder / decide::SessionIndex::file_of(known, command.topic)).native());
  }
  if (command.asked.json) {
    json::ObjectWriter writer;
    for (const auto& [name, path] : found) writer.string(name, path);
    fmt::print("{}\n", writer.text());
  } else {
    for (const auto& [name, path] : found) fmt::print("{}\n", path);
  }
  return 0;
}

}  // namespace sessiond::cli
