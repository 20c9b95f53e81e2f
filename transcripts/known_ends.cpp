#include "transcripts/known_ends.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::transcripts {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t least_garbage = 1024;  // outdated lines of the record before it is written again

std::uint64_t number_at(std::string_view object, std::string_view name) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(json::int_at(object, name).value_or(0), 0));
}

// Puts a range among those that are there, in order; what touches becomes one.
void merge(std::vector<ByteRange>& ranges, ByteRange added) {
  auto at = std::ranges::lower_bound(ranges, added.begin, {}, &ByteRange::end);
  while (at != ranges.end() && at->begin <= added.end) {
    added = {std::min(added.begin, at->begin), std::max(added.end, at->end)};
    at = ranges.erase(at);
  }
  ranges.insert(at, added);
}

}  // namespace

Result<KnownEnds> KnownEnds::open(fs::path dir, fs::path record, bool adopt) {
  KnownEnds ends(std::move(dir), std::move(record));
  auto text = store::read_file(ends.record_);
  if (text && ends.read(*text)) {
    if (ends.lines_ == 0) ends.distrust();
    return ends;
  }
  if (!text && text.error().code != Code::not_found) return std::unexpected(std::move(text.error()));
  ends.was_damaged_ = text.has_value();
  ends.lines_ = 0;
  if (adopt || ends.was_damaged_) ends.adopt();
  TRY(ends.save());
  return ends;
}

// For a record whose last lines are missing. Marks each transcript that differs from the rest of the record as
// rewritten: its lines are not published a second time; its readers start again.
void KnownEnds::distrust() {
  for (const std::string& file : listing()) {
    const auto edit = look(file);
    if (edit && *edit) ends_[file] = {.inode = (*edit)->inode + 1, .size = (*edit)->size};
  }
}

bool KnownEnds::is_sound(std::string_view record) { return KnownEnds({}, {}).read(record); }

std::vector<std::string> KnownEnds::lost_in(std::string_view record, const fs::path& dir) {
  KnownEnds ends(dir, {});
  std::vector<std::string> files;
  if (!ends.read(record)) return files;
  for (const auto& [file, end] : ends.ends_)
    if (!store::stat_of(dir / file)) files.push_back(file);
  return files;
}

std::vector<std::string> KnownEnds::lost() const {
  std::vector<std::string> files;
  for (const auto& [file, end] : ends_)
    if (end.inode == 0) files.push_back(file);
  return files;
}

void KnownEnds::adopt() {
  ends_.clear();
  for (const std::string& file : listing()) {
    const auto status = store::stat_within(dir_ / file);
    if (!status || !S_ISREG(status->st_mode)) continue;
    ends_.try_emplace(file, End{.inode = status->st_ino, .size = static_cast<std::uint64_t>(status->st_size)});
  }
}

bool KnownEnds::read(std::string_view text) {
  std::uint64_t expected = 1;  // files that were written together, by the first line
  std::uint64_t files = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++lines_;
    if (end == std::string_view::npos || !json::check(one) || !json::crc_fits(one)) {
      lines_ = 0;
      return files >= expected && end == std::string_view::npos;  // a crash tore it before save() returned
    }
    const std::string file = json::string_at(one, "file").value_or("");
    if (file.empty()) {
      expected = number_at(one, "size");
      continue;
    }
    ++files;
    End known{.inode = number_at(one, "inode"), .size = number_at(one, "size")};
    for (const auto& [from, to] : json::pairs_at(one, "beyond")) known.beyond.push_back({from, to});
    if (known.inode == 0 && known.size == 0) {
      ends_.erase(file);
    } else {
      ends_[file] = std::move(known);
    }
  }
  return files >= expected;
}

std::vector<std::string> KnownEnds::listing() const {
  std::vector<std::string> files;
  store::each_in(dir_, [&](const fs::directory_entry& entry) {
    std::string file = entry.path().filename().string();
    if (file.ends_with(".jsonl")) files.push_back(std::move(file));
  });
  return files;
}

void KnownEnds::add(std::string_view file, std::uint64_t inode, ByteRange lines) {
  auto at = ends_.find(file);
  if (at == ends_.end()) at = ends_.emplace(file, End{.inode = inode}).first;
  if (at->second.inode == 0) at->second = {.inode = inode};  // it is back
  End& known = at->second;
  if (known.inode != inode) {
    End& other = replaced_[std::string(file)];
    if (other.inode != inode) other = {.inode = inode};
    return merge(other.beyond, lines);
  }
  if (lines.end <= known.size) return;
  if (known.beyond.empty() && lines.begin <= known.size) {
    known.size = lines.end;
  } else {
    merge(known.beyond, lines);
    if (known.beyond.front().begin <= known.size) {
      known.size = known.beyond.front().end;
      known.beyond.erase(known.beyond.begin());
    }
  }
  if (!changed_.contains(file)) changed_.emplace(file);
}

void KnownEnds::replace(std::string_view file, std::uint64_t inode, std::uint64_t size) {
  if (inode != 0) {
    ends_[std::string(file)] = {.inode = inode, .size = size};
  } else if (const auto at = ends_.find(file); at != ends_.end()) {
    const std::uint64_t reach = at->second.beyond.empty() ? at->second.size : at->second.beyond.back().end;
    at->second = {.size = std::max<std::uint64_t>(reach, 1)};
  } else {
    return;
  }
  changed_.emplace(file);
  const auto other = replaced_.extract(std::string(file));
  if (other.empty() || other.mapped().inode != inode) return;
  for (const ByteRange& lines : other.mapped().beyond) add(file, inode, lines);
}

