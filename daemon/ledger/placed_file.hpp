// A staged file that has become a transcript, as it was then.
#pragma once

#include <cstdint>
#include <string>

namespace sessiond::ledger {

struct PlacedFile {
  std::string agent{};
  std::string name{};  // of the transcript
  std::uint64_t size = 0;
};

}  // namespace sessiond::ledger
