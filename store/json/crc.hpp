// A checksum inside a JSON object: …,"crc":"<CRC-32 of all before this comma, 8 hex>"}. CHECKPOINT and the lines of
// journal/ends and journal/keys have one. Without it a flipped digit would go unnoticed, and events would be skipped or
// published twice.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <string>
#include <string_view>

#include "store/crc32.hpp"
#include "store/hex.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::json {

// The CRC-32 of a text, as 8 hex digits.
inline std::string crc_text(std::string_view text) {
  return store::to_hex(std::bit_cast<std::array<unsigned char, 4>>(std::byteswap(store::crc32_of(text))));
}

// Adds the CRC as the last member. `object` must be an object that is not empty.
inline std::string with_crc(std::string object) {
  assert(object.size() > 2 && object.ends_with('}'));
  object.pop_back();
  const std::string crc = crc_text(object);
  return object.append(",\"crc\":\"").append(crc).append("\"}");
}

// An object without a CRC is accepted: 0.1.0 wrote none.
inline bool crc_fits(std::string_view text) {
  const auto crc = json::string_at(text, "crc");
  const std::size_t end = text.rfind(",\"crc\":");
  return !crc || (end != std::string_view::npos && *crc == crc_text(text.substr(0, end)));
}

}  // namespace sessiond::json
