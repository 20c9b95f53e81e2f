#include "store/json/scan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

using namespace sessiond;

TEST_CASE("an object or array ends where a byte at a time finds its end, at any place of a text of any length") {
  std::mt19937 random(1);
  const auto any = [&random](std::string_view from) { return from[random() % from.size()]; };
  const auto string = [&] {
    std::string text = "\"";
    for (auto left = random() % 40; left > 0; --left) {
      const char c = any(random() % 3 == 0 ? "{}[]\\\"," : "abcdefgh");
      text += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
    }
    return text + '"';
  };
  for (int round = 0; round < 4'000; ++round) {
    std::string text(random() % 20, ' ');
    const std::size_t begin = text.size();
    std::string ends;  // of what is open
    do {
      if (!ends.empty() && random() % 2 == 0) {
        text += ends.back();
        ends.pop_back();
      } else if (random() % 2 == 0) {
        const bool object = random() % 2 == 0;
        text += object ? '{' : '[';
        ends += object ? '}' : ']';
      } else if (!ends.empty()) {
        text += string() + (random() % 2 == 0 ? "," : ":");
      }
    } while (!ends.empty() || text.size() == begin);
    const std::size_t end = text.size();
    for (std::size_t size = begin; size <= end; ++size)
      REQUIRE(json::skip_nested(std::string_view(text).substr(0, size), begin) == size);
    text += ",{\"more\":[1,2,3],\"text\":\"and so on\"}}]]";
    REQUIRE(json::skip_nested(text, begin) == end);
  }
}

TEST_CASE("what 16 bytes at a time find is what a byte at a time finds, from any place of a text of any length") {
  std::mt19937 random(1);
  constexpr std::string_view specials = "\"\\\x1f\n\t";
  for (int round = 0; round < 4'000; ++round) {
    std::string text(random() % 70, 'a');
    for (char& c : text) c = static_cast<char>(' ' + random() % 2);
    if (!text.empty() && round % 3 != 0) text[random() % text.size()] = specials[random() % specials.size()];
    if (!text.empty() && round % 5 == 0) text[random() % text.size()] = static_cast<char>(0x80 + random() % 128);
    for (std::size_t at = 0; at <= text.size(); ++at) {
      const auto end = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), [](char c) {
        return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
      });
      bool high = false;
      REQUIRE(json::find_special(text, at, high) == static_cast<std::size_t>(end - text.begin()));
      const bool passed = std::any_of(text.begin() + static_cast<std::ptrdiff_t>(at), end,
                                      [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
      if (passed) REQUIRE(high);
    }
  }
}