void KnownEnds::forget(std::string_view file) {
  const auto at = ends_.find(file);
  if (at == ends_.end()) return;
  ends_.erase(at);
  changed_.emplace(file);
  if (const auto other = replaced_.find(file); other != replaced_.end()) replaced_.erase(other);
}

void KnownEnds::forget_lost(std::string_view session_id) {
  std::vector<std::string> files;
  for (auto at = ends_.lower_bound(session_id); at != ends_.end() && at->first.starts_with(session_id); ++at)
    if (at->second.inode == 0 &&
        (at->first == store::transcript_file(session_id, "") || store::topic_of_file(session_id, at->first)))
      files.push_back(at->first);
  for (const std::string& file : files) forget(file);
}

std::uint64_t KnownEnds::inode_if_known(std::string_view file, std::uint64_t size) const {
  const auto known = ends_.find(file);
  return known != ends_.end() && known->second.size == size && known->second.beyond.empty() ? known->second.inode : 0;
}

Result<std::optional<ForeignEdit>> KnownEnds::look(const std::string& file) const {
  auto known = ends_.find(file);
  if (known != ends_.end() && known->second.inode == 0) known = ends_.end();
  const std::filesystem::path path = dir_ / file;
  const auto at_path = store::stat_within(path);
  if (!at_path) {
    if (errno != ENOENT && errno != ENOTDIR) return io_fail("stat", path.native());
    if (known == ends_.end()) return std::nullopt;
    return ForeignEdit{.file = file, .kind = ForeignEdit::Kind::removed};
  }
  const struct stat& status = *at_path;
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  ForeignEdit edit{.file = file, .inode = status.st_ino, .size = static_cast<std::uint64_t>(status.st_size)};
  if (known == ends_.end()) {
    if (edit.size == 0) return std::nullopt;
    edit.unknown = {{0, edit.size}};
    return edit;
  }
  const End& end = known->second;
  const std::uint64_t reach = end.beyond.empty() ? end.size : end.beyond.back().end;
  if (end.inode == edit.inode && reach == edit.size && end.beyond.empty()) return std::nullopt;
  edit.kind = ForeignEdit::Kind::rewritten;
  if (end.inode != edit.inode || edit.size < reach) return edit;
  std::uint64_t from = end.size;
  if (end.size > 0) {  // a file rewritten in place will hardly have the end of a line here
    TRY(auto fd, store::open_within(dir_ / file, O_RDONLY | O_NONBLOCK));
    TRY(const auto there, store::read_at(fd.get(), end.size - 1, 2, (dir_ / file).native()));
    if (!there.starts_with('\n')) {
      if (!there.ends_with('\n')) return edit;
      ++from;  // adopted without its last newline, which the next append wrote
    }
  }
  edit.kind = ForeignEdit::Kind::appended;
  for (const ByteRange& ours : end.beyond) {
    if (from < ours.begin) edit.unknown.push_back({from, ours.begin});
    from = ours.end;
  }
  if (from < edit.size) edit.unknown.push_back({from, edit.size});
  if (edit.unknown.empty()) return std::nullopt;
  return edit;
}

std::set<std::string, std::less<>> KnownEnds::names() const {
  std::set<std::string, std::less<>> files;
  for (std::string& file : listing()) files.insert(std::move(file));
  for (const auto& [file, end] : ends_) files.insert(file);
  return files;
}

Result<std::vector<ForeignEdit>> KnownEnds::look() const {
  std::vector<ForeignEdit> found;
  for (const std::string& file : names()) {
    TRY(auto edit, look(file));
    if (edit) found.push_back(std::move(*edit));
  }
  return found;
}

std::string KnownEnds::line(std::string_view file, const End& end) {
  json::ObjectWriter writer;
  writer.string("file", file);
  writer.integer("inode", static_cast<std::int64_t>(end.inode));
  writer.integer("size", static_cast<std::int64_t>(end.size));
  if (!end.beyond.empty()) {
    std::string beyond;
    for (const ByteRange& ours : end.beyond)
      beyond += fmt::format("{}[{},{}]", beyond.empty() ? "" : ",", ours.begin, ours.end);
    writer.raw("beyond", "[" + beyond + "]");
  }
  return json::with_crc(writer.text()) + "\n";
}

Result<void> KnownEnds::save() {
  std::string text;
  if (lines_ == 0 || lines_ + changed_.size() > 2 * ends_.size() + least_garbage) {
    text = line("", End{.size = ends_.size()});  // without a file: how many lines follow
    for (const auto& [file, end] : ends_) text += line(file, end);
    TRY(store::make_dirs(record_.parent_path()));
    lines_ = 0;  // also if writing fails
    TRY(store::replace_file(record_, text));
    lines_ = ends_.size() + 1;
  } else if (!changed_.empty()) {
    for (const std::string& file : changed_) {
      const auto at = ends_.find(file);
      text += line(file, at == ends_.end() ? End{} : at->second);
    }
    const std::size_t before = std::exchange(lines_, 0);  // a failed write may leave a part of a line
    TRY(auto fd, store::open_file(record_, O_WRONLY | O_APPEND));
    TRY(store::write_all(fd.get(), text, record_.native()));
    if (::fdatasync(fd.get()) != 0) return io_fail("fsync", record_.native());
    lines_ = before + changed_.size();
  }
  changed_.clear();
  return {};
}

}  // namespace sessiond::transcripts
