#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <string_view>

#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"

using namespace sessiond;

namespace {

// A byte at a time.
std::string slow_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : store::replace_invalid_utf8(text)) {
    constexpr std::string_view named = "\b\f\n\r\t\"\\";
    if (const std::size_t known = named.find(c); known != std::string_view::npos) {
      out.append({'\\', "bfnrt\"\\"[known]});
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

TEST_CASE("text of any bytes and length is quoted as it is a byte at a time") {
  const std::vector<std::string> pieces{"a",
                                        "plain text of 16",
                                        "\"",
                                        "\\",
                                        "\n",
                                        std::string(1, '\0'),
                                        "\x1f",
                                        "\x7f",
                                        "é",
                                        "\xF0\x9F\x98\x80",
                                        "\xC3",
                                        "\xFF",
                                        "\xED\xA0\x80",
                                        "\xE2\x82"};
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const auto plain = random() % 3;  // 0: ASCII that needs no escape
    for (auto left = random() % 12; left > 0; --left)
      text += pieces[plain == 0 ? random() % 2 : random() % pieces.size()];
    std::string out(random() % 20, 'x');
    const std::string before = out;
    json::append_quoted(out, text);
    REQUIRE(out == before + slow_quote(text));
    REQUIRE(json::check(json::quote(text), {.max_depth = 1, .unique_names = true, .utf8 = true}));
  }
}

TEST_CASE("an object is written member by member, behind whatever stands in the text") {
  for (const std::string& before : {std::string(), std::string("["), std::string(100, 'x')}) {
    std::string out = before;
    json::ObjectWriter writer(out);
    writer.raw("", "null");
    writer.raw("empty", "");
    out += "[]";  // raw() with no value leaves it to the caller
    writer.integer("least", INT64_MIN);
    writer.integer("most", INT64_MAX);
    writer.string("s", "\"");
    writer.string_or_null("none", {});
    writer.boolean("yes", true);
    writer.raw("long", "\"" + std::string(1000, 'y') + "\"");
    writer.close();
    CHECK(out == before +
                     R"({"":null,"empty":[],"least":-9223372036854775808,"most":9223372036854775807,"s":"\"",)"
                     R"("none":null,"yes":true,"long":")" +
                     std::string(1000, 'y') + "\"}");
  }
  json::ObjectWriter empty;
  CHECK(empty.text() == "{}");
}
