// MANIFEST.json lists a backup's files with their sizes and CRC-32. It is the last member of the archive, so its
// presence shows that the backup is complete. A backup without it, or with a file that differs from it, is not
// restored.
//   {"format":1,"sessiond":"0.1.0","createdAt":<ms>,"asOf":"<epoch>-<seq>","pathTemplate":"…",
//    "files":[{"name":"journal/EPOCH","size":34,"crc32":"<8 hex>"},…]}
// asOf is absent when no daemon ran.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::backup {

inline constexpr std::string_view manifest_name = "MANIFEST.json";

struct Manifest {
  struct File {
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    friend bool operator==(const File&, const File&) = default;
  };
  std::int64_t created_at = 0;  // ms since the epoch
  std::string as_of{};
  std::string path_template{};  // store.pathTemplate
  std::map<std::string, File, std::less<>> files{};

  std::uint64_t bytes() const;
};

std::string to_json(const Manifest& manifest);  // has one line for each file
// Errors: validation_failed when it is no manifest or has a later format.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace sessiond::backup
