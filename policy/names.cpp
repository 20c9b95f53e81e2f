#include "policy/names.hpp"

#include <algorithm>
#include <cstdint>

#include "store/names.hpp"

namespace sessiond::policy {
namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Cuts to `most` bytes, then takes "-" off the end.
void cut(std::string& text, std::size_t most) {
  text.resize(std::min(text.size(), most));
  text.erase(text.find_last_not_of('-') + 1);
}

}  // namespace

std::string sanitize_name(std::string_view name) {
  std::string out;
  const auto dash = [&out] {
    if (!out.empty() && out.back() != '-') out += '-';
  };
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t dots = std::min(name.find_first_not_of('.', at), name.size()) - at;
    const std::string c = store::lower(name.substr(at, 1));
    if (dots < 2 && (is_letter_or_digit(c.front()) || c == "_" || c == "."))
      out += c;
    else
      dash();
    at += std::max<std::size_t>(dots, 1);
  }
  cut(out, longest_slug);
  return out;
}

Result<std::string> sanitized_name(std::string_view name, const std::string& pointer) {
  std::string out = sanitize_name(name);
  if (out.empty()) return fail_at(pointer, "has no letter, digit, \"_\" or \".\" (a-z, 0-9) to make a name of");
  if (store::is_reserved_name(out)) return fail(Code::reserved_name, "\"" + out + "\" is a reserved name");
  return out;
}

Result<std::string> id_of_name(std::string_view sanitized, const std::string& pointer) {
  const auto* const begin = std::ranges::find_if(sanitized, is_letter_or_digit);
  if (begin == sanitized.end()) return fail_at(pointer, "has no letter or digit (a-z, 0-9) to make a session id of");
  return std::string(begin, sanitized.end());
}

std::string with_suffix(std::string_view base, std::string_view suffix) {
  std::string out(base);
  cut(out, longest_slug - suffix.size() - 1);
  return out.append("-").append(suffix);
}

std::string free_slug(std::string_view base, const std::function<bool(const std::string&)>& taken) {
  std::string plain(base);
  if (!taken(plain)) return plain;
  const auto numbered = [base](std::uint64_t number) { return with_suffix(base, std::to_string(number)); };
  std::uint64_t used = 1;
  std::uint64_t open = 2;
  for (; taken(numbered(open)); open *= 2) used = open;
  while (open - used > 1) {
    const std::uint64_t middle = used + (open - used) / 2;
    (taken(numbered(middle)) ? used : open) = middle;
  }
  return numbered(open);
}

}  // namespace sessiond::policy
