#include "policy/names.hpp"

#include <doctest/doctest.h>

#include <set>

namespace sessiond::policy {
namespace {

TEST_CASE("a name is made fit for a file, a path and a command line") {
  CHECK(sanitize_name("My Custom Session") == "my-custom-session");
  CHECK(sanitize_name("  --A//B??C--  ") == "a-b-c");
  CHECK(sanitize_name("Café") == "caf");
  CHECK(sanitize_name("a..b") == "a-b");
  CHECK(sanitize_name("a...b.c") == "a-b.c");
  CHECK(sanitize_name("..") == "");
  CHECK(sanitize_name(".hidden") == ".hidden");
  CHECK(sanitize_name("  My  Custom!! Session--x  ") == "my-custom-session-x");
  CHECK(sanitize_name(std::string(300, 'x')) == std::string(100, 'x'));
  CHECK(sanitize_name(std::string(99, 'x') + "-y") == std::string(99, 'x'));
  CHECK(sanitize_name("日本") == "");
  CHECK(sanitize_name("") == "");
}

TEST_CASE("reserved names and names of which nothing remains are refused where they are stored") {
  for (const char* name : {"index", "Metadata", "last_session", "CON", "prn", "aux", "NUL", "com1", "LPT9", "con.txt"})
    CHECK(sanitized_name(name, "/name").error().code == Code::reserved_name);
  for (const char* name : {"index2", "com0", "com10", "contact"}) CHECK(sanitized_name(name, "/name") == name);
  CHECK(sanitized_name("日本", "/name").error().errors.front().pointer == "/name");
  CHECK(id_of_name("._-9a", "/name") == "9a");
  CHECK(id_of_name("._", "/name").error().code == Code::validation_failed);
}

TEST_CASE("slugs are numbered, and a free number is found in a few questions") {
  std::set<std::string> slugs;
  int asked = 0;
  const auto taken = [&](const std::string& slug) {
    ++asked;
    return slugs.contains(slug);
  };
  for (int n = 0; n < 5000; ++n) {
    const std::string slug = free_slug("x", taken);
    CHECK(slug == (n == 0 ? "x" : "x-" + std::to_string(n + 1)));
    slugs.insert(slug);
  }
  asked = 0;
  CHECK(free_slug("x", taken) == "x-5001");
  CHECK(asked < 30);
  const std::string longest(100, 'y');
  slugs = {longest};
  CHECK(free_slug(longest, taken) == std::string(98, 'y') + "-2");
  CHECK(with_suffix(std::string(97, 'y') + "-zz", "10") == std::string(97, 'y') + "-10");
}

}  // namespace
}  // namespace sessiond::policy
