#include "tests/crash/shim/control.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace crash {
namespace {

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    std::fprintf(stderr, "crash_shim: %s is not set\n", name);
    std::_Exit(97);
  }
  return value;
}

Control* map_control() {
  const char* path = setting("CRASH_SHIM_CONTROL");
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  void* page = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(fd), 0);
  if (fd < 0 || page == MAP_FAILED) {
    std::perror(path);
    std::_Exit(97);
  }
  syscall(SYS_close, fd);
  return static_cast<Control*>(page);
}

}  // namespace

Control& control() {
  static Control* const mapped = map_control();
  return *mapped;
}

bool below(const std::string& path) {
  static const std::string* const dir = new std::string(setting("CRASH_SHIM_DIR"));  // outlives every destructor
  return path.starts_with(*dir) && (path.size() == dir->size() || path[dir->size()] == '/');
}

std::string absolute(const char* path) {
  if (*path == '/') return std::filesystem::path(path).lexically_normal().native();
  std::array<char, PATH_MAX> cwd{};
  if (::getcwd(cwd.data(), cwd.size()) == nullptr) return path;
  return (std::filesystem::path(cwd.data()) / path).lexically_normal().native();
}

std::string path_of(int fd) {
  std::array<char, PATH_MAX> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  return {target.data(), length < 0 ? 0 : static_cast<std::size_t>(length)};
}

void trace(std::uint64_t number, const char* name, const std::string& path, const char* outcome) {
  static const char* const file = std::getenv("CRASH_SHIM_TRACE");
  if (file == nullptr) return;
  static const int fd =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string line = std::to_string(number) + ' ' + name + ' ' + path + ' ' + outcome + '\n';
  static_cast<void>(syscall(SYS_write, fd, line.data(), line.size()) < 0);  // a trace with a gap is better than none
}

}  // namespace crash
