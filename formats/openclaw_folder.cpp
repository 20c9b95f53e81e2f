// Writing the folder of OpenClaw before version 2026.8.
#include <fmt/format.h>

#include "formats/foreign.hpp"
#include "formats/openclaw.hpp"
#include "store/files.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::formats {
namespace {

namespace fs = std::filesystem;

// The entries that are there: an object, also when there is no file.
Result<std::string> entries_of(const fs::path& file) {
  if (!store::stat_of(file)) return "{}";
  TRY(std::string there, store::read_file(file));
  if (const auto why = not_an_object(there)) return fail(Code::degraded, fmt::format("{}: {}", file.native(), *why));
  return there;
}

}  // namespace

Result<void> OpenclawFolder::begin_folder() {
  const fs::path sessions = options().dir / "agents" / options().agent / "sessions";
  TRY(store::make_dirs(sessions));
  if (!options().replaces && store::stat_of(sessions / "sessions.json"))
    return fail(Code::session_exists, (sessions / "sessions.json").native() + ": is there already");
  TRY(entries_of(sessions / "sessions.json"));  // or all the work would be for nothing
  sessions_ = sessions;
  return {};
}

Result<void> OpenclawFolder::begin(SessionHead head) {
  if (sessions_.empty()) TRY(begin_folder());
  const bool goes_on = head.topic && head.id == head_.id;
  if (!goes_on) lost_ = false;
  head_ = std::move(head);
  if (lost_) return {};
  const fs::path path = sessions_ / store::transcript_file(
                                        head_.id, head_.topic.value_or(std::string(store::parse_key(head_.key).topic)));
  if (!options().replaces && store::stat_of(path)) {
    skip({.id = head_.key, .why = path.native() + ": is there already"});
    lost_ = true;
    return {};
  }
  TRY(auto file, store::NewFile::begin(path));
  file_.emplace(std::move(file));
  return file_->write(head_.header + '\n');
}

Result<void> OpenclawFolder::put(const std::string& line) {
  if (lost_) return {};
  TRY(file_->write(line));
  return file_->write("\n");
}

Result<void> OpenclawFolder::place() {
  if (lost_) return {};
  const fs::path path = file_->file();
  const auto placed =
      file_->place(options().replaces ? store::NewFile::IfThere::is_replaced : store::NewFile::IfThere::stays);
  file_.reset();
  lost_ = !placed;
  if (!placed && placed.error().code != Code::session_exists) return placed;
  if (lost_) {
    skip({.id = head_.key, .why = placed.error().detail});
    return {};
  }
  if (!head_.topic) {
    json::Edit edit;
    edit.put_string("sessionId", head_.id);
    // OpenClaw would look for the file <sessionId>-topic-<thread>.jsonl.
    const store::KeyParts parts = store::parse_key(head_.key);
    if (!parts.thread.empty() && parts.topic.empty()) edit.put_string("sessionFile", fs::absolute(path).native());
    entries_.set.push_back({head_.key, json::apply(head_.entry, edit)});
  }
  tell_written(head_.key, path);
  return {};
}

Result<void> OpenclawFolder::finish() {
  if (sessions_.empty()) return {};
  TRY(auto file, store::NewFile::begin(sessions_ / "sessions.json"));
  // OpenClaw may have written it since the export began.
  TRY(const std::string there, entries_of(sessions_ / "sessions.json"));
  TRY(file.write(json::apply(there, entries_)));
  TRY(file.write("\n"));
  return file.place(options().replaces ? store::NewFile::IfThere::is_replaced : store::NewFile::IfThere::stays);
}

}  // namespace sessiond::formats
