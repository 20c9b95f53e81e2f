#include "daemon/http/in_flight.hpp"

#include <doctest/doctest.h>

using namespace sessiond;
using namespace sessiond::http;

TEST_CASE("a share that is not taken is too much exactly when a taken one is") {
  for (const std::uint64_t held : {0U, 1U, 5U, 10U, 11U}) {
    for (const std::uint64_t bytes : {0U, 1U, 5U, 9U, 10U, 11U}) {
      for (const std::uint64_t most : {0U, 1U, 10U, 15U, 20U}) {
        for (const std::string_view who : {"a", ""}) {
          CAPTURE(held);
          CAPTURE(bytes);
          CAPTURE(most);
          InFlight all;
          const InFlight::Share others = all.take(who, held);
          const bool asked = all.too_much_with(who, bytes, most);
          const InFlight::Share share = all.take(who, bytes);
          if (bytes != 0) CHECK(asked == all.too_much(who, share, most));
        }
      }
    }
  }
}

TEST_CASE("a share is counted until it ends") {
  InFlight all;
  {
    InFlight::Share share = all.take("a", 7);
    CHECK(all.of("a") == 7);
    share.resize(3);
    CHECK(all.of("a") == 3);
    CHECK(all.of("b") == 0);
  }
  CHECK(all.of("a") == 0);
}
