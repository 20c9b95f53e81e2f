#include "policy/pointer.hpp"

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

}  // namespace sessiond::policy
