// Decides whether a text is JSON (RFC 8259). Without recursion, so that the depth is limited by an option and not by
// the stack.
#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <forward_list>
#include <span>

#include "store/json/raw_json.hpp"
#include "store/json/scan.hpp"
#include "store/utf8.hpp"

namespace sessiond::json {
namespace {

class Checker {
 public:
  Checker(std::string_view text, CheckOptions options) : text_(text), options_(options) {}

  std::expected<void, Error> run() {
    if (options_.members != nullptr) options_.members->clear();
    if (value_and_nested()) {
      space();
      if (at_ != text_.size()) stop("unexpected text after the value");
    }
    if (error_) return std::unexpected(std::move(*error_));
    return {};
  }

 private:
  struct Level {
    bool object;
    std::size_t first_name;  // in names_
  };
  static constexpr std::size_t few = 16;
  static constexpr std::size_t usual_depth = 8;
  // The result of a step. `began`: it has opened an object or array that is not empty.
  enum class Step : std::uint8_t { failed, passed, began };

  bool value_and_nested() {
    space();
    for (;;) {
      const Step step = value();
      if (step == Step::failed) return false;
      if (step == Step::passed && !ends()) return false;
      if (levels_.empty()) return true;
      space();
      if (levels_.back().object && !name()) return false;
    }
  }

  Step value() {
    switch (peek()) {
      case '{':
        return open(true);
      case '[':
        return open(false);
      case '"':
        return passed(string());
      case 't':
        return passed(literal("true"));
      case 'f':
        return passed(literal("false"));
      case 'n':
        return passed(literal("null"));
      default:
        return passed(number());
    }
  }
  static Step passed(bool whole) { return whole ? Step::passed : Step::failed; }

  Step open(bool object) {
    if (levels_.size() >= options_.max_depth) {
      stop(fmt::format("nested deeper than {}", options_.max_depth));
      return Step::failed;
    }
    levels_.push_back({.object = object, .first_name = names_.size()});
    ++at_;
    space();
    if (peek() != (object ? '}' : ']')) return Step::began;
    return passed(close());
  }

  // Passes what follows a value: the ends of those that it is the last of, and a comma. False when the text ends
  // otherwise; true without a comma when the outermost value has ended.
  bool ends() {
    while (!levels_.empty()) {
      const bool is_object = levels_.back().object;
      if (options_.members != nullptr && is_object && levels_.size() == 1) end_member();
      space();
      const char c = peek();
      if (c == ',') {
        ++at_;
        return true;
      }
      if (c != (is_object ? '}' : ']')) return unexpected();
      if (!close()) return false;
    }
    return true;
  }

  void end_member() {
    std::string_view& value = options_.members->back().value;
    const auto begin = static_cast<std::size_t>(value.data() - text_.data());
    value = text_.substr(begin, at_ - begin);
  }

  bool name() {
    if (peek() != '"') return unexpected();
    const std::size_t begin = at_;
    if (!string()) return false;
    const std::string_view raw = text_.substr(begin + 1, at_ - begin - 2);
    if (options_.unique_names && !first_of(raw)) {
      at_ = begin;
      return stop(fmt::format("duplicate name {}", quote(unescape(raw))));
    }
    space();
    if (peek() != ':') return unexpected();
    ++at_;
    space();
    if (options_.members != nullptr && levels_.size() == 1) options_.members->push_back({raw, text_.substr(at_, 0)});
    return true;
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

  bool close() {
    const std::span<std::string_view> names = std::span(names_).subspan(levels_.back().first_name);
    if (names.size() > few) {
      std::ranges::sort(names);
      const auto twice = std::ranges::adjacent_find(names);
      if (twice != names.end()) return stop(fmt::format("duplicate name {}", quote(*twice)));
    }
    names_.resize(levels_.back().first_name);
    levels_.pop_back();
    ++at_;
    return true;
  }

  bool string() {
    const std::size_t begin = ++at_;
    bool high = false;
    while ((at_ = find_special(text_, at_, high)) < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') return stop("control character in a string");
      if (!escape()) return stop("bad escape in a string");
      ++at_;
    }
    if (at_ >= text_.size()) return stop("unexpected end in a string");
    if (options_.utf8 && high) {
      if (const auto bad = store::invalid_utf8(text_.substr(begin, at_ - begin))) {
        at_ = begin + *bad;
        return stop("not UTF-8");
      }
      if (options_.line_ends != nullptr && has_line_ends(text_.substr(begin, at_ - begin))) *options_.line_ends = true;
    }
    ++at_;
    return true;
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

  bool literal(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return unexpected();
    at_ += word.size();
    return true;
  }

  bool digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  }

  bool number() {
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      return unexpected();
    }
    if (peek() == '.') {
      ++at_;
      if (!digits()) return unexpected();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return unexpected();
    }
    return true;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool stop(std::string detail) {
    error_ = Error{at_, std::move(detail)};
    return false;
  }
  bool unexpected() {
    if (at_ >= text_.size()) return stop("unexpected end");
    const auto c = static_cast<unsigned char>(text_[at_]);
    return stop(c >= 0x20 && c < 0x7F ? fmt::format("unexpected '{}'", text_[at_])
                                      : fmt::format("unexpected byte 0x{:02x}", c));
  }

  std::string_view text_;
  CheckOptions options_;
  std::size_t at_ = 0;
  boost::container::small_vector<Level, usual_depth> levels_;
  boost::container::small_vector<std::string_view, few> names_;  // of the open objects, escapes resolved
  std::forward_list<std::string> resolved_;                      // those of them that were written with escapes
  std::optional<Error> error_;
};

}  // namespace

std::expected<void, Error> check(std::string_view text, CheckOptions options) { return Checker(text, options).run(); }

}  // namespace sessiond::json
