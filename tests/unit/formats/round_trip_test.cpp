#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/formats/sessions.hpp"

using namespace sessiond;
using namespace sessiond::testing;

TEST_CASE("what is exported, imported and exported again is the same to the byte") {
  for (const auto& format : formats::document_formats) {
    if (format.read == nullptr) continue;
    RandomSessions sessions(7);
    for (int round = 0; round < 500; ++round) {
      const CollectedSession first = sessions.next();
      const std::string once = document(format.name, first);
      const CollectedSession second = read_back(format.name, once);
      CHECK(second.head.id == first.head.id);
      const std::string twice = document(format.name, second);
      INFO(format.name << " " << round);
      const auto differ = std::ranges::mismatch(twice, once);
      const auto at = static_cast<std::size_t>(differ.in1 - twice.begin());
      const std::size_t from = at - std::min<std::size_t>(at, 100);
      INFO(once.substr(from, 300) << "\n" << twice.substr(from, 300));
      REQUIRE((twice == once));
    }
  }
}
