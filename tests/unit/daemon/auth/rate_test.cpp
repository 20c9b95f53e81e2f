#include "daemon/auth/rate.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sessiond;

namespace {
constexpr auth::Rates::Limit ten{.per_second = 10, .at_once = 10};
}

TEST_CASE("as many at once as the bucket holds, then as it fills") {
  auth::Rates rates;
  for (int i = 9; i >= 0; --i) {
    const auto left = rates.take("a", ten, 1000);
    CHECK(left.granted);
    CHECK(left.remaining == i);
  }
  const auto none = rates.take("a", ten, 1000);
  CHECK_FALSE(none.granted);
  CHECK(none.remaining == 0);
  CHECK(none.next_in_s == 1);
  CHECK(none.full_in_s == 1);
  CHECK_FALSE(rates.take("a", ten, 1099).granted);
  CHECK(rates.take("a", ten, 1100).granted);
  CHECK_FALSE(rates.take("a", ten, 1100).granted);
  CHECK(rates.take("b", ten, 1100).granted);
  CHECK(rates.look("a", ten, 100'000).remaining == 10);  // never more than it holds
}

TEST_CASE("no limit, and clocks that go back") {
  auth::Rates rates;
  for (int i = 0; i < 1000; ++i) CHECK(rates.take("a", {}, 0).granted);
  CHECK(rates.take("a", ten, 5000).granted);
  CHECK(rates.take("a", ten, 0).remaining == 8);
}

TEST_CASE("strangers without end share a bucket, those who were here keep theirs") {
  auth::Rates rates;
  CHECK(rates.take("known", ten, 0).granted);
  for (int i = 0; i < 10'500; ++i) rates.take(std::to_string(i), ten, 0);
  CHECK_FALSE(rates.take("one more", ten, 0).granted);
  CHECK(rates.take("known", ten, 0).granted);
  CHECK(rates.take("one more", ten, 10'000).granted);  // by then all were full, and forgotten
}
