#include "formats/codex.hpp"

#include <fmt/format.h>

#include "formats/codex_lines.hpp"
#include "store/try.hpp"

namespace sessiond::formats {
namespace {

namespace fs = std::filesystem;

class CodexStore {
 public:
  explicit CodexStore(Sink& sink) : sink_(sink) {}

  Result<void> folder(const fs::path& dir, int depth) {
    if (depth > 5) {
      sink_.skip({.why = dir.native() + ": lies deeper than sessions do; import it by itself"});
      return {};
    }
    for (const fs::path& path : sorted_in(dir, sink_)) {
      std::error_code error;
      if (fs::is_directory(path, error)) {
        TRY(folder(path, depth + 1));  // <year>/<month>/<day>
      } else if (path.extension() == ".jsonl" && path.filename().native().starts_with("rollout-")) {
        TRY(file(path));
      } else if (path.native().ends_with(".jsonl.zst")) {
        sink_.skip({.why = path.native() + ": is compressed; unpack it with `zstd -d` first"});
      }
    }
    return {};
  }

  Result<void> file(const fs::path& path) {
    CodexScan scan;
    const auto scanned = each_line(path, [&scan](std::string_view line, std::uint64_t number) {
      scan.take(line, number);
      return Result<void>();
    });
    if (!scanned || !scan.any) {
      sink_.skip({.why = scanned ? path.native() + ": holds no line of a session" : scanned.error().detail});
      return {};
    }
    const std::string stem = path.stem().native();
    constexpr std::size_t uuid = 36;  // rollout-2026-11-23T21-19-30-<uuid>
    if (scan.head.id.empty() && stem.size() > uuid) scan.head.id = stem.substr(stem.size() - uuid);
    scan.head.id = ids_.take(scan.head.id, stem, sink_, path.native());
    CodexReader reader(sink_, path.native(), std::move(scan));
    TRY(reader.begin());
    TRY(each_line(path, [&reader](std::string_view line, std::uint64_t number) { return reader.take(line, number); }));
    return reader.end();
  }

 private:
  Sink& sink_;
  SessionIds ids_{};
};

}  // namespace

Result<void> read_codex(const fs::path& root, Sink& sink) {
  CodexStore store(sink);
  std::error_code error;
  if (fs::is_regular_file(root, error)) return store.file(root);
  if (!fs::is_directory(root, error)) return fail(Code::not_found, root.native() + ": is neither a folder nor a file");
  const fs::path sessions = root / "sessions";
  if (!fs::is_directory(sessions, error)) return store.folder(root, 0);
  TRY(store.folder(sessions, 0));
  return store.folder(root / "archived_sessions", 0);
}

}  // namespace sessiond::formats
