#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "store/json/raw_json.hpp"

using namespace sessiond;

namespace {

// Makes values, and writes each in several ways.
class Values {
 public:
  explicit Values(unsigned seed) : random_(seed) {}

  struct Value {
    char kind = 'n';  // n, t, f, a number, a string, an array, an object
    std::string text{};
    std::vector<std::pair<std::string, Value>> held{};
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  Value make(int depth = 0) {
    const std::size_t kind = below(depth < 3 ? 8 : 5);
    if (kind == 0) return {.kind = "ntf"[below(3)]};
    if (kind < 3) return {.kind = '1', .text = number()};
    if (kind < 5) return {.kind = '"', .text = word()};
    Value value{.kind = kind == 5 ? '[' : '{'};
    for (std::size_t i = below(4); i > 0; --i) {
      std::string name = word();
      const bool known = std::ranges::any_of(value.held, [&](const auto& one) { return one.first == name; });
      if (!known) value.held.emplace_back(std::move(name), make(depth + 1));
    }
    return value;
  }

  std::string write(const Value& value) {
    const std::string space = below(4) == 0 ? " " : "";
    switch (value.kind) {
      case 'n':
        return "null";
      case 't':
        return "true";
      case 'f':
        return "false";
      case '1':
        return write_number(value.text);
      case '"':
        return write_string(value.text);
      case '[': {
        std::string out = "[" + space;
        for (const auto& [name, held] : value.held)
          out += (out.size() > 1 + space.size() ? "," : "") + write(held) + space;
        return out + "]";
      }
      default: {
        auto members = value.held;
        std::ranges::shuffle(members, random_);
        std::string out = "{" + space;
        for (const auto& [name, held] : members)
          out += (out.size() > 1 + space.size() ? "," : "") + write_string(name) + space + ":" + space + write(held);
        return out + "}";
      }
    }
  }

 private:
  std::string word() {
    static const std::vector<std::string> words{"",   "a",  "b",   "ab",   "é", "😀", "\"",
                                                "\\", "\n", "a/b", "\x01", "{", "1e5"};
    return words[below(words.size())];
  }
  // An integer, maybe with a sign, without zeros at its beginning or end.
  std::string number() {
    static const std::vector<std::string> numbers{
        "0", "1", "-1", "12", "2", "1234567890123456789012345", "1234567890123456789012346", "-7"};
    return numbers[below(numbers.size())];
  }
  std::string write_number(const std::string& digits) {
    switch (below(5)) {
      case 0:
        return digits + ".0";
      case 1:
        return digits + "e0";
      case 2:
        return digits + ".000E+00";
      case 3:
        return digits == "0" ? "-0.0e5" : digits + "0e-1";
      default:
        return digits;
    }
  }
  std::string write_string(const std::string& text) {
    if (below(2) == 0) return json::quote(text);
    if (text == "é") return R"("\u00e9")";
    if (text == "😀") return R"("\ud83D\uDE00")";
    if (text == "a/b") return R"("a\/b")";
    if (text == "\n") return R"("\u000A")";
    if (text == "a") return R"("\u0061")";
    return json::quote(text);
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("two values have one canonical form if they are the same, and two if not") {
  const std::vector<std::string> values{R"("é")",
                                        R"("\u00e9")",
                                        R"("e")",
                                        R"("😀")",
                                        R"("\ud83d\ude00")",
                                        R"("a/b")",
                                        R"("a\/b")",
                                        R"("")",
                                        "1",
                                        "1.0",
                                        "1e0",
                                        "10e-1",
                                        "0.1E+1",
                                        "-1",
                                        "-1.00",
                                        "0",
                                        "-0",
                                        "0.0",
                                        "0e5",
                                        "1000",
                                        "1e3",
                                        "12345678901234567890",
                                        "12345678901234567891",
                                        "12345678901234567000",
                                        "12345678901234567e3",
                                        "1e400",
                                        "1e401",
                                        "1e99999999999",
                                        "2e99999999999",
                                        "1e-400",
                                        "0.1",
                                        "1e-1",
                                        "true",
                                        "false",
                                        "null",
                                        "\"null\"",
                                        "\"1\"",
                                        "\"1e0\"",
                                        "[]",
                                        "[[]]",
                                        "[null]",
                                        "[1,2]",
                                        "[1.0, 2]",
                                        "[2,1]",
                                        "[1]",
                                        "[12]",
                                        "[[1],2]",
                                        "[1,[2]]",
                                        "{}",
                                        "{ }",
                                        "[{}]",
                                        R"({"a":1})",
                                        R"({"a":1,"b":"é"})",
                                        R"({"b":"\u00e9","a":1.0})",
                                        R"({"a":2,"\u0062":"é","a":1})",
                                        R"({"a":1,"b":null})",
                                        R"({"a":{"b":1}})",
                                        R"({"a":{},"b":1})",
                                        R"({"a,b":1})",
                                        R"({"a":"b,c"})",
                                        R"({"a\":1,\"b":2})",
                                        R"({"a":1,"b":2})",
                                        R"(["a","b"])",
                                        R"(["a\",\"b"])",
                                        R"({"":1})",
                                        R"([1,"1"])",
                                        R"(["1",1])"};
  for (const std::string& a : values)
    for (const std::string& b : values) {
      CAPTURE(a);
      CAPTURE(b);
      CHECK(json::same(a, b) == (json::canonical(a) == json::canonical(b)));
    }
}

TEST_CASE("random values have one canonical form if they are the same, and two if not") {
  Values values(3);
  std::size_t same = 0;
  for (int round = 0; round < 10'000; ++round) {
    const Values::Value value = values.make();
    const std::string a = values.write(value);
    const std::string b = values.write(values.below(2) == 0 ? value : values.make());
    CAPTURE(a);
    CAPTURE(b);
    REQUIRE(bool(json::check(a)));
    REQUIRE(bool(json::check(b)));
    const bool equal = json::same(a, b);
    same += equal ? 1 : 0;
    CHECK(equal == (json::canonical(a) == json::canonical(b)));
  }
  CHECK(same > 4'000);
}

TEST_CASE("a value has a canonical form however deep it is") {
  const std::string open(4000, '[');
  const std::string close(4000, ']');
  CHECK(json::canonical(open + "1" + close) == json::canonical(open + " 1 " + close));
  CHECK(json::canonical(open + "1" + close) != json::canonical(open + "2" + close));
}

TEST_CASE("half of a surrogate pair is U+FFFD in the canonical form") {
  CHECK(json::canonical(R"("\ud83d")") == json::canonical(R"("\ufffd")"));
  CHECK_FALSE(json::same(R"("\ud83d")", R"("\ufffd")"));
}
