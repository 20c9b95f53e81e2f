// Finds the secrets in the strings of a JSON value (secret_scan.hpp says what one is), and takes them out. A string is
// read as its reader would: with escapes resolved, and, if it is JSON itself, as the arguments of a call may be, string
// by string. Parts of a content that follow each other ({"type":"text","text":…}) are also read as one text, so that
// a secret that is cut into two of them is found. What is encoded, as in base64, is not decoded. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::policy {

// Which secrets are taken out; the others are found all the same.
enum class TakenOut : unsigned char { all, own };  // own: the daemon's tokens, tickets and logins
struct Look {
  TakenOut taken = TakenOut::all;
  // Of a message: its ids and addresses are told apart from what is said (SecretIn::in_id), and what is base64 by its
  // place, media and signatures of providers, is not looked at.
  bool message = false;
  bool deltas = true;  // false: texts of text.delta and reasoning.delta are left to PieceRedactor
};
struct SecretIn {
  std::string pointer{};  // of the string. If the name of a member is the secret: of its object
  std::string_view kind{};
  bool in_name = false;
  bool in_id = false;  // it stands where an id is, which cannot be another text
};
struct Redaction {
  std::vector<SecretIn> found{};  // the first 20
  std::string
      text{};  // the value with "[redacted: <kind>]" in place of each secret, else in its own bytes; empty: none
};
// Takes a value that json::check accepted. Pointers begin with `pointer`. Neither pointer nor kind holds a secret.
Redaction redact(std::string_view json, std::string_view pointer = "", Look look = {});
std::string redacted_text(std::string_view text, TakenOut taken = TakenOut::all);

// Redacts a text that comes in pieces, as if it had come whole. An end that may be the beginning of a secret waits for
// the next piece, up to 200 code points. A secret that is longer is recognised by then, and the rest of it is dropped.
// One exception is a JSON web token whose first part is longer.
class PieceRedactor {
 public:
  struct Piece {
    std::string text{};                     // that need not wait, redacted
    std::vector<std::string_view> kinds{};  // of the secrets that were taken out
  };
  Piece take(std::string_view piece);
  // The text that waits, without secrets, for when nothing more comes.
  std::string rest() const;
  // The same. A secret that goes on all the same is taken out from there.
  std::string tell_rest();
  // Goes on behind a text that was told.
  static PieceRedactor behind(std::string_view told);
  bool waits() const { return !held_.empty(); }
  // Returns whether the next piece can be taken as the first one of a new text.
  bool is_idle() const;
  // Returns the kind of a secret that waits, whole; empty: there is none.
  std::string_view held_kind() const;
  bool operator==(const PieceRedactor&) const = default;

 private:
  std::string_view drop_rest(std::string_view piece);
  void drop_from_now_on(std::string_view kind, std::string_view begun);

  std::string before_{};     // the end of what was told or dropped, as it came
  std::string held_{};       // what waits, as it came
  std::string_view kind_{};  // of a secret whose rest is dropped; empty: none
  std::size_t left_ = 0;     // of a private key, whose last line has begun: how many bytes may still belong to it
};

// Returns a fault for each string with a secret in a JSON value that json::check has accepted; at most 20.
std::vector<Fault> secret_faults(std::string_view value, std::string_view pointer);

}  // namespace sessiond::policy
