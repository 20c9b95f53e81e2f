// Finds the secrets in the strings of a JSON value (secret_scan.hpp says what one is), and takes them out. A string is
// read as its reader would: with escapes resolved, and, if it is JSON itself, as the arguments of a call may be, string
// by string. Parts of a content that follow each other ({"type":"text","text":…}) are also read as one text, so that
// a secret that is cut into two of them is found. What is encoded, as in base64, is not decoded. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::policy {

struct SecretIn {
  std::string pointer{};  // of the string. If the name of a member is the secret: of its object
  std::string_view kind{};
  bool in_name = false;
};
struct Redaction {
  std::vector<SecretIn> found{};  // the first 20
  std::string
      text{};  // the value with "[redacted: <kind>]" in place of each secret, else in its own bytes; empty: none
};
// Takes a value that json::check accepted. Pointers begin with `pointer`. Neither pointer nor kind holds a secret.
Redaction redact(std::string_view json, std::string_view pointer = "");
std::string redacted_text(std::string_view text);

// Redacts a text that comes in pieces, which may cut a secret. What may be the beginning of one waits for the next
// piece: the last word, up to 200 code points; more of it only if it looks like a secret already, up to 64 KiB.
struct Piece {
  std::string now{};   // what can be told, redacted
  std::string held{};  // what waits, as it came
};
// `held`: of the piece before.
Piece redact_piece(std::string held, std::string_view piece);

// Returns a fault for each string with a secret in a JSON value that json::check has accepted; at most 20.
std::vector<Fault> secret_faults(std::string_view value, std::string_view pointer);

}  // namespace sessiond::policy
