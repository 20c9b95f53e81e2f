#include "policy/runs/shell_words.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "store/json/raw_json.hpp"

using namespace sessiond;
using namespace sessiond::runs;
using namespace std::string_literals;

namespace {

// The words with a `|` behind each; "-" for a text that is no simple command.
std::string words(std::string_view text) {
  auto read = shell_words(text);
  if (!read) return "-";
  std::ranges::replace(*read, '\0', '|');
  return *read;
}

std::string faults_of_list(std::string_view allowed) {
  std::vector<Fault> faults;
  check_allowed_commands(allowed, "/g", faults);
  std::string out;
  for (const Fault& fault : faults) out += (out.empty() ? "" : " ") + fault.pointer;
  return out;
}

}  // namespace

TEST_CASE("commands that the contract names") {
  constexpr std::string_view allowed = R"(["npm test","git status"])";
  for (const char* command : {"npm test -- x", "git  \"status\" -s", "g'i't status", "git status", "\tgit\tstatus "}) {
    CAPTURE(command);
    CHECK(is_allowed_command(command, allowed));
  }
  for (const char* command : {"npm publish",
                              "git statusx",
                              "git status; x",
                              "git status && x",
                              "git status $(x)",
                              "git status \"$HOME\"",
                              "git status\nx",
                              "git status \\\n",
                              "X=1 git status",
                              "git status > f",
                              "git 'status",
                              "git status # x",
                              "(git status)",
                              "git",
                              "",
                              "status git",
                              "Git status",
                              "git status`x`",
                              "git stat",
                              "git 'status '"}) {
    CAPTURE(command);
    CHECK_FALSE(is_allowed_command(command, allowed));
  }
}

