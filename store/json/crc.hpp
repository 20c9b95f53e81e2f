// JSON objects that nothing else vouches for (CHECKPOINT, lines of journal/ends and journal/keys) end in
// …,"crc":"<CRC-32 of all before the comma, 8 hex>"}: one flipped digit would have something passed over, or told
// twice.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "store/crc32.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond {

// `object` as it is written, with its CRC as the last member.
inline std::string with_crc(std::string object) {
  object.pop_back();
  return object + fmt::format(",\"crc\":\"{:08x}\"}}", crc32_of(object));
}

// One without a CRC is of 0.1.0, and believed.
inline bool crc_fits(std::string_view text) {
  const auto crc = json::string_at(text, "crc");
  const std::size_t end = text.rfind(",\"crc\":");
  return !crc || (end != std::string_view::npos && *crc == fmt::format("{:08x}", crc32_of(text.substr(0, end))));
}

}  // namespace sessiond
