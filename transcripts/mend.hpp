// What is mended at the end of a transcript before anybody writes behind it (FORMATS §4). A last line without newline
// that is an entry gets its newline; one that is none was torn and is cut off into <file>.torn.<time>, which is on disk
// before the file is cut: interrupted anywhere, it can be done again. Whoever calls keeps others from writing
// meanwhile, and has put there what the journal has (a torn line of it is completed). Blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "store/problem.hpp"

namespace sessiond {

struct MendedEnd {
  std::uint64_t offset = 0;      // where the last line begins
  std::uint64_t bytes = 0;       // of it
  std::filesystem::path torn{};  // where it is now; empty: it stayed and has its newline
};
// Nothing when the file ends as it should, is empty or is not there.
Result<std::optional<MendedEnd>> mend_end(const std::filesystem::path& path);

}  // namespace sessiond
