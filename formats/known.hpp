// The formats and programs that sessions are imported from: the one list of them, and the answer to a text that is in
// none. Pure functions.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "store/problem.hpp"

namespace sessiond::formats {

// Formats of a request's body. Files have them, too, but for the index, which holds no messages.
inline constexpr std::initializer_list<std::string_view> body_formats = {"json", "robota", "manager", "jsonl", "index"};
// Programs whose stores `sessiond import --from` reads.
inline constexpr std::initializer_list<std::string_view> foreign_programs = {"claude-code", "codex", "opencode",
                                                                             "openclaw", "goose"};

// Returns which of `body_formats` a text looks like, by its first document. Nothing: it is in none of them. A text that
// may be a document, but cannot be read, looks like json: the reader names its fault.
std::optional<std::string_view> format_of(std::string_view text);

// Says "not a known format; known are …".
std::string not_known();

// Adds to the problem that a reader had with a document which formats are known, when the document is in none of them.
Problem naming_known(Problem problem, std::string_view document);

}  // namespace sessiond::formats
