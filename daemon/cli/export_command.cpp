#include "daemon/cli/export_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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

// How one sees that a reply is whole. A document has one line break, its last byte: when the daemon begins to send it,
// it does not know its length.
enum class Ends : bool { by_length, by_line_break };

Ends end_of(std::string_view format) { return format == "jsonl" ? Ends::by_length : Ends::by_line_break; }

// Passes what a GET answers to `take`.
Answer<void> copy_to(const Endpoint& daemon, const std::string& target, Ends ends, const Take& take) {
  char last = 0;
  const auto pass = [&](std::string_view bytes) {
    if (!bytes.empty()) last = bytes.back();
    return take(bytes);
  };
  const auto reply = download(daemon, "GET", target, pass, {.timeout = export_patience});
  if (!reply) return ended(reply.error().detail, reply.error().nobody_there ? Exit::no_daemon : Exit::failed);
  if (reply->status / 100 != 2)
    return ended(problem_of(*reply, daemon.local()).detail, reply->status == 404 ? Exit::not_there : Exit::failed);
  if (ends == Ends::by_line_break && last != '\n')
    return ended(fmt::format("{}: the reply was cut short; run it again", daemon.name()));
  return {};
}

// The same to a file, which is there whole or not at all. What is no regular file, such as /dev/null, is written to.
Answer<void> copy_to_file(const Endpoint& daemon, const std::string& target, Ends ends, const fs::path& path) {
  if (const auto status = store::stat_of(path); status && !S_ISREG(status->st_mode) && !S_ISLNK(status->st_mode)) {
    const auto fd = store::open_file(path, O_WRONLY);
    if (!fd) return ended(fd.error().detail);
    return copy_to(daemon, target, ends,
                   [&](std::string_view bytes) { return store::write_all(fd->get(), bytes, path.native()); });
  }
  auto file = store::NewFile::begin(path);
  if (!file) return ended(file.error().detail);
  TRY(copy_to(daemon, target, ends, [&file](std::string_view bytes) { return file->write(bytes); }));
  if (const auto placed = file->place(store::NewFile::IfThere::is_replaced); !placed)
    return ended(placed.error().detail);
  return {};
}

Answer<void> export_one(const Endpoint& daemon, const ExportCommand& command) {
  const NamedSession session{.key = command.what, .agent = command.agent};
  std::string target = fmt::format("{}/export?format={}", path_of(session), in_url(command.format));
  if (command.topic) target += "&topic=" + in_url(*command.topic);
  if (command.entry) target += "&entry=true";
  const Ends ends = end_of(command.format);
  if (command.out) {  // of a link, what it names is written; in a layout, the link is replaced
    std::error_code absent;
    const fs::path linked = fs::canonical(*command.out, absent);
    return copy_to_file(daemon, target, ends, absent ? fs::path(*command.out) : linked);
  }
  return copy_to(daemon, target, ends,
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
  TRY(each_session(daemon, command.agent.value_or("main"), {}, [&](std::string_view session) -> Answer<void> {
    const std::string id = text_at(session, "sessionId");
    if (!store::check_session_id(id)) {
      fmt::print(stderr, "{}: its id cannot be a file's name: not exported\n", text_at(session, "key"));
      return {};
    }
    if (newest.empty()) newest = id;
    TRY(copy_to_file(daemon, fmt::format("{}/{}/export?format=json", sessions, in_url(text_at(session, "key"))),
                     Ends::by_line_break, folder / (id + ".json")));
    ++count;
    return {};
  }));
  TRY(copy_to_file(daemon, fmt::format("/v1/agents/{}/export?format=index", agent), Ends::by_line_break,
                   folder / "index.json"));
  TRY(const std::string last, last_session(daemon, sessions, newest));
  if (!last.empty()) TRY(write_file(folder / "last_session", last));
  fmt::print("{} sessions in {}\n", count, folder.native());
  return {};
}

}  // namespace

Answer<void> each_session(const Endpoint& daemon, const std::string& agent, const std::string& prefix,
                          const std::function<Answer<void>(std::string_view session)>& take) {
  const std::string of_prefix = prefix.empty() ? "" : "&keyPrefix=" + in_url(prefix);
  std::string cursor;
  do {
    TRY(const std::string page, answer_of(daemon, "GET",
                                          fmt::format("/v1/agents/{}/sessions?limit=200{}{}", in_url(agent), of_prefix,
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
