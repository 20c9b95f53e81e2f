// MANIFEST.json, a backup's last member and the mark that it is whole: what files there are, and their CRC-32. Where it
// is missing, or a file is not as it says, the backup is not restored.
//   {"format":1,"sessiond":"0.1.0","createdAt":<ms>,"asOf":"<epoch>-<seq>","pathTemplate":"…",
//    "files":[{"name":"journal/EPOCH","size":34,"crc32":"<8 hex>"},…]}
// asOf is left out when no daemon ran.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond {

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

std::string to_json(const Manifest& manifest);  // one file a line
// validation_failed: it is none, or of a later format.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace sessiond
