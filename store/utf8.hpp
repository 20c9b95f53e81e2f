// UTF-8 by RFC 3629: without overlong forms, surrogates, and code points above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::store {

// The offset of the first byte that is not UTF-8; nothing when all is.
std::optional<std::size_t> invalid_utf8(std::string_view text);
// Replaces every byte that belongs to no well-formed sequence by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);
// Returns `text` when it is UTF-8; else puts its repaired form into `held` and returns a view of that.
std::string_view as_utf8(std::string_view text, std::string& held);
void append_utf8(std::string& out, std::uint32_t code_point);
// The length of the well-formed sequence at `at`; 0: there is none.
std::size_t utf8_sequence(std::string_view text, std::size_t at);

// The offset behind the first `count` code points, or the end.
std::size_t code_points_end(std::string_view text, std::size_t count);
std::size_t count_code_points(std::string_view text);
// The greatest offset up to `most` that does not split a character.
std::size_t utf8_prefix(std::string_view text, std::size_t most);

// Folds case as Unicode's simple folding does, one code point to one, for searching without regard to case: ß is not
// ss. Keys have lower_key().
std::string fold_case(std::string_view text);
// Makes each run of white space (White_Space of Unicode) one space.
std::string with_single_spaces(std::string_view text);
// The length of the white space at `at`; 0: another character stands there.
std::size_t white_space(std::string_view text, std::size_t at);

}  // namespace sessiond::store
