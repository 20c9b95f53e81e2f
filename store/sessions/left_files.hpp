// The files that a checkpoint took out of the store's place, while a foreign program may still write them.
//
// A program that opened the store before the checkpoint exchanged it writes on into the file that is gone. So such a
// file stays open and is looked at for as long as a store that is not whole (unfinished.hpp). If it changes and is
// whole then, it is a foreign version, made from what we had read of it. A file that no process has open for writing
// is given up at the next look, where the file system tells. At most `most` files are open; one that has not changed
// makes room for the next. One thread at a time; blocks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/sessions/disk.hpp"
#include "store/sessions/unfinished.hpp"

namespace sessiond::sessions {

class LeftFiles {
 public:
  static constexpr std::size_t most = 4;

  explicit LeftFiles(Patience patience) : patience_(patience) {}
  // Keeps a file that was opened for reading and has just left the store's place. `back`: the changes that make of the
  // base what we had read of the file, or what it was made from if it is not `whole`. `set_aside`: it has a name of its
  // own among the damaged ones.
  void add(store::Fd file, bool whole, bool set_aside, std::vector<NamedEntry> back = {});
  void clear() { files_.clear(); }
  // To be called when the base became another one. `back`: the changes that make the earlier base of the new one.
  void base_changed(const std::vector<NamedEntry>& back);

  struct Finished {
    std::vector<NamedEntry> before;  // what we had read of the file
    std::vector<NamedEntry> theirs;
  };
  struct Look {
    std::optional<Finished> finished{};  // look again: another file may be finished, too
    std::vector<std::string> damaged{};  // the texts of files that will not become whole and have no name of their own
  };
  Look look(const std::vector<NamedEntry>& base);

  bool empty() const { return files_.empty(); }
  // Returns whether one of them is being written, or has left only now.
  bool is_pressing() const;

 private:
  struct File {
    store::Fd fd;
    Stamp stamp;
    bool whole;
    bool set_aside;
    Unfinished unfinished;
    Unfinished::Clock::time_point left;
    Unfinished::Clock::time_point changed;
    // By key, what makes of the base what we had read of the file. A null entry: there was none.
    std::map<std::string, NamedEntry> back{};
  };
  std::vector<NamedEntry> before(const File& file, const std::vector<NamedEntry>& base) const;
  bool is_over(const File& file, Unfinished::Clock::time_point now) const;

  Patience patience_;
  std::vector<File> files_{};  // the oldest first
};

// Returns the changes that make `to` of `from`.
std::vector<NamedEntry> differences(const std::vector<NamedEntry>& from, const std::vector<NamedEntry>& to);
// Returns the changes that undo `changes` of `base`.
std::vector<NamedEntry> undoing(const std::vector<NamedEntry>& base, const std::vector<NamedEntry>& changes);

}  // namespace sessiond::sessions
