// Writes transcripts into the folder of Claude Code.
#include <fmt/format.h>

#include "formats/claude_code.hpp"
#include "formats/document.hpp"
#include "store/names.hpp"
#include "store/try.hpp"
#include "transcripts/changes.hpp"
#include "transcripts/conversation.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/transcript.hpp"

namespace sessiond::formats {
namespace {

namespace fs = std::filesystem;

// The entries of a path, one after another, each as an entry of version 3 whose parent is the one before.
class PathEntries {
 public:
  explicit PathEntries(const transcripts::ShownChanges& changes) : changes_(changes) {}

  // The entry as people see it; of one that they deleted, or that cannot be read, what takes its place.
  std::string next(std::uint64_t seq, std::string_view line) {
    const ReadEntry read(line);
    if (read.fields.shape == transcripts::EntryShape::unreadable) return without(seq, "line that cannot be read");
    const std::string id = transcripts::entry_id(read.line, seq);
    time_ = read.time().value_or(time_);
    if (read.type != "message") return put(std::string(read.line), id);
    const auto* changed = changes_.of(seq, id);
    const auto message = read.message(changed);
    if (!message && changed != nullptr && changed->deleted) return without(seq, "message that was deleted");
    return put(fmt::format(R"({{"type":"message","message":{}}})", message ? *message : std::string(read.body)), id);
  }
  std::map<std::string, std::size_t, std::less<>> left_out{};

 private:
  std::string without(std::uint64_t seq, const char* what) {
    ++left_out[what];
    return put("{}", fmt::format("seq-{}", seq));
  }
  std::string put(const std::string& entry, const std::string& id) {
    json::Edit edit;
    edit.put_string("id", id);
    edit.put("parentId", last_.empty() ? "null" : json::quote(last_));
    edit.put_string("timestamp", transcripts::iso_time(time_));
    last_ = id;
    return json::apply(entry, edit);
  }

  const transcripts::ShownChanges& changes_;
  std::string last_{};
  std::int64_t time_ = 0;
};

}  // namespace

Result<void> ClaudeCodeFolder::session(SessionHead head) {
  if (!head.topic || head.id != head_.id) cwd_.clear();
  head_ = std::move(head);
  for (const std::string_view place : {std::string_view(head_.entry), std::string_view(head_.header)})
    if (cwd_.empty()) cwd_ = json::string_at(place, "cwd").value_or("");
  if (!options().cwd.empty()) cwd_ = options().cwd;
  if (!cwd_.starts_with('/')) {
    skip({.id = head_.key, .why = "its transcript names no working directory: give one with --cwd"});
    return {};
  }
  TRY(store::make_dirs(options().dir));
  TRY(auto transcript, store::NewFile::begin(options().dir / "sessiond-export"));
  transcript_.emplace(std::move(transcript));
  return transcript_->write(head_.header + '\n');
}

Result<void> ClaudeCodeFolder::entry(std::string line) {
  if (!transcript_) return {};
  TRY(transcript_->write(line));
  return transcript_->write("\n");
}

Result<void> ClaudeCodeFolder::end() {
  if (!transcript_) return {};
  auto done = convert();
  transcript_.reset();
  if (done || done.error().code != Code::session_exists) return done;
  skip({.id = head_.key, .why = done.error().detail});
  return {};
}

Result<void> ClaudeCodeFolder::convert() {
  TRY(const fs::path stored, transcript_->flushed());
  TRY(const auto transcript, transcripts::Transcript::open(stored, {}));
  TRY(const auto path, transcripts::read_path(*transcript));
  TRY(const auto changes, transcripts::read_changes(*transcript, transcripts::transcript_name(head_.id, head_.topic)));
  ClaudeCodeFile out(head_.topic ? fmt::format("{}-topic-{}", head_.id, *head_.topic) : head_.id, cwd_);
  const fs::path file = options().dir / out.path();
  if (!options().replaces && store::stat_of(file))
    return fail(Code::session_exists, file.native() + ": is there already");
  TRY(store::make_dirs(file.parent_path()));
  TRY(auto written, store::NewFile::begin(file));
  PathEntries entries(changes);
  Result<void> done;
  std::uint64_t on_path = 0;
  bool empty = true;
  TRY(transcript->each(path, [&](std::uint64_t seq, std::string_view line) {
    ++on_path;
    const std::string lines = out.lines(entries.next(seq, line));
    empty = empty && lines.empty();
    done = written.write(lines);
    return done.has_value();
  }));
  TRY(std::move(done));
  if (empty) {
    skip({.id = head_.key, .why = "has no messages"});
    return {};
  }
  TRY(written.place(options().replaces ? store::NewFile::IfThere::is_replaced : store::NewFile::IfThere::stays));
  const std::string name = head_.topic ? fmt::format("{} topic {}", head_.key, *head_.topic) : head_.key;
  LeftOut left_out = out.left_out();
  left_out.merge(entries.left_out);
  if (transcript->tail().count > on_path) left_out["entry of another branch"] = transcript->tail().count - on_path;
  tell_written(name, file);
  tell_left_out(name, left_out);
  return {};
}

}  // namespace sessiond::formats
