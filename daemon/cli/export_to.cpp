// sessiond export --to PROGRAM: writes sessions as files of another program.
#include <fmt/format.h>

#include "daemon/cli/export_command.hpp"
#include "formats/folder_writer.hpp"
#include "formats/jsonl.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

// Cuts what a daemon sends into lines.
class Lines {
 public:
  explicit Lines(formats::Sink& sink) : reader_(sink) {}
  Result<void> take(std::string_view bytes) {
    for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
      begun_ += bytes.substr(0, end);
      TRY(reader_.line(begun_));
      begun_.clear();
      bytes.remove_prefix(end + 1);
    }
    begun_ += bytes;
    return {};
  }
  Result<void> end() {
    if (!begun_.empty()) TRY(reader_.line(std::exchange(begun_, {})));
    return reader_.end();
  }

 private:
  formats::JsonlReader reader_;
  std::string begun_{};
};

Answer<void> as_answer(Result<void> result) {
  if (!result) return ended(std::move(result.error().detail));
  return {};
}

// Writes one session. A session that breaks off is skipped: the writer names it, and the others follow.
Answer<void> export_session_to(const Endpoint& daemon, const NamedSession& session, formats::FolderWriter& writer) {
  Lines lines(writer);
  const auto reply =
      download(daemon, "GET", path_of(session) + "/export?format=conversation&entry=true",
               [&lines](std::string_view bytes) { return lines.take(bytes); }, {.timeout = export_patience});
  if (!reply) return ended(reply.error().detail, reply.error().nobody_there ? Exit::no_daemon : Exit::failed);
  if (reply->status / 100 == 2) {
    auto done = lines.end();
    if (done) done = writer.end_session();
    if (done || done.error().code != Code::session_reset) return as_answer(std::move(done));
    writer.skip({.id = session.key, .why = done.error().detail});
    return {};
  }
  return ended(problem_of(*reply, daemon.local()).detail, reply->status == 404 ? Exit::not_there : Exit::failed);
}

}  // namespace

Answer<int> export_to(const Endpoint& daemon, const ExportCommand& command) {
  const bool all = command.what.empty() || command.what.ends_with('*');
  const std::string prefix = all ? command.what.substr(0, command.what.find('*')) : "";
  const std::string agent = command.agent.value_or(agent_in(command.what));
  if (!store::valid_agent_id(agent)) return ended(fmt::format("{}: is not the name of an agent", agent));
  const auto writer = formats::folder_writer(
      *command.to,
      {.dir = *command.out,
       .agent = agent,
       .cwd = command.cwd.value_or(""),
       .replaces = command.force,
       .on_file = [](const std::string& session,
                     const std::filesystem::path& file) { fmt::print("{}: {}\n", session, file.native()); },
       .on_left_out = [](const std::string& session,
                         const std::string& what) { fmt::print(stderr, "{}: left out: {}\n", session, what); },
       .on_skip = [](const formats::Skipped& skipped) { fmt::print(stderr, "{}: {}\n", skipped.id, skipped.why); }});
  Answer<void> done;
  if (all) {
    done = each_session(daemon, agent, prefix, [&](std::string_view session) -> Answer<void> {
      const std::string key = text_at(session, "key");
      auto written = export_session_to(daemon, {.key = key, .agent = agent}, *writer);
      if (written || written.error().code != Exit::not_there) return written;
      writer->skip({.id = key, .why = written.error().detail});
      return {};
    });
  } else {
    done = export_session_to(daemon, {.key = command.what, .agent = agent}, *writer);
  }
  TRY(as_answer(writer->finish()));  // also when it breaks off: what is written is listed
  TRY(done);
  if (writer->written() == 0 && writer->skipped() == 0) fmt::print(stderr, "there is no such session\n");
  return writer->skipped() == 0 && writer->written() > 0 ? 0 : as_code(Exit::failed);
}

}  // namespace sessiond::cli
