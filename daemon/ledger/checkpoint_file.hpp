// journal/CHECKPOINT: how far the files have come. Recovery replays the journal from there.
//   {"epoch","seq","agents":{"<id>":<seq>},"previous":{"<id>":<seq>},"written":{"<id>":<seq>},
//    "runs":{"<id>":<seq>},"outbox":{"<id>":<seq>},"crc"}
// `runs` and `outbox` name the agents that have such a file (book_files.hpp), and the event that it was written at. If
// it is gone, or ends before, it is made again. Earlier versions named the agents in an array.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::ledger {

// The books that an agent has on disk (book_files.hpp), and the event up to which each was written; 0: not known.
struct BooksOnDisk {
  using Book = std::optional<std::uint64_t> BooksOnDisk::*;
  std::optional<std::uint64_t> runs{};
  std::optional<std::uint64_t> outbox{};
};

// How far the files of an agent are: each holds all its changes up to this seq. 0: not known.
struct FilesReached {
  std::uint64_t store = 0;     // sessions.json
  std::uint64_t lines = 0;     // its transcripts
  std::uint64_t previous = 0;  // the generation of sessions.json before
  std::uint64_t ours = 0;      // the last generation that we wrote
  BooksOnDisk books{};         // that must be there
};

// Agents that are not named have everything up to `seq`.
struct Checkpoint {
  std::uint64_t seq = 0;
  std::map<std::string, std::uint64_t> agents;
  std::map<std::string, std::uint64_t> previous;
  std::map<std::string, std::uint64_t> written;
  std::map<std::string, BooksOnDisk> books;
  bool known = false;    // it was there, and sound
  bool damaged = false;  // it was there

  // Adds the books that are there. Returns the agents of which one is gone.
  std::vector<std::string> add_books(std::map<std::string, BooksOnDisk> there);
  FilesReached reached(const std::string& agent) const {
    const auto in = [&agent](const std::map<std::string, std::uint64_t>& seqs, std::uint64_t otherwise) {
      const auto found = seqs.find(agent);
      return found == seqs.end() ? otherwise : found->second;
    };
    const std::uint64_t store = in(agents, seq);
    const auto of_books = books.find(agent);
    return {.store = store,
            .lines = store,
            .previous = in(previous, store),
            .ours = in(written, 0),
            .books = of_books == books.end() ? BooksOnDisk{} : of_books->second};
  }
  std::uint64_t least() const {
    std::uint64_t out = seq;
    for (const auto& [id, reached] : agents) out = std::min(out, reached);
    return out;
  }
};

// Nothing when there is none; `damaged` when it cannot be believed. Blocks.
Result<Checkpoint> read_checkpoint(const std::filesystem::path& path);

}  // namespace sessiond::ledger
