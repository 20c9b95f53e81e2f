// journal/CHECKPOINT: how far the files have come. Recovery replays the journal from there.
//   {"epoch","seq","agents":{"<id>":<seq>},"previous":{"<id>":<seq>},"written":{"<id>":<seq>},"crc"}
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "store/problem.hpp"

namespace sessiond::ledger {

// Agents that are not named have everything up to `seq`.
struct Checkpoint {
  std::uint64_t seq = 0;
  std::map<std::string, std::uint64_t> agents;
  std::map<std::string, std::uint64_t> previous;
  std::map<std::string, std::uint64_t> written;
  bool known = false;    // it was there, and sound
  bool damaged = false;  // it was there

  std::uint64_t reached(const std::string& agent) const {
    const auto found = agents.find(agent);
    return found == agents.end() ? seq : found->second;
  }
  std::uint64_t written_by_us(const std::string& agent) const {
    const auto found = written.find(agent);
    return found == written.end() ? 0 : found->second;
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
