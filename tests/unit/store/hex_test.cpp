#include "store/hex.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace sessiond;

TEST_CASE("hexadecimal digits there and back, lower-case only") {
  std::array<unsigned char, 3> bytes{0x00, 0x9F, 0xFF};
  CHECK(store::to_hex(bytes) == "009fff");
  CHECK(store::from_hex("0a10fe", bytes));
  CHECK(bytes == std::array<unsigned char, 3>{0x0A, 0x10, 0xFE});
  for (const auto* text : {"", "0a10f", "0a10fe0", "0A10FE", "0a10fg", "0a 0fe", "+a10fe"})
    CHECK_FALSE(store::from_hex(text, bytes));
  CHECK(store::to_hex({}).empty());
}
