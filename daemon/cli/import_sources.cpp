#include "daemon/cli/import_sources.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "formats/claude_code.hpp"
#include "formats/codex.hpp"
#include "formats/documents.hpp"
#include "formats/goose.hpp"
#include "formats/jsonl.hpp"
#include "formats/known.hpp"
#include "formats/openclaw.hpp"
#include "formats/opencode.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/line_reader.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

namespace fs = std::filesystem;

// The file, or the files of a folder with this ending, by name.
Result<std::vector<fs::path>> files_at(const fs::path& path, std::string_view ending) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error)) return fail(Code::not_found, path.native() + ": there is no such file");
    return std::vector{path};
  }
  std::vector<fs::path> files;
  for (auto at = fs::directory_iterator(path, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.ends_with(ending) && !name.starts_with('.') && name != "index.json") files.push_back(at->path());
  }
  if (error) return fail(Code::internal, fmt::format("{}: {}", path.native(), error.message()));
  std::ranges::sort(files);
  return files;
}

template <auto Read>
Result<void> read_documents(const fs::path& path, formats::Sink& sink) {
  TRY(const auto files, files_at(path, ".json"));
  for (const fs::path& file : files) {
    const auto text = store::read_file(file);
    if (!text) {
      sink.skip({.why = text.error().detail});
      continue;
    }
    for (const auto& [document, line] : formats::documents_in(*text)) {
      auto done = Read(document, formats::ReadOptions{.now = store::unix_ms()}, sink);
      if (done) continue;
      if (done.error().code != Code::validation_failed) return done;
      const Problem problem = formats::naming_known(std::move(done.error()), document);
      sink.skip({.why = fmt::format("{}: line {}: {}", file.native(), line, problem.detail)});
    }
  }
  return {};
}

// Names the file in what is skipped.
class NamingSink final : public formats::Sink {
 public:
  NamingSink(formats::Sink& sink, const fs::path& file) : sink_(sink), file_(file) {}
  Result<void> session(formats::SessionHead head) override { return sink_.session(std::move(head)); }
  Result<void> entry(std::string line) override { return sink_.entry(std::move(line)); }
  Result<void> end() override { return sink_.end(); }
  void skip(formats::Skipped skipped) override {
    sink_.skip(
        {.id = std::move(skipped.id), .why = fmt::format("{}: {}", file_.native(), skipped.why), .what = skipped.what});
  }

 private:
  formats::Sink& sink_;
  const fs::path& file_;
};

Result<void> read_lines(const store::Fd& fd, const fs::path& file, formats::Sink& sink) {
  store::SequentialLines lines(fd.get(), 0, UINT64_MAX, file.native());
  formats::JsonlReader reader(sink);
  for (;;) {
    TRY(const auto line, lines.next());
    if (!line) return reader.end();
    TRY(reader.line(line->text));
  }
}

Result<void> read_transcripts(const fs::path& path, formats::Sink& sink) {
  TRY(const auto files, files_at(path, ".jsonl"));
  for (const fs::path& file : files) {
    NamingSink naming(sink, file);
    const auto fd = store::open_file(file, O_RDONLY | O_NONBLOCK);  // a pipe must not hold us up
    const auto status = fd ? store::status_of(fd->get(), file.native()) : std::unexpected(fd.error());
    if (!status || !S_ISREG(status->st_mode)) {
      sink.skip({.why = status ? file.native() + ": is not a regular file" : status.error().detail});
      continue;
    }
    TRY(read_lines(*fd, file, naming));
  }
  return {};
}

constexpr std::array sources{
    ImportSource{"json", "a session of a command-line agent, or a folder of them", read_documents<formats::read_json>},
    ImportSource{"cli", "the folder of a command-line agent, with or without its index.json",
                 read_documents<formats::read_json>},
    ImportSource{"robota", "a record of an agent's library, or a folder of them", read_documents<formats::read_robota>},
    ImportSource{"manager", "a session of a session manager, or a folder of them",
                 read_documents<formats::read_manager>},
    ImportSource{"jsonl", "transcripts as sessiond export --format jsonl writes them, or a folder of them",
                 read_transcripts},
    ImportSource{"claude-code", "~/.claude, or a project's folder in it, or a session's file",
                 formats::read_claude_code},
    ImportSource{"codex", "~/.codex, or one rollout file", formats::read_codex},
    ImportSource{"opencode", "~/.local/share/opencode", formats::read_opencode},
    ImportSource{"openclaw", "~/.openclaw/agents/<agent>, its database or its sessions", formats::read_openclaw},
    ImportSource{"goose", "~/.local/share/goose/sessions, its database or a session's file", formats::read_goose},
};

constexpr const ImportSource* source_of(std::string_view name) {
  const auto* source = std::ranges::find(sources, name, &ImportSource::name);
  return source == sources.end() ? nullptr : source;
}

// The answer to an unknown format (formats/known.hpp) names all sources of this file and no others. A folder of `cli`
// holds documents of the format json.
constexpr bool has_source(std::string_view name) { return source_of(name) != nullptr; }
static_assert(std::ranges::all_of(formats::foreign_programs, has_source));
static_assert(std::ranges::all_of(formats::body_formats,
                                  [](auto name) { return name == "index" || has_source(name); }));
static_assert(sources.size() == formats::foreign_programs.size() + formats::body_formats.size());

// Nothing: it is in no format that is known. A file that cannot be read looks like json, whose reader names it.
std::optional<std::string_view> looks_like(const fs::path& file) {
  if (file.extension() == ".jsonl") return "jsonl";
  const auto text = store::read_file(file);
  return text ? formats::format_of(*text) : "json";
}

// The format of the first file in a folder that is in one.
std::optional<std::string_view> folder_looks_like(const fs::path& dir) {
  const auto documents = files_at(dir, ".json");
  const auto transcripts = files_at(dir, ".jsonl");
  if (!documents || !transcripts) return "json";
  for (const fs::path& file : *documents)
    if (const auto format = looks_like(file); format && source_of(*format) != nullptr) return format;
  if (!transcripts->empty()) return "jsonl";
  return documents->empty() ? std::optional<std::string_view>("json") : std::nullopt;
}

}  // namespace

std::span<const ImportSource> import_sources() { return sources; }

Result<const ImportSource*> import_source(std::string_view name, const fs::path& path) {
  if (name.empty()) {
    std::error_code error;
    const auto format = fs::is_directory(path, error) ? folder_looks_like(path) : looks_like(path);
    if (!format) return fail(Code::not_found, fmt::format("{}: {}", path.native(), formats::not_known()));
    name = *format;
  }
  if (const ImportSource* source = source_of(name)) return source;
  return fail(Code::not_found,
              fmt::format("{}: an {} holds no messages: import the folder that it describes", path.native(), name));
}

}  // namespace sessiond::cli
