#include "store/base64.hpp"

#include <doctest/doctest.h>

using sessiond::store::Base64Form;
using sessiond::store::from_base64;
using sessiond::store::to_base64;

TEST_CASE("base64 comes back in the form in which it was written") {
  std::string bytes;
  for (int length = 0; length < 300; ++length) {
    for (const bool url : {false, true})
      for (const bool padded : {false, true})
        for (const bool slashes : {false, true}) {
          const std::string text = to_base64(bytes, {.url = url, .padded = padded, .slashes = slashes});
          const auto decoded = from_base64(text);
          REQUIRE(decoded.has_value());
          CHECK(decoded->bytes == bytes);
          CHECK(to_base64(decoded->bytes, decoded->form) == text);
        }
    bytes += static_cast<char>(length * 37 + 251);
  }
  CHECK(to_base64("foobar") == "Zm9vYmFy");
  CHECK(to_base64("foob") == "Zm9vYg==");
  CHECK(to_base64("\xfb\xff", {.url = true, .padded = false}) == "-_8");
}

TEST_CASE("what is not base64 in one form throughout is none") {
  for (const char* text : {"A",     "AB=",  "ABC==", "AB===", "A===",   "=",      "====", "AB==AB==", "AB\n==", " ABCD",
                           "ABCD ", "AB+-", "+_8=",  "AB\\",  "AB\\nC", "\\/A/B", "AB=A", "AC==x",    "AB==",   "é"})
    CHECK_MESSAGE(!from_base64(text), text);  // of AB== the last bits are not zero
}

TEST_CASE("base64 makes one text of bytes, and takes only that") {
  std::string out;
  std::string text;
  for (int length = 0; length < 70; ++length) {
    text.push_back(static_cast<char>(length * 37 + 255));
    REQUIRE(from_base64(to_base64(text), out));
    CHECK(out == text);
  }
  CHECK(to_base64("fooba") == "Zm9vYmE=");
  for (const std::string_view bad : {"Zm9vYmF=", "Zm9v=", "Zm9vY===", "Zm-v", "Zm9v\n", "Zg=a", "====", "Zh=="})
    CHECK_FALSE(from_base64(bad, out));
}
