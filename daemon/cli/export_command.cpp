#include "daemon/cli/export_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "store/files.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/new_file.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

namespace fs = std::filesystem;

using Take = std::function<Result<void>(std::string_view)>;

// Passes what a GET answers to `take`.
Answer<void> copy_to(const Endpoint& daemon, const std::string& target, const Take& take) {
  const auto reply = download(daemon, "GET", target, take, {.timeout = export_patience});
  if (!reply) return ended(reply.error().detail, reply.error().nobody_there ? Exit::no_daemon : Exit::failed);
  if (reply->status / 100 == 2) return {};
  return ended(problem_of(*reply, daemon.local()).detail, reply->status == 404 ? Exit::not_there : Exit::failed);
}

// The same to a file, which is there whole or not at all.
Answer<void> copy_to_file(const Endpoint& daemon, const std::string& target, const fs::path& path) {
  auto file = store::NewFile::begin(path);
  if (!file) return ended(file.error().detail);
  TRY(copy_to(daemon, target, [&file](std::string_view bytes) { return file->write(bytes); }));
  if (const auto placed = file->place(store::NewFile::IfThere::is_replaced); !placed)
    return ended(placed.error().detail);
  return {};
}

Answer<void> export_one(const Endpoint& daemon, const ExportCommand& command) {
  const NamedSession session{.key = command.what, .agent = command.agent};
  std::string target = fmt::format("{}/export?format={}", path_of(session), in_url(command.format));
  if (command.topic) target += "&topic=" + in_url(*command.topic);
  if (command.entry) target += "&entry=true";
  if (command.out) return copy_to_file(daemon, target, *command.out);
  return copy_to(daemon, target,
                 [](std::string_view bytes) { return store::write_all(STDOUT_FILENO, bytes, "stdout"); });
}

Answer<void> write_file(const fs::path& file, std::string_view bytes) {
  if (const auto written = store::replace_file(file, bytes); !written) return ended(written.error().detail);
  return {};
}

// The session that was used last, as far as the daemon tells; else `newest`.
Answer<std::string> last_session(const Endpoint& daemon, const std::string& sessions, const std::string& newest) {
  auto last = answer_of(daemon, "GET", sessions + "/-/last");
  if (last) return text_at(*last, "sessionId");
  if (last.error().code == Exit::not_there) return newest;
  return std::unexpected(std::move(last.error()));
}

Answer<void> export_folder(const Endpoint& daemon, const ExportCommand& command) {
  const fs::path folder = command.what;
  if (const auto made = store::make_dirs(folder); !made) return ended(made.error().detail);
  const std::string agent = in_url(command.agent.value_or("main"));
  const std::string sessions = fmt::format("/v1/agents/{}/sessions", agent);
  std::size_t count = 0;
  std::string newest;
  TRY(each_session(daemon, command.agent.value_or("main"), [&](std::string_view session) -> Answer<void> {
    const std::string id = text_at(session, "sessionId");
    if (!store::check_session_id(id)) {
      fmt::print(stderr, "{}: its id cannot be a file's name: not exported\n", text_at(session, "key"));
      return {};
    }
    if (newest.empty()) newest = id;
    TRY(copy_to_file(daemon, fmt::format("{}/{}/export?format=json", sessions, in_url(text_at(session, "key"))),
                     folder / (id + ".json")));
    ++count;
    return {};
  }));
  TRY(copy_to_file(daemon, fmt::format("/v1/agents/{}/export?format=index", agent), folder / "index.json"));
  TRY(const std::string last, last_session(daemon, sessions, newest));
  if (!last.empty()) TRY(write_file(folder / "last_session", last));
  fmt::print("{} sessions in {}\n", count, folder.native());
  return {};
}

}  // namespace

Answer<void> each_session(const Endpoint& daemon, const std::string& agent,
                          const std::function<Answer<void>(std::string_view session)>& take) {
  std::string cursor;
  do {
    TRY(const std::string page, answer_of(daemon, "GET",
                                          fmt::format("/v1/agents/{}/sessions?limit=200{}", in_url(agent),
                                                      cursor.empty() ? "" : "&cursor=" + in_url(cursor))));
    for (const std::string_view session : json::elements(json::find(page, "data").value_or("[]"))) TRY(take(session));
    cursor = text_at(json::find(page, "page").value_or("{}"), "next");
  } while (!cursor.empty());
  return {};
}

int run(const ExportCommand& command) {
  const auto daemon = endpoint_of(command.asked);
  if (!daemon) return told("export", daemon.error());
  if (command.to) {
    const auto code = export_to(*daemon, command);
    return code ? *code : told("export", code.error());
  }
  const auto done = command.layout ? export_folder(*daemon, command) : export_one(*daemon, command);
  return done ? 0 : told("export", done.error());
}

}  // namespace sessiond::cli
