// The files of SessionsFile on disk: a store as it was read, the files that keep its earlier generations, and the
// steps of a checkpoint.
//
// Beside journal/previous/<agent>.json:
//   <agent>.json          the generation before the last
//   <agent>.current.json  hard link to the last generation that we wrote; it survives a foreign program's replacing
//                         the store
//   <agent>.foreign.json  a foreign version that an exchange brought out, until its changes are committed
//   <agent>.note          {"temp":"<name>","current":<stamp>,"next":<stamp>}, stamp = {"inode","mtimeNs","size"}
// The note says which checkpoint was running, so that the next start can put the files of a killed one where they
// belong.
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

namespace sessiond::sessions {

// Identifies the content of a file. Unlike ctime, it does not change by rename and link.
struct Stamp {
  std::uint64_t inode = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

// A file as it was read. The open descriptor keeps the inode from being reused. No descriptor: there was no file.
struct Snapshot {
  store::Fd fd;
  std::uint64_t device = 0;
  store::FileIdentity id{};

  Stamp stamp() const { return {id.inode, id.mtime_ns, id.size}; }
};
Snapshot snapshot_of(store::Fd fd, const struct stat& status);
Stamp stamp_of(const struct stat& status);

struct StoreRead {
  enum class Kind { absent, damaged, good };
  Kind kind = Kind::absent;
  Snapshot snapshot{};
  std::vector<NamedEntry> entries{};
  std::vector<std::string> oddities{};
  std::string damage{};            // what is wrong, if damaged
  std::uint64_t content_hash = 0;  // of the text, if damaged
};
// Reads an open file, without the descriptor in the snapshot. If it is rewritten meanwhile, reads again; `text` is what
// was read last.
Result<StoreRead> read_open_store(int fd, const std::filesystem::path& path, std::string& text);
// Opens and reads a store.
Result<StoreRead> read_store(const std::filesystem::path& path);

struct StoreNote {
  std::string temp{};  // file name of the checkpoint's temp file, beside the store
  std::optional<Stamp> current{};
  std::optional<Stamp> next{};
};
std::optional<StoreNote> read_note(const std::filesystem::path& path);
// Atomic, and on disk when it returns: it must tell after a power cut whose a temp file is.
Result<void> write_note(const std::filesystem::path& path, const StoreNote& note);

struct GenerationFiles {
  explicit GenerationFiles(const std::filesystem::path& previous_file);
  std::filesystem::path previous;
  std::filesystem::path current;
  std::filesystem::path foreign;
  std::filesystem::path note;
};

// Entries by key; of several with one key the last one. Points into the entries.
using EntryIndex = std::unordered_map<std::string_view, const NamedEntry*>;
EntryIndex index_by_key(const std::vector<NamedEntry>& entries);
// Writes base + changes: entries keep their order, new ones come last. Returns the size.
Result<std::uint64_t> write_merged(int fd, std::string_view path, const std::vector<NamedEntry>& base,
                                   const std::vector<NamedEntry>& changes);
void apply_changes(std::vector<NamedEntry>& base, const std::vector<NamedEntry>& changes);

// Renames, or copies if that crosses file systems. Replaces `to`.
Result<void> move_file(const std::filesystem::path& from, const std::filesystem::path& to);
// The name that a damaged store gets now: <store>.corrupt.<time>.
std::filesystem::path name_aside(const std::filesystem::path& store);
// Moves a damaged store to a name of its own, as name_aside. Returns the new name.
Result<std::filesystem::path> set_aside(const std::filesystem::path& from, const std::filesystem::path& store);
// Makes `name` a hard link to the open file. Returns false if the file system cannot; `name` then does not exist.
bool link_open_file(int fd, const std::filesystem::path& name);

}  // namespace sessiond::sessions