TEST_CASE("words of a simple command") {
  struct Case {
    std::string text, words;
  };
  const std::vector<Case> cases{
      // blanks
      {"", ""},
      {" \t ", ""},
      {"a", "a|"},
      {" a  b\tc ", "a|b|c|"},
      {"a\xc2\xa0"s + "b", "a\xc2\xa0"s + "b|"},  // a space that is no blank
      // single quotes
      {"'a b'", "a b|"},
      {"''", "|"},
      {"a '' b", "a||b|"},
      {"a''b", "ab|"},
      {"'a'b'c'", "abc|"},
      {R"('\')", R"(\|)"},
      {R"('$HOME `x` | & ; < > ( ) # "')", R"($HOME `x` | & ; < > ( ) # "|)"},
      {"'a", "-"},
      {"a'", "-"},
      {"'a\nb'", "-"},
      // double quotes
      {R"("a b")", "a b|"},
      {R"("")", "|"},
      {R"(a"b c"d)", "ab cd|"},
      {R"("it's")", "it's|"},
      {R"("| & ; < > ( ) #")", "| & ; < > ( ) #|"},
      {R"("a)", "-"},
      {R"(a")", "-"},
      {"\"a\nb\"", "-"},
      {R"("\$HOME \`x\` \" \\")", R"($HOME `x` " \|)"},
      {R"("\a\'\ \|\!")", R"(\a\'\ \|\!|)"},
      {R"("a\)", "-"},
      {R"("a\")", "-"},
      {R"("`x`")", "-"},
      {R"("$x")", "-"},
      // backslashes
      {R"(\a)", "a|"},
      {R"(\ )", " |"},
      {R"(a\ b c)", "a b|c|"},
      {R"(\\)", R"(\|)"},
      {R"(\$HOME)", "$HOME|"},
      {R"(\`x\`)", "`x`|"},
      {R"(\'a)", "'a|"},
      {R"(\"a)", "\"a|"},
      {R"(a\;b)", "a;b|"},
      {R"(\#a)", "#a|"},
      {R"(\)", "-"},
      {R"(a \)", "-"},
      {"a\\\nb", "-"},
      {R"(\é)", "é|"},
      // what a shell does more
      {"a|b", "-"},
      {"a || b", "-"},
      {"a&", "-"},
      {"a;", "-"},
      {"a<b", "-"},
      {"a 2>b", "-"},
      {"a(", "-"},
      {")", "-"},
      {"a\n", "-"},
      {"\n", "-"},
      {"#", "-"},
      {"a #b", "-"},
      {"a#b", "a#b|"},
      {"''#b", "#b|"},
      {"a`b", "-"},
      // the dollar
      {"$", "$|"},
      {"a$ b", "a$|b|"},
      {"$% $. $/ $, $= $: $+ $~ $^ $] $}", "$%|$.|$/|$,|$=|$:|$+|$~|$^|$]|$}|"},
      {R"($\a)", "$a|"},
      {R"("a$")", "-"},
      {R"("$'")", "-"},
      // plain characters
      {"* ? [a] {a,b} ~ ! { } % ^", "*|?|[a]|{a,b}|~|!|{|}|%|^|"},
      // assignments
      {"X=1", "-"},
      {"X=1 a", "-"},
      {"_x9=", "-"},
      {"X+=1 a", "-"},
      {"X[1]=1 a", "-"},
      {"X\\=1 a", "-"},
      {"a X=1", "a|X=1|"},
      {"9=1", "9=1|"},
      {"=1", "=1|"},
      {"./x=1", "./x=1|"},
      {"[ -f x ]", "[|-f|x|]|"},
      // control bytes and other alphabets
      {"日本 \"é ü\"", "日本|é ü|"},
      {"a\u0085b\u2028c", "a\u0085b\u2028c|"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.text);
    CHECK(words(one.text) == one.words);
  }
}

TEST_CASE("no control character but the tab is in a simple command") {
  for (int code = 0; code < 0x100; ++code) {
    const std::string c(1, static_cast<char>(code));
    CAPTURE(code);
    const bool is_control = (code < 0x20 && code != '\t') || code == 0x7f;
    for (const std::string& text : {"'" + c + "'", "a\\" + c, "a \"" + c + "\"", "a" + c})
      if (is_control) CHECK(words(text) == "-");
    if (!is_control && code != '\'') CHECK(words("'" + c + "'") == c + "|");
  }
}

TEST_CASE("a dollar before each character that may begin an expansion") {
  for (const std::string next : {"a", "z", "A", "Z", "_", "0", "9", "{a}", "(a)", "'a'", "\"a\"",
                                 "@", "*", "#", "?", "-", "$", "!", "[1]", "é",   "日"}) {
    CAPTURE(next);
    CHECK(words("a $" + next) == "-");
    CHECK(words("a \"$" + next + "\"") == "-");
    CHECK(words("a b$" + next) == "-");
    CHECK(words("a '$'x") == "a|$x|");
    if (!next.contains('\'')) CHECK(words("a '$" + next + "'") == "a|$" + next + "|");
  }
}

TEST_CASE("an allowed command matches whole words from the first one on") {
  CHECK(is_allowed_command("git", R"(["git"])"));
  CHECK(is_allowed_command("git push --force", R"(["git"])"));
  CHECK_FALSE(is_allowed_command("gi", R"(["git"])"));
  CHECK_FALSE(is_allowed_command("git", R"(["git status"])"));
  CHECK(is_allowed_command("git status", R"(["  'git'   status "])"));
  CHECK(is_allowed_command("echo 'a b'", R"(["echo 'a b'"])"));
  CHECK_FALSE(is_allowed_command("echo a b", R"(["echo 'a b'"])"));
  CHECK_FALSE(is_allowed_command("echo 'a b'", R"(["echo a"])"));
  CHECK(is_allowed_command("echo '' x", R"(["echo ''"])"));
  CHECK_FALSE(is_allowed_command("echo x", R"(["echo ''"])"));
  CHECK(is_allowed_command("ls *", R"(["ls \\*"])"));
  CHECK(is_allowed_command("caf\u00e9", R"(["caf\u00e9"])"));
  CHECK_FALSE(is_allowed_command("cafe\u0301", R"(["caf\u00e9"])"));  // bytes are compared
}

TEST_CASE("a list allows nothing that it does not say") {
  for (const char* allowed : {"[]", R"([""])", R"(["  "])", R"([null,1,{}])", R"(["git;"])", R"(["X=1"])", "null", "{}",
                              R"("git")", R"({"0":"git"})", R"(["'git"])"}) {
    CAPTURE(allowed);
    CHECK_FALSE(is_allowed_command("git", allowed));
    CHECK_FALSE(is_allowed_command("", allowed));
    CHECK_FALSE(is_allowed_command("git;", allowed));
  }
}

TEST_CASE("what a client may list") {
  CHECK(faults_of_list("[]") == "");
  CHECK(faults_of_list(R"(["git status","npm test"," x "])") == "");
  CHECK(faults_of_list(R"(["git status",""," ","a;b",5,null,["x"],"X=1 a","a\nb","a\u0000"])") ==
        "/g/1 /g/2 /g/3 /g/4 /g/5 /g/6 /g/7 /g/8 /g/9");
  for (const char* allowed : {"null", "{}", "\"git\"", "5", "true"}) CHECK(faults_of_list(allowed) == "/g");
  std::string many = "[0";
  for (int i = 0; i < 1000; ++i) many += ",0";
  std::vector<Fault> faults;
  check_allowed_commands(many + "]", "/g", faults);
  CHECK(faults.size() == 20);
}

TEST_CASE("a long command takes time by its length") {
  const auto time_of = [](const std::string& text) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(shell_words(text).has_value());
    return std::chrono::steady_clock::now() - begin;
  };
  const auto repeated = [](std::string_view part, std::size_t bytes) {
    std::string out;
    while (out.size() < bytes) out += part;
    return out;
  };
  for (const char* part : {"a", "a ", "'a'", "\"a\\\\\"", "\\a", "'' "}) {
    CAPTURE(part);
    CHECK(time_of(repeated(part, 1 << 20)) < std::chrono::seconds(2));  // some milliseconds; quadratic: minutes
  }
}
