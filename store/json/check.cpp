// Decides whether a text is JSON (RFC 8259). Without recursion, so that the depth is limited by an option and not by
// the stack.
#include <fmt/format.h>

#include <algorithm>
#include <forward_list>
#include <span>

#include "store/json/raw_json.hpp"
#include "store/json/scan.hpp"
#include "store/utf8.hpp"

namespace sessiond::json {
namespace {

class Checker {
 public:
  Checker(std::string_view text, CheckOptions options) : text_(text), options_(options) {
    levels_.reserve(usual_depth);
    names_.reserve(few);
  }

  std::expected<void, Error> run() {
    value_and_nested();
    if (!error_) {
      space();
      if (at_ != text_.size()) stop("unexpected text after the value");
    }
    if (error_) return std::unexpected(std::move(*error_));
    return {};
  }

 private:
  enum class State : std::uint8_t { value, name_or_end, name, element_or_end, after };
  struct Level {
    bool object;
    std::size_t first_name;  // in names_
  };
  static constexpr std::size_t few = 16;
  static constexpr std::size_t usual_depth = 8;

  void value_and_nested() {
    State state = State::value;
    while (!error_) {
      space();
      switch (state) {
        case State::value:
          state = value();
          break;
        case State::element_or_end:
          state = peek() == ']' ? close() : value();
          break;
        case State::name_or_end:
          state = peek() == '}' ? close() : name();
          break;
        case State::name:
          state = name();
          break;
        case State::after:
          if (levels_.empty()) return;
          state = after();
          break;
      }
    }
  }

  State value() {
    switch (peek()) {
      case '{':
        return open(true);
      case '[':
        return open(false);
      case '"':
        string();
        break;
      case 't':
        literal("true");
        break;
      case 'f':
        literal("false");
        break;
      case 'n':
        literal("null");
        break;
      default:
        number();
        break;
    }
    return State::after;
  }

  State open(bool object) {
    if (levels_.size() >= options_.max_depth) return stop(fmt::format("nested deeper than {}", options_.max_depth));
    levels_.push_back({.object = object, .first_name = names_.size()});
    ++at_;
    return object ? State::name_or_end : State::element_or_end;
  }

  State after() {
    const char c = peek();
    if (c == (levels_.back().object ? '}' : ']')) return close();
    if (c != ',') return unexpected();
    ++at_;
    return levels_.back().object ? State::name : State::value;
  }

  State name() {
    if (peek() != '"') return unexpected();
    const std::size_t begin = at_;
    string();
    if (error_) return State::after;
    const std::string_view raw = text_.substr(begin + 1, at_ - begin - 2);
    if (options_.unique_names && !first_of(raw)) {
      at_ = begin;
      return stop(fmt::format("duplicate name {}", quote(unescape(raw))));
    }
    space();
    if (peek() != ':') return unexpected();
    ++at_;
    return State::value;
  }

  // Whether the open object has this name for the first time. Few names are compared one by one, which is fastest. Many
  // are sorted when the object ends; not hashed, since a client could choose names whose hashes collide.
  bool first_of(std::string_view raw) {
    std::string_view name = raw;
    if (raw.contains('\\')) name = resolved_.emplace_front(unescape(raw));
    const std::span<const std::string_view> known = std::span(names_).subspan(levels_.back().first_name);
    if (known.size() < few && std::ranges::find(known, name) != known.end()) return false;
    names_.push_back(name);
    return true;
  }

  State close() {
    const std::span<std::string_view> names = std::span(names_).subspan(levels_.back().first_name);
    if (names.size() > few) {
      std::ranges::sort(names);
      const auto twice = std::ranges::adjacent_find(names);
      if (twice != names.end()) return stop(fmt::format("duplicate name {}", quote(*twice)));
    }
    names_.resize(levels_.back().first_name);
    levels_.pop_back();
    ++at_;
    return State::after;
  }

  void string() {
    const std::size_t begin = ++at_;
    bool high = false;
    while ((at_ = find_special(text_, at_, high)) < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') return void(stop("control character in a string"));
      if (!escape()) return void(stop("bad escape in a string"));
      ++at_;
    }
    if (at_ >= text_.size()) return void(stop("unexpected end in a string"));
    if (options_.utf8 && high) {
      if (const auto bad = store::invalid_utf8(text_.substr(begin, at_ - begin))) {
        at_ = begin + *bad;
        return void(stop("not UTF-8"));
      }
      if (options_.line_ends != nullptr && has_line_ends(text_.substr(begin, at_ - begin))) *options_.line_ends = true;
    }
    ++at_;
  }

  bool escape() {  // from the backslash; leaves at_ on the escape's last character
    if (++at_ >= text_.size()) return false;
    if (text_[at_] != 'u') return std::string_view("\"\\/bfnrt").find(text_[at_]) != std::string_view::npos;
    for (int digit = 0; digit < 4; ++digit) {
      if (++at_ >= text_.size()) return false;
      const char c = text_[at_];
      const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!hex) return false;
    }
    return true;
  }

  void literal(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return void(unexpected());
    at_ += word.size();
  }

  bool digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  }

  void number() {
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      return void(unexpected());
    }
    if (peek() == '.') {
      ++at_;
      if (!digits()) return void(unexpected());
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return void(unexpected());
    }
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  State stop(std::string detail) {
    error_ = Error{at_, std::move(detail)};
    return State::after;
  }
  State unexpected() {
    if (at_ >= text_.size()) return stop("unexpected end");
    const auto c = static_cast<unsigned char>(text_[at_]);
    return stop(c >= 0x20 && c < 0x7F ? fmt::format("unexpected '{}'", text_[at_])
                                      : fmt::format("unexpected byte 0x{:02x}", c));
  }

  std::string_view text_;
  CheckOptions options_;
  std::size_t at_ = 0;
  std::vector<Level> levels_;
  std::vector<std::string_view> names_;      // of the open objects, escapes resolved
  std::forward_list<std::string> resolved_;  // those of them that were written with escapes
  std::optional<Error> error_;
};

}  // namespace

std::expected<void, Error> check(std::string_view text, CheckOptions options) { return Checker(text, options).run(); }

}  // namespace sessiond::json
