// Any text is a configuration or has faults; what parses is written and read again as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/print.hpp"
#include "config/read.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = sessiond::config::parse_config({reinterpret_cast<const char*>(data), size});
  if (!config) return 0;
  const auto printed = sessiond::config::to_json(*config);
  const auto again = sessiond::config::parse_config(printed);
  if (!again || sessiond::config::to_json(*again) != printed) std::abort();
  return 0;
}
