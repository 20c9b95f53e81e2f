#include "store/crc32.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace sessiond::store;

namespace {

// A bit at a time, as ITU-T V.42 defines it.
std::uint32_t slow_crc(std::string_view bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("a CRC of any length at any place is that of the definition, whole or in two pieces") {
  CHECK(crc32_of("123456789") == 0xCBF43926U);
  CHECK(crc32_of("") == 0);
  CHECK(crc32_of({}, 7) == 7);
  std::string text;
  for (unsigned i = 0; i < 700; ++i) text += static_cast<char>((i * 151 + i / 7) & 0xFF);
  for (std::size_t size = 0; size < 600; ++size) {
    const std::string_view bytes = std::string_view(text).substr(size % 61, size);
    CAPTURE(size);
    REQUIRE(crc32_of(bytes) == slow_crc(bytes, 0));
    const std::size_t cut = size * 3 / 7;
    REQUIRE(crc32_of(bytes.substr(cut), crc32_of(bytes.substr(0, cut))) == crc32_of(bytes));
  }
}
