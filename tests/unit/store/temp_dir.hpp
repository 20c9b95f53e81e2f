// A directory of its own, gone at the end of the test: below the system's temporary directory, or in memory for tests
// that sync so often that a disk would make them slow.
#pragma once

#include <stdlib.h>

#include <doctest/doctest.h>
#include <filesystem>
#include <string>

namespace sessiond::testing {

class TempDir {
 public:
  enum class On { disk, memory };
  explicit TempDir(On on = On::disk) {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = on == On::memory && std::filesystem::is_directory(memory);
    std::string name =
        ((in_memory ? memory : std::filesystem::temp_directory_path()) / "sessiond-store-XXXXXX").native();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;  // a test that fails must not fail again here
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace sessiond::testing
