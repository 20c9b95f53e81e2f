// Any text is read safely. The words of an accepted one, quoted, are read as the same words, and it allows itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "policy/runs/shell_words.hpp"
#include "store/json/raw_json.hpp"
#include "store/utf8.hpp"

using namespace sessiond;

namespace {

std::string quoted(std::string_view words) {
  std::string out;
  while (!words.empty()) {
    const std::size_t end = words.find('\0');
    out += " '";
    for (const char c : words.substr(0, end)) {
      if (c == '\'') {
        out += R"('\'')";
      } else {
        out += c;
      }
    }
    out += '\'';
    words.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto words = runs::shell_words(text);
  if (!words) return 0;
  if (!words->empty() && words->back() != '\0') std::abort();
  if (runs::shell_words(quoted(*words)) != words) std::abort();
  if (store::invalid_utf8(text)) return 0;
  const std::string allowed = "[" + json::quote(text) + "]";
  if (runs::is_allowed_command(text, allowed) == words->empty()) std::abort();
  return 0;
}
