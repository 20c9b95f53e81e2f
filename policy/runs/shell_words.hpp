// Reads a shell command that is plainly one command, so that a list of allowed commands can say which commands an agent
// may run without a person's answer.
//
// A shell does more with a text than run one program: it expands variables, runs commands within commands, redirects,
// and runs several commands in a row. A text in which a shell might do any of this is no simple command, and no list
// allows it. Of all other texts this reads the words exactly as a POSIX shell does. README.md beside this file has the
// grammar.
//
// Pure functions. They take time and memory linear in the length of their texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::runs {

// Returns the words of a simple command, each followed by a NUL byte: `git "a b"` becomes "git\0a b\0". A text of
// blanks has no words: "". Nothing: the text is no simple command. Globs, `~` and braces are plain characters.
std::optional<std::string> shell_words(std::string_view text);

// Says whether the first words of `command` are the words of an element of `allowed`, a JSON array of commands. What
// in it is no simple command, or has no words, matches nothing; a foreign program may have written it.
bool is_allowed_command(std::string_view command, std::string_view allowed);

// Checks guardrails.allowedCommands as a client writes it: an array of simple commands that have words. Adds its
// faults, until there are limits::faults of them; pointers begin with `pointer`.
void check_allowed_commands(std::string_view allowed, const std::string& pointer, std::vector<Fault>& faults);

}  // namespace sessiond::runs
