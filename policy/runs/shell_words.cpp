#include "policy/runs/shell_words.hpp"

#include <algorithm>

#include "policy/pointer.hpp"
#include "store/json/raw_json.hpp"
#include "store/limits.hpp"

namespace sessiond::runs {
namespace {

using namespace std::string_view_literals;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A tab is none. A newline ends a command, a NUL the text, and bash marks quotes with bytes 1 and 127 and mistakes
// those of a text for its own.
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F; }

// Tells whether a `$` before `c` may begin an expansion. A byte above 0x7F may be a letter's; bash takes `$[` for
// arithmetic.
bool begins_expansion(char c) {
  return is_letter(c) || is_digit(c) || static_cast<unsigned char>(c) >= 0x80 || "{('\"[@*#?-$!"sv.contains(c);
}

// Tells whether a shell takes a first word for an assignment, as name=…, or may: bash has name+=… and name[…]=….
bool may_assign(std::string_view word) {
  if (word.empty() || !is_letter(word.front())) return false;
  const auto end = std::ranges::find_if_not(word, [](char c) { return is_letter(c) || is_digit(c); });
  const std::string_view rest(end, word.end());
  return rest.starts_with('=') || rest.starts_with("+=") || rest.starts_with('[');
}

enum class Quote : char { none, in_single, in_double };

// Reads a text character by character. Each step takes one, or two after a backslash, and returns false when the text
// is no simple command.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) { words_.reserve(text.size() + 1); }

  std::optional<std::string> read() {
    while (at_ < text_.size())
      if (!step()) return {};
    if (quote_ != Quote::none) return {};
    end_word();
    if (may_assign(std::string_view(words_).substr(0, words_.find('\0')))) return {};
    return std::move(words_);
  }

 private:
  bool step() {
    const char c = text_[at_++];
    if (is_control(c)) return false;
    if (quote_ == Quote::in_single) {
      if (c != '\'') return put(c);
      quote_ = Quote::none;
      return true;
    }
    if (c == '\\') return escape();
    if (c == '`' || (c == '$' && at_ < text_.size() && begins_expansion(text_[at_]))) return false;
    if (c == '"') {
      quote_ = quote_ == Quote::in_double ? Quote::none : Quote::in_double;
      in_word_ = true;
      return true;
    }
    return quote_ == Quote::in_double ? put(c) : unquoted(c);
  }

  bool unquoted(char c) {
    if (c == ' ' || c == '\t') {
      end_word();
      return true;
    }
    if (c == '\'') {
      quote_ = Quote::in_single;
      in_word_ = true;
      return true;
    }
    if ("|&;<>()"sv.contains(c) || (c == '#' && !in_word_)) return false;
    return put(c);
  }

  bool escape() {
    if (at_ == text_.size()) return false;
    const char next = text_[at_];
    if (quote_ == Quote::in_double && !"$`\"\\"sv.contains(next)) return put('\\');  // which quotes nothing here
    ++at_;
    return !is_control(next) && put(next);
  }

  bool put(char c) {
    words_ += c;
    in_word_ = true;
    return true;
  }

  void end_word() {
    if (in_word_) words_ += '\0';
    in_word_ = false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Quote quote_ = Quote::none;
  bool in_word_ = false;
  std::string words_;
};

}  // namespace

std::optional<std::string> shell_words(std::string_view text) { return WordReader(text).read(); }

bool is_allowed_command(std::string_view command, std::string_view allowed) {
  const auto words = shell_words(command);
  if (!words) return false;
  return std::ranges::any_of(json::elements(allowed), [&](std::string_view element) {
    const auto text = json::as_string(element);
    const auto first = text ? shell_words(*text) : std::nullopt;
    return first && !first->empty() && words->starts_with(*first);
  });
}

void check_allowed_commands(std::string_view allowed, const std::string& pointer, std::vector<Fault>& faults) {
  if (json::kind(allowed) != json::Kind::array) {
    faults.push_back({pointer, "must be an array of commands"});
    return;
  }
  std::size_t index = 0;
  for (const std::string_view element : json::elements(allowed)) {
    if (faults.size() >= limits::faults) return;
    std::string here = policy::pointer_to(pointer, std::to_string(index++));
    const auto text = json::as_string(element);
    const auto words = text ? shell_words(*text) : std::nullopt;
    if (!text) {
      faults.push_back({std::move(here), "must be a string"});
    } else if (!words) {
      faults.push_back(
          {std::move(here), "must be one simple command: no expansion, redirection, assignment or newline"});
    } else if (words->empty()) {
      faults.push_back({std::move(here), "must have a word"});
    }
  }
}

}  // namespace sessiond::runs
