// A directory of a test's own, gone at its end: below the system's temporary directory, or in memory for tests that
// sync so often that a disk would make them slow.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace sessiond::testing {

class TempDir {
 public:
  enum class On { disk, memory };
  explicit TempDir(On on = On::disk) {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = on == On::memory && std::filesystem::is_directory(memory);
    std::string name =
        ((in_memory ? memory : std::filesystem::temp_directory_path()) / "sessiond-test-XXXXXX").native();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;  // a test that fails must not fail again here
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    return put(name, bytes, std::ios::trunc);
  }
  std::filesystem::path append(std::string_view name, std::string_view bytes) const {
    return put(name, bytes, std::ios::app);
  }
  std::string read(std::string_view name) const {
    std::ifstream in(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::filesystem::path put(std::string_view name, std::string_view bytes, std::ios::openmode mode) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary | mode).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file;
  }

  std::filesystem::path path_;
};

}  // namespace sessiond::testing
