#include "daemon/http/target.hpp"

#include <algorithm>
#include <optional>

#include "store/try.hpp"

namespace sessiond::http {
namespace {

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

// Calls `piece` with each part of `text` between separators, empty parts included.
template <class Piece>
Result<void> for_each_piece(std::string_view text, char separator, Piece piece) {
  for (;;) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (Result<void> done = piece(text.substr(0, end)); !done) return done;
    if (end == text.size()) return {};
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Result<std::string> percent_decode(std::string_view text) {
  if (!text.contains('%')) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
    if (!high || !low) return fail(Code::bad_request, "the target has a % that is not followed by two hex digits");
    const unsigned byte = *high * 16 + *low;
    if (byte == 0) return fail(Code::bad_request, "the target holds a NUL byte (%00)");
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

Result<std::vector<std::string>> split_path(std::string_view raw_path) {
  std::vector<std::string> segments;
  if (raw_path.starts_with('/')) raw_path.remove_prefix(1);
  Result<void> done = for_each_piece(raw_path, '/', [&](std::string_view raw) -> Result<void> {
    TRY(auto segment, percent_decode(raw));
    if (segment == "." || segment == "..") return fail(Code::bad_request, "the path has a dot segment");
    segments.push_back(std::move(segment));
    return {};
  });
  if (!done) return std::unexpected(std::move(done.error()));
  return segments;
}

Result<std::vector<std::pair<std::string, std::string>>> split_query(std::string_view raw_query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  Result<void> done = for_each_piece(raw_query, '&', [&](std::string_view raw) -> Result<void> {
    if (raw.empty()) return {};
    const std::size_t equals = std::min(raw.find('='), raw.size());
    TRY(auto name, percent_decode(raw.substr(0, equals)));
    TRY(auto value, percent_decode(equals < raw.size() ? raw.substr(equals + 1) : std::string_view{}));
    pairs.emplace_back(std::move(name), std::move(value));
    return {};
  });
  if (!done) return std::unexpected(std::move(done.error()));
  return pairs;
}

}  // namespace sessiond::http
