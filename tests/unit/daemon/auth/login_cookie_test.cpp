#include "daemon/auth/login_cookie.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "daemon/auth/secret.hpp"
#include "store/files.hpp"
#include "tests/unit/store/journal/journal_fixture.hpp"

using namespace sessiond;
using namespace sessiond::auth;

TEST_CASE("a login cookie names its token until it ends, is logged out, or was changed") {
  const journal_test::TempDir dir;
  const auto path = dir.path() / "logouts";
  LoginCookies cookies(path, "secret");
  const std::string cookie = cookies.make("abcd1234", 1000);
  CHECK(cookies.token_of(cookie, 1000) == "abcd1234");
  CHECK(cookies.token_of(cookie, 999 + LoginCookies::life_ms) == "abcd1234");
  CHECK_FALSE(cookies.token_of(cookie, 1000 + LoginCookies::life_ms));
  CHECK(LoginCookies(path, "secret").token_of(cookie, 1000) == "abcd1234");  // after a restart
  CHECK_FALSE(LoginCookies(path, "another").token_of(cookie, 1000));
  for (std::size_t i = 0; i < cookie.size(); ++i) {
    std::string changed = cookie;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    CHECK_FALSE(cookies.token_of(changed, 1000));
    CHECK_FALSE(cookies.token_of(cookie.substr(0, i), 1000));
  }
  CHECK(cookies.make("abcd1234", 1000) != cookie);
  CHECK(cookies.csrf_of(cookie) != cookies.csrf_of(cookies.make("abcd1234", 1000)));
  REQUIRE(cookies.log_out(cookie, 1000));
  CHECK_FALSE(cookies.token_of(cookie, 1000));
}

TEST_CASE("a logout is kept, whatever others log out") {
  const journal_test::TempDir dir;
  const auto path = dir.path() / "logouts";
  LoginCookies cookies(path, "secret");
  const std::string out = cookies.make("abcd1234", 1000);
  const std::string in = cookies.make("abcd1234", 1000);
  REQUIRE(cookies.log_out(out, 1000));
  const std::string others = cookies.make("wxyz1234", 1001);
  std::size_t largest = 0;
  for (std::int64_t time = 1000; time < 2000; ++time) {
    REQUIRE(cookies.log_out(cookies.make("wxyz1234", time), time));
    largest = std::max(largest, store::read_file(path)->size());
  }
  CHECK(largest < 100 * LoginCookies::most_logouts);
  const auto holds = [&](const LoginCookies& them) {
    CHECK_FALSE(them.token_of(out, 2000));
    CHECK(them.token_of(in, 2000) == "abcd1234");
    CHECK_FALSE(them.token_of(others, 2000));  // older than most of so many logouts
    CHECK(them.token_of(cookies.make("wxyz1234", 2000), 2000) == "wxyz1234");
  };
  holds(cookies);
  LoginCookies again(path, "secret");
  REQUIRE(again.load(2000));
  holds(again);
  const std::int64_t later = 2000 + LoginCookies::life_ms;
  REQUIRE(again.log_out(again.make("abcd1234", later), later));
  CHECK(store::read_file(path)->size() < 200);  // what has ended needs no place

  SUBCASE("a file with a flipped bit, or none that can be read, ends all logins before it") {
    const std::string whole = *store::read_file(path);
    for (const std::string& bad : {std::string(), whole.substr(0, whole.size() / 2), [&whole] {
                                     std::string flipped = whole;
                                     flipped[flipped.size() / 2] ^= 1;
                                     return flipped;
                                   }()}) {
      journal_test::write_file(path, bad);
      LoginCookies damaged(path, "secret");
      CHECK_FALSE(damaged.load(2000));
      CHECK_FALSE(damaged.token_of(in, 2000));
      CHECK(damaged.token_of(damaged.make("abcd1234", 2001), 2001) == "abcd1234");
    }
  }
  SUBCASE("what cannot be kept has not happened") {
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    CHECK_FALSE(cookies.log_out(in, 2000));
    CHECK(cookies.token_of(in, 2000) == "abcd1234");
  }
}

TEST_CASE("the cookie of a name among others") {
  CHECK(cookie_of("a=1; sessiond=x; b=2", "sessiond") == "x");
  CHECK(cookie_of("sessiond=", "sessiond") == "");
  CHECK(cookie_of(" sessiond=x=y ", "sessiond") == "x=y");
  for (const char* none : {"", "a=1", "sessiondx=1", "xsessiond=1", "sessiond", ";;;", "a=sessiond=1"})
    CHECK_FALSE(cookie_of(none, "sessiond"));
}
