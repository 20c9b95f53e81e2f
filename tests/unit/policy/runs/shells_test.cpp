// Holds shell_words against real shells: of random texts that it accepts, dash and bash make the same words. A text
// that it refuses is never run.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "policy/runs/shell_words.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace std::string_literals;

namespace {

constexpr int texts = 40'000;

// Characters with a meaning come often, so that they meet.
const std::vector<std::string>& alphabet() {
  static const std::vector<std::string> parts{
      "a",  "b",  "X",  "=",  "1",    " ",    " ",    "\t",     "'",      "'", "'", "\"", "\"",    "\"", "\\", "\\",
      "\\", "$",  "$",  "`",  "|",    "&",    ";",    "<",      ">",      "(", ")", "#",  "#",     "{",  "}",  ",",
      "[",  "]",  "*",  "?",  "~",    "!",    "-",    "+",      ".",      "/", "%", "^",  "@",     ":",  "_",  "p",
      "\n", "\r", "\v", "\f", "\x01", "\x7f", "\x1b", "\u0081", "\u0088", "é", "ā", "日", "\u00a0"};
  return parts;
}

class Random {
 public:
  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(engine_); }
  std::string text() {
    std::string out;
    for (std::size_t parts = 1 + below(12); parts > 0; --parts) out += alphabet()[below(alphabet().size())];
    return out;
  }

 private:
  std::mt19937_64 engine_{20'261'123};
};

// The program replaces `~` by HOME, which is "~", but `~+`, `~-` and `~1` by its own folders.
bool names_a_folder(std::string_view text) {
  for (std::size_t at = text.find('~'); at != std::string_view::npos; at = text.find('~', at + 1))
    if (at + 1 < text.size() && std::string_view("+-1").contains(text[at + 1])) return true;
  return false;
}

// What the program below prints for a text of these words.
std::string printed(std::string_view words) {
  const auto count = std::ranges::count(words, '\0');
  return std::to_string(count) + '\0' + std::string(words) + "\n\0"s;
}

// The number of lines that were run whole before the byte `at` of what they print.
std::size_t lines_before(std::string_view out, std::size_t at) {
  std::size_t lines = 0;
  for (std::size_t end = 0; (end = out.find("\n\0"s, end)) < at; ++end) ++lines;
  return lines;
}

std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* pipe = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c): a shell is what this tests
  REQUIRE(pipe != nullptr);
  std::array<char, 1 << 16> bytes{};
  while (const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), pipe)) out.append(bytes.data(), count);
  CHECK(::pclose(pipe) == 0);
  return out;
}

}  // namespace

TEST_CASE("dash and bash make the same words of what is accepted") {
  Random random;
  // Builtins only, and nothing that a shell does with words that it has read.
  std::string program = "PATH=\nHOME='~'\nset -f\np() { printf '%s\\0' \"$#\" \"$@\"; printf '\\n\\0'; }\n";
  std::string expected;
  std::vector<std::string> run;
  const auto add = [&](const std::string& line, std::string_view words) {
    if (names_a_folder(line)) return;
    program += line + '\n';
    expected += printed(words);
    run.push_back(line);
  };
  const std::array<std::string, 8> spellings{"p", "'p'", "\"p\"", "\\p", "''p", "p\"\"", " p", "\tp"};
  std::size_t as_words = 0;
  for (int i = 0; i < texts; ++i) {
    const std::string text = random.text();
    if (const auto words = runs::shell_words("p " + text)) {
      ++as_words;
      add("p " + text, std::string_view(*words).substr(2));
    }
    // A text whose first word names the function is a command as it stands.
    const std::string before = random.below(4) == 0 ? random.text() : "";
    const std::string command = before + spellings[random.below(8)] + (random.below(2) == 0 ? " " : "") + random.text();
    const auto words = runs::shell_words(command);
    if (words && words->starts_with("p\0"s)) add(command, std::string_view(*words).substr(2));
  }
  CHECK(as_words > 3'000);
  CHECK(run.size() > as_words + 1'000);

  const testing::TempDir dir;
  dir.write("program", program);
  const std::string in_dir = "cd '" + dir.path().native() + "' && env -i LC_ALL=C.UTF-8 ";
  std::size_t shells = 0;
  for (const std::string shell :
       {"/bin/dash", "/bin/bash --noprofile --norc +B", "/bin/bash --noprofile --norc --posix +B"}) {
    CAPTURE(shell);
    if (::access(shell.substr(0, 9).c_str(), X_OK) != 0) continue;
    ++shells;
    const std::string out = output_of(in_dir + shell + " program 2>&1");
    if (out == expected) continue;
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(out, expected).in1 - out.begin());
    const std::size_t line = lines_before(out, at);
    FAIL_CHECK("other words for: ", line < run.size() ? run[line] : "?", "\nthe shell: ", out.substr(at, 60));
  }
  CHECK(shells > 0);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);  // nothing was written
}
