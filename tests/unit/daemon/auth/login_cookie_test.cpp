#include "daemon/auth/login_cookie.hpp"

#include <doctest/doctest.h>

#include "daemon/auth/secret.hpp"

using namespace sessiond;

TEST_CASE("a login cookie names its token until it ends, is logged out, or was changed") {
  LoginCookies cookies("secret");
  const std::string cookie = cookies.make("abcd1234", 1000);
  CHECK(cookies.token_of(cookie, 1000) == "abcd1234");
  CHECK(cookies.token_of(cookie, 999 + LoginCookies::life_ms) == "abcd1234");
  CHECK_FALSE(cookies.token_of(cookie, 1000 + LoginCookies::life_ms));
  CHECK(LoginCookies("secret").token_of(cookie, 1000) == "abcd1234");  // after a restart
  CHECK_FALSE(LoginCookies("another").token_of(cookie, 1000));
  for (std::size_t i = 0; i < cookie.size(); ++i) {
    std::string changed = cookie;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    CHECK_FALSE(cookies.token_of(changed, 1000));
    CHECK_FALSE(cookies.token_of(cookie.substr(0, i), 1000));
  }
  CHECK(cookies.make("abcd1234", 1000) != cookie);
  CHECK(cookies.csrf_of(cookie) != cookies.csrf_of(cookies.make("abcd1234", 1000)));
  cookies.log_out(cookie, 1000);
  CHECK_FALSE(cookies.token_of(cookie, 1000));
}

TEST_CASE("the cookie of a name among others") {
  CHECK(cookie_of("a=1; sessiond=x; b=2", "sessiond") == "x");
  CHECK(cookie_of("sessiond=", "sessiond") == "");
  CHECK(cookie_of(" sessiond=x=y ", "sessiond") == "x=y");
  for (const char* none : {"", "a=1", "sessiondx=1", "xsessiond=1", "sessiond", ";;;", "a=sessiond=1"})
    CHECK_FALSE(cookie_of(none, "sessiond"));
}
