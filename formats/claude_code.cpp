#include "formats/claude_code.hpp"

#include "formats/claude_lines.hpp"
#include "store/try.hpp"

namespace sessiond::formats {
namespace {

namespace fs = std::filesystem;

// Reads what the head of a session needs; nothing when the file holds no session.
struct ClaudeScan {
  ForeignHead head{};
  std::string named{};    // title that a person gave
  std::string session{};  // that the lines name
  bool any = false;

  void take(std::string_view text) {
    if (text.empty() || not_an_object(text)) return;
    const ClaudeLine line(text, 0);
    if (line.type.empty()) return;
    any = true;
    head.saw(line.time);
    if (session.empty()) session = line.members.string_at("sessionId").value_or("");
    if (head.cwd.empty()) head.cwd = line.members.string_at("cwd").value_or("");
    if (line.type == "custom-title") named = line.members.string_at("customTitle").value_or(named);
    if (line.type == "ai-title") head.title = line.members.string_at("aiTitle").value_or(head.title);
    if (line.type == "summary" && head.title.empty()) head.title = line.members.string_at("summary").value_or("");
    if (line.type != "assistant" || (line.sidechain && !head.model.empty())) return;
    const auto message = member(line.members, "message", json::Kind::object);
    const std::string model = message ? json::string_at(*message, "model").value_or("") : "";
    if (model.empty() || model == "<synthetic>") return;
    head.model = model;
    head.provider = "anthropic";
  }
};

class ClaudeStore {
 public:
  explicit ClaudeStore(Sink& sink) : sink_(sink) {}

  Result<void> folder(const fs::path& dir, int depth) {
    if (depth > 4) {
      sink_.skip({.why = dir.native() + ": lies deeper than sessions do; import it by itself"});
      return {};
    }
    for (const fs::path& path : sorted_in(dir, sink_)) {
      std::error_code error;
      if (fs::is_directory(path, error)) {
        TRY(folder(path, depth + 1));  // <project>/<session>/subagents
      } else if (path.extension() == ".jsonl") {
        TRY(file(path));
      }
    }
    return {};
  }

  Result<void> file(const fs::path& path) {
    ClaudeScan scan;
    const auto scanned = each_line(path, [&scan](std::string_view line, std::uint64_t) {
      scan.take(line);
      return Result<void>();
    });
    if (!scanned || !scan.any) {
      sink_.skip({.why = scanned ? path.native() + ": holds no line of a session" : scanned.error().detail});
      return {};
    }
    const std::string stem = path.stem().native();
    const bool subagent = stem.starts_with("agent-");
    scan.head.id = ids_.take(stem, path.parent_path().filename().native() + "/" + stem, sink_, path.native());
    if (!scan.named.empty()) scan.head.title = scan.named;
    if (subagent) scan.head.parent = scan.session;
    ClaudeReader reader(sink_, path.native(), subagent);
    TRY(reader.begin(scan.head));
    TRY(each_line(path, [&reader](std::string_view line, std::uint64_t number) { return reader.take(line, number); }));
    return reader.end();
  }

 private:
  Sink& sink_;
  SessionIds ids_{};
};

}  // namespace

Result<void> read_claude_code(const fs::path& root, Sink& sink) {
  ClaudeStore store(sink);
  std::error_code error;
  if (fs::is_regular_file(root, error)) return store.file(root);
  const fs::path projects = root / "projects";
  if (!fs::is_directory(root, error)) return fail(Code::not_found, root.native() + ": is neither a folder nor a file");
  return store.folder(fs::is_directory(projects, error) ? projects : root, 0);
}

}  // namespace sessiond::formats
