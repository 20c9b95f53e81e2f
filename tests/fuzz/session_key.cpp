// Any text is taken apart safely; a key that we make is its own canonical form; a file name never leaves its folder.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/names.hpp"

using namespace sessiond;
using namespace sessiond::store;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse_key(text);
  dm_alias(text);
  if (const auto key = canonical_key(text, "main")) {
    const auto again = canonical_key(*key, "main");
    if (!again || *again != *key || key->size() > 512) std::abort();
  }
  if (check_topic(text)) {
    const std::string file = transcript_file("s1", text);
    if (file.find('/') != std::string::npos || file.size() > 255 || topic_of_file("s1", file) != text) std::abort();
  }
  if (check_session_id(text) && transcript_file(text, "").find('/') != std::string::npos) std::abort();
  return 0;
}
