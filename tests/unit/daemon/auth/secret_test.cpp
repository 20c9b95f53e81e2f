#include "daemon/auth/secret.hpp"

#include <doctest/doctest.h>

#include <set>
#include <utility>

#include "store/hex.hpp"

using namespace sessiond;
using namespace sessiond::auth;

TEST_CASE("a token has the shape that is documented, its prefix constant, and is never the same twice") {
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const std::string id = random_token_id();
    CHECK(valid_token_id(id));
    const std::string token = random_token(id);
    CHECK(token.size() == token_size);
    CHECK(token.starts_with("sd_" + id + "_"));
    CHECK(token.find_first_of("+/=") == token.npos);
    CHECK(id_of_token(token) == id);
    CHECK(seen.insert(token).second);
  }
}

TEST_CASE("other shapes are no tokens") {
  const std::string good = random_token("abcd1234");
  REQUIRE(id_of_token(good));
  CHECK_FALSE(id_of_token(""));
  CHECK_FALSE(id_of_token("sd_"));
  CHECK_FALSE(id_of_token(good + "A"));
  CHECK_FALSE(id_of_token(std::string_view(good).substr(1)));
  for (const std::size_t at : {0UZ, 2UZ, 3UZ, 10UZ, 11UZ, 12UZ, token_size - 1}) {
    for (const char c : {'\0', ' ', '=', '.', '\x7F', '\xFF'}) {
      std::string bad = good;
      bad[at] = c;
      CHECK_FALSE(id_of_token(bad));
    }
  }
  std::string upper = good;
  upper[3] = 'A';
  CHECK_FALSE(id_of_token(upper));
}

TEST_CASE("SHA-256, its hex and back") {
  // FIPS 180-2, appendix B.1
  CHECK(store::to_hex(hash_token("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const TokenHash hash = hash_token("x");
  CHECK(same_hash(hash_from_hex(store::to_hex(hash)).value(), hash));
  CHECK_FALSE(same_hash(hash, hash_token("y")));
  const std::string hex = store::to_hex(hash);
  CHECK_FALSE(hash_from_hex(""));
  CHECK_FALSE(hash_from_hex(hex.substr(1)));
  CHECK_FALSE(hash_from_hex(hex + "0"));
  CHECK_FALSE(hash_from_hex("G" + hex.substr(1)));
  CHECK_FALSE(hash_from_hex("A" + hex.substr(1)));
}

TEST_CASE("tokens of different lengths are not the same") {
  CHECK(same_token("abc", "abc"));
  CHECK_FALSE(same_token("abc", "abd"));
  CHECK_FALSE(same_token("abc", "ab"));
  CHECK_FALSE(same_token("", "a"));
}

TEST_CASE("base64url, both ways, one text for each bytes") {
  const std::pair<std::string, std::string> known[] = {{"", ""},        {"f", "Zg"},        {"fo", "Zm8"},
                                                       {"foo", "Zm9v"}, {"foob", "Zm9vYg"}, {"\xfb\xff", "-_8"}};
  for (const auto& [bytes, text] : known) {
    CAPTURE(text);
    CHECK(to_base64url(bytes) == text);
    CHECK(from_base64url(text) == bytes);
  }
  for (const char* bad : {"Z", "Zh", "Zg==", "Zm9", "+/", "Zm 8", "Zm8\n"}) {
    CAPTURE(bad);
    CHECK_FALSE(from_base64url(bad));
  }
  const std::string bytes = random_bytes(1000);
  CHECK(bytes.size() == 1000);
  CHECK(bytes != random_bytes(1000));
  CHECK(from_base64url(to_base64url(bytes)) == bytes);
}

TEST_CASE("HMAC-SHA-256: RFC 4231, case 2") {
  CHECK(store::to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}
