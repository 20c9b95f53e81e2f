#include "store/sessions/disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>

#include "store/try.hpp"

namespace sessiond::sessions {
namespace fs = std::filesystem;
namespace {

fs::path sibling(const fs::path& previous, std::string_view ending) {
  fs::path path = previous;
  path.replace_extension();
  path += ending;
  return path;
}

std::string to_json(const Stamp& stamp) {
  json::ObjectWriter out;
  out.raw("inode", std::to_string(stamp.inode));
  out.integer("mtimeNs", stamp.mtime_ns);
  out.raw("size", std::to_string(stamp.size));
  return out.text();
}

std::optional<Stamp> stamp_at(std::string_view object, std::string_view name) {
  const auto value = json::find(object, name);
  if (!value) return {};
  const auto inode = json::int_at(*value, "inode");
  const auto mtime = json::int_at(*value, "mtimeNs");
  const auto size = json::int_at(*value, "size");
  if (!inode || !mtime || !size) return {};
  return Stamp{static_cast<std::uint64_t>(*inode), *mtime, static_cast<std::uint64_t>(*size)};
}

}  // namespace

Snapshot snapshot_of(store::Fd fd, const struct stat& status) {
  return {.fd = std::move(fd), .device = status.st_dev, .id = store::identity(status)};
}

Stamp stamp_of(const struct stat& status) {
  const store::FileIdentity id = store::identity(status);
  return {id.inode, id.mtime_ns, id.size};
}

Result<StoreRead> read_open_store(int fd, const fs::path& path, std::string& text) {
  StoreRead read;
  constexpr int tries = 5;
  for (int turn = 0; turn < tries; ++turn) {
    TRY(const auto before, store::status_of(fd, path.native()));
    if (!S_ISREG(before.st_mode))
      return std::unexpected(
          store::in_the_way(path, {.code = Code::degraded, .detail = path.native() + " is not a regular file"}));
    auto bytes = store::read_at(fd, 0, static_cast<std::size_t>(before.st_size), path.native());
    if (!bytes) return fail(Code::degraded, std::move(bytes.error().detail));
    text = std::move(*bytes);
    TRY(const auto after, store::status_of(fd, path.native()));
    if (stamp_of(before) != stamp_of(after) && turn + 1 < tries) continue;  // it was rewritten meanwhile
    read.snapshot = snapshot_of({}, before);
    break;
  }
  auto entries = parse_store(text, read.oddities);
  if (entries) {
    read.kind = StoreRead::Kind::good;
    read.entries = std::move(*entries);
  } else {
    read.kind = StoreRead::Kind::damaged;
    read.damage = text.empty() ? "it is empty" : entries.error().detail;
    read.content_hash = std::hash<std::string_view>{}(text);
  }
  return read;
}

Result<StoreRead> read_store(const fs::path& path) {
  auto fd = store::open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd) {
    if (fd.error().code == Code::not_found) return StoreRead{};
    Problem why = store::in_the_way(path, std::move(fd.error()));
    why.code = Code::degraded;
    return std::unexpected(std::move(why));
  }
  std::string text;
  TRY(auto read, read_open_store(fd->get(), path, text));
  read.snapshot.fd = std::move(*fd);
  return read;
}

std::optional<StoreNote> read_note(const fs::path& path) {
  const auto text = store::read_file(path);
  if (!text || !json::check(*text)) return {};
  return StoreNote{.temp = json::string_at(*text, "temp").value_or(""),
                   .current = stamp_at(*text, "current"),
                   .next = stamp_at(*text, "next")};
}

Result<void> write_note(const fs::path& path, const StoreNote& note) {
  std::string text;
  json::ObjectWriter out(text);
  out.string("temp", note.temp);
  if (note.current) out.raw("current", to_json(*note.current));
  if (note.next) out.raw("next", to_json(*note.next));
  out.close();
  text += '\n';
  fs::path temp = path;
  temp += ".tmp";  // a fixed name: only we write here, and leftovers are overwritten
  TRY(auto fd, store::open_file(temp, O_WRONLY | O_CREAT | O_TRUNC));
  TRY(store::write_all(fd.get(), text, temp.native()));
  TRY(store::sync_file(fd.get(), temp));
  if (::rename(temp.c_str(), path.c_str()) != 0) return io_fail("rename", path.native());
  return store::sync_dir(path.parent_path());
}

