#include <doctest/doctest.h>

#include <string>

#include "store/json/raw_json.hpp"

using namespace sessiond;

TEST_CASE("an index finds what find() finds: few members and many, duplicates, names with escapes") {
  for (const std::size_t count : {0UL, 1UL, 5UL, 31UL, 32UL, 33UL, 100UL}) {
    std::string object = "{";
    for (std::size_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i * 7 % 40);  // from 40 on names come again
      object +=
          (i == 0 ? "" : ",") + (i % 3 == 0 ? R"("\u006e)" + number : R"("n)" + number) + "\":" + std::to_string(i);
    }
    object += '}';
    CAPTURE(object);
    const json::Index index(object);
    CHECK(index.size() == count);
    for (int i = -1; i < 42; ++i) {
      const std::string name = "n" + std::to_string(i);
      CHECK(index.find(name) == json::find(object, name));
    }
  }
  const std::string texts = R"({"a":"x\n","b":1,"":"empty"})";
  const json::Index index(texts);
  CHECK(index.string_at("a") == "x\n");
  CHECK_FALSE(index.string_at("b"));
  CHECK_FALSE(index.string_at("c"));
  CHECK(index.string_at("") == "empty");
}
