// What SessionsFile knows of the disk: one generation of a store as it was read, the files beside
// journal/previous/<agent>.json, and the steps of a checkpoint. The note says which checkpoint was under way, so that
// whatever a killed one left is put where it belongs.
//   <agent>.json          the generation before the last
//   <agent>.current.json  hard link to the last generation that we wrote: survives when another program replaces the
//   store <agent>.foreign.json  a version of another program that our exchange brought out, until it is merged
//   <agent>.note          {"temp":"<name>","current":<stamp>,"next":<stamp>}, stamp = {"inode","mtimeNs","size"}
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/files.hpp"
#include "store/sessions/sessions_file.hpp"

namespace sessiond {

// Which content of which file: what stays the same over rename and link, which move ctime.
struct Stamp {
  std::uint64_t inode = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

// One file as it was seen; the open descriptor keeps its inode from being given to another. No descriptor: there was no
// file.
struct Snapshot {
  Fd fd;
  std::uint64_t device = 0;
  FileIdentity id{};

  Stamp stamp() const { return {id.inode, id.mtime_ns, id.size}; }
};
Snapshot snapshot_of(Fd fd, const struct stat& status);
std::optional<struct stat> stat_of(const std::filesystem::path& path);
Stamp stamp_of(const struct stat& status);

struct StoreRead {
  enum class Kind { absent, damaged, good };
  Kind kind = Kind::absent;
  Snapshot snapshot{};
  std::vector<NamedEntry> entries{};
  std::vector<std::string> oddities{};
  std::string damage{};  // why, when damaged
};
// A whole version, also when it is rewritten in place meanwhile.
Result<StoreRead> read_store(const std::filesystem::path& path);

struct StoreNote {
  std::string temp{};  // name of the checkpoint's temp file, beside the store
  std::optional<Stamp> current{};
  std::optional<Stamp> next{};
};
std::optional<StoreNote> read_note(const std::filesystem::path& path);
// Atomic and durable: without it nothing would say whose the temp file of a checkpoint is that a power failure left.
Result<void> write_note(const std::filesystem::path& path, const StoreNote& note);

struct GenerationFiles {
  explicit GenerationFiles(const std::filesystem::path& previous_file);
  std::filesystem::path previous;
  std::filesystem::path current;
  std::filesystem::path foreign;
  std::filesystem::path note;
};

// The last change of each key.
using ChangeIndex = std::unordered_map<std::string_view, const NamedEntry*>;
ChangeIndex index_changes(const std::vector<NamedEntry>& changes);
// base + changes, as it is written: existing places kept, new ones last.
Result<std::uint64_t> write_merged(int fd, std::string_view path, const std::vector<NamedEntry>& base,
                                   const std::vector<NamedEntry>& changes);
void apply_changes(std::vector<NamedEntry>& base, const std::vector<NamedEntry>& changes);

// Renames, or copies where that crosses file systems. What stood at `to` goes.
Result<void> move_file(const std::filesystem::path& from, const std::filesystem::path& to);
// Moves a damaged store to <store>.corrupt.<time>; the name it got.
Result<std::filesystem::path> set_aside(const std::filesystem::path& from, const std::filesystem::path& store);
// Makes `name` another name of the open file; false where the file system cannot (then there is no `name`).
bool link_open_file(int fd, const std::filesystem::path& name);

}  // namespace sessiond
