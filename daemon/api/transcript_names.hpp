// Finds session ids of which agents' folders have a transcript. A folder is listed once, and again when it changed, so
// a question costs one stat for each folder at rest, however many ids are asked for. Blocks; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace sessiond::api {

class TranscriptNames {
 public:
  // The ids among these of which one of the folders has a transcript.
  std::vector<std::string> found(const std::vector<std::filesystem::path>& folders,
                                 const std::vector<std::string>& ids);

 private:
  struct Listed {
    std::int64_t changed_ns = 0;       // the folder's mtime when it was listed
    std::vector<std::size_t> names{};  // hashes of all names in it, sorted
  };
  // Null: the folder changed just now, or cannot be listed; whoever asks looks at each file.
  const Listed* listed(const std::filesystem::path& folder);

  std::mutex mutex_{};
  std::map<std::string, Listed> folders_{};
};

}  // namespace sessiond::api
