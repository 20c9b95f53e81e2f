// Keys for tests of what is sealed: a key file, and the process's keys as long as the object lives.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "store/base64.hpp"
#include "store/files.hpp"
#include "store/seal/keys.hpp"

namespace sessiond::seal_test {

inline std::string key_text(char fill) { return store::to_base64(std::string(seal::key_bytes, fill)); }

inline void write_keys(const std::filesystem::path& file, std::string_view json) {
  REQUIRE(store::replace_file(file, json));
  ::chmod(file.c_str(), 0600);
}

class KeysInUse {
 public:
  explicit KeysInUse(const std::filesystem::path& dir, std::string_view active = "one") : file_(dir / "keys.json") {
    write_keys(file_, fmt::format(R"({{"active":"{}","keys":{{"one":"{}","two-of-2":"{}"}}}})", active, key_text('1'),
                                  key_text('2')));
    const auto started = seal::start(file_, dir);
    REQUIRE_MESSAGE(started.has_value(), started.error().detail);
  }
  ~KeysInUse() { seal::stop(); }
  KeysInUse(const KeysInUse&) = delete;
  KeysInUse& operator=(const KeysInUse&) = delete;
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace sessiond::seal_test
