// A checksum inside a JSON object: …,"crc":"<CRC-32 of all before this comma, 8 hex>"}. CHECKPOINT and the lines of
// journal/ends and journal/keys have one. Without it a flipped digit would go unnoticed, and events would be skipped or
// published twice.
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <string>
#include <string_view>

#include "store/crc32.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::json {

// Adds the CRC as the last member. `object` must be an object that is not empty.
inline std::string with_crc(std::string object) {
  assert(object.size() > 2 && object.ends_with('}'));
  object.pop_back();
  return object + fmt::format(",\"crc\":\"{:08x}\"}}", store::crc32_of(object));
}

// An object without a CRC is accepted: 0.1.0 wrote none.
inline bool crc_fits(std::string_view text) {
  const auto crc = json::string_at(text, "crc");
  const std::size_t end = text.rfind(",\"crc\":");
  return !crc || (end != std::string_view::npos && *crc == fmt::format("{:08x}", store::crc32_of(text.substr(0, end))));
}

}  // namespace sessiond::json
