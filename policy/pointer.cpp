#include "policy/pointer.hpp"

#include <fmt/format.h>

#include <cassert>

namespace sessiond::policy {

std::string pointer_to(std::string_view parent, std::string_view name) {
  std::string out(parent);
  out += '/';
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::unexpected<Problem> fail_with(std::vector<Fault> faults) {
  assert(!faults.empty());
  const Fault& first = faults.front();
  std::string detail = fmt::format("{}: {}", first.pointer.empty() ? "/" : first.pointer, first.detail);
  if (faults.size() > 1) detail += fmt::format(" (and {} more)", faults.size() - 1);
  return std::unexpected(
      Problem{.code = Code::validation_failed, .detail = std::move(detail), .errors = std::move(faults)});
}

}  // namespace sessiond::policy
