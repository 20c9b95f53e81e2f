// Any text is a store or is not; what we write of it is read as the same entries.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/sessions/sessions_file.hpp"

using namespace sessiond;
using namespace sessiond::sessions;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> oddities;
  const auto entries = parse_store({reinterpret_cast<const char*>(data), size}, oddities);
  if (!entries) return 0;
  const auto again = parse_store(format_store(*entries), oddities);
  if (!again || !diff_stores(*entries, *again).empty()) std::abort();
  return 0;
}
