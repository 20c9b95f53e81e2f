// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond {

// The offset of the first byte that is not UTF-8.
std::optional<std::size_t> invalid_utf8(std::string_view text);
// The text with U+FFFD for every byte that belongs to no well-formed sequence.
std::string replace_invalid_utf8(std::string_view text);
// `text` itself when it is UTF-8, else its repaired form, which `held` then keeps.
std::string_view as_utf8(std::string_view text, std::string& held);
void append_utf8(std::string& out, std::uint32_t code_point);
// The length of the well-formed sequence at `at`, 0 when there is none.
std::size_t utf8_sequence(std::string_view text, std::size_t at);

// For searching without regard to case: each letter in lower case, as Unicode's simple mapping has it (of the C.UTF-8
// locale).
std::string fold_case(std::string_view text);

}  // namespace sessiond