GenerationFiles::GenerationFiles(const fs::path& previous_file)
    : previous(previous_file),
      current(sibling(previous_file, ".current.json")),
      foreign(sibling(previous_file, ".foreign.json")),
      note(sibling(previous_file, ".note")) {}

EntryIndex index_by_key(const std::vector<NamedEntry>& entries) {
  EntryIndex index;
  index.reserve(entries.size());
  for (const NamedEntry& entry : entries) index[entry.key] = &entry;
  return index;
}

Result<std::uint64_t> write_merged(int fd, std::string_view path, const std::vector<NamedEntry>& base,
                                   const std::vector<NamedEntry>& changes) {
  constexpr std::size_t piece = 1 << 20;
  EntryIndex open = index_by_key(changes);
  std::uint64_t bytes = 0;
  bool first = true;
  std::string out = "{";
  const auto flush = [&]() -> Result<void> {
    bytes += out.size();
    auto written = store::write_all(fd, out, path);
    out.clear();
    return written;
  };
  const auto add = [&](const NamedEntry& entry) -> Result<void> {
    append_store_line(out, entry, std::exchange(first, false));
    return out.size() < piece ? Result<void>{} : flush();
  };
  for (const NamedEntry& entry : base) {
    Result<void> added;
    if (const auto change = open.find(entry.key); change == open.end()) {
      added = add(entry);
    } else {
      const RawEntry& value = change->second->entry;
      if (value)
        added = add({.key = entry.key, .entry = value, .raw_name = entry.raw_name, .stored = change->second->stored});
      open.erase(change);
    }
    if (!added) return std::unexpected(added.error());
  }
  for (const NamedEntry& change : changes) {
    const auto left = open.find(change.key);
    if (left == open.end()) continue;
    const NamedEntry* last = left->second;
    open.erase(left);
    if (!last->entry) continue;
    TRY(add(*last));
  }
  out += first ? "}\n" : "\n}\n";
  TRY(flush());
  return bytes;
}

void apply_changes(std::vector<NamedEntry>& base, const std::vector<NamedEntry>& changes) {
  if (changes.empty()) return;
  EntryIndex open = index_by_key(changes);
  auto kept = base.begin();
  for (auto entry = base.begin(); entry != base.end(); ++entry) {
    if (const auto change = open.find(entry->key); change != open.end()) {
      entry->entry = change->second->entry;
      entry->stored = change->second->stored;
      open.erase(change);
      if (!entry->entry) continue;
    }
    if (kept != entry) *kept = std::move(*entry);
    ++kept;
  }
  base.erase(kept, base.end());
  for (const NamedEntry& change : changes) {
    const auto left = open.find(change.key);
    if (left == open.end()) continue;
    if (left->second->entry) base.push_back(*left->second);
    open.erase(left);
  }
}

Result<void> move_file(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  if (errno != EXDEV) return io_fail("rename", from.native());
  TRY(auto text, store::read_file(from));
  TRY(store::replace_file(to, text));
  if (::unlink(from.c_str()) != 0) return io_fail("remove", from.native());
  return {};
}

fs::path name_aside(const fs::path& store) {
  fs::path name = store;
  name += ".corrupt." + store::time_for_names();
  return name;
}

Result<fs::path> set_aside(const fs::path& from, const fs::path& store) {
  fs::path name = name_aside(store);
  const fs::path first = name;
  while (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE) != 0) {
    const int error = errno;
    if (error == EINVAL ||
        error == ENOSYS) {  // not on this file system; the name has a time, and what is there is looked at
      if (!store::stat_of(name) && ::rename(from.c_str(), name.c_str()) == 0) break;
    }
    if (error != EEXIST && !store::stat_of(name)) return std::unexpected(io_problem("set aside", from.native(), error));
    name = first;
    name += "-" + store::random_hex(6);
  }
  return name;
}

bool link_open_file(int fd, const fs::path& name) {
  const fs::path temp = fs::path(name.native() + ".tmp");
  ::unlink(temp.c_str());
  const std::string open_name = fmt::format("/proc/self/fd/{}", fd);
  if (::linkat(AT_FDCWD, open_name.c_str(), AT_FDCWD, temp.c_str(), AT_SYMLINK_FOLLOW) == 0) {
    const bool renamed = ::rename(temp.c_str(), name.c_str()) == 0;
    ::unlink(temp.c_str());  // rename(2) leaves it if both are the same file
    if (renamed) return true;
  }
  ::unlink(name.c_str());  // an outdated link would be a wrong base
  return false;
}

}  // namespace sessiond::sessions
