// Sealed texts: the one form in which lines, entries' members and small files stand on the disk when encryption is on.
//   {"e":1,"k":"<key id>","n":"<12 bytes, base64>","c":"<base64 of the ciphertext and its tag>"}
//
// A sealed text belongs to its place: what seals it and what opens it name the same Place, or it does not open. So
// lines cannot be exchanged, moved or carried into another file without being noticed.
//
// Any thread may call this.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "store/problem.hpp"
#include "store/seal/keys.hpp"

namespace sessiond::seal {

// Names the place of a text: the associated data of AES-GCM. No part has a NUL.
class Place {
 public:
  Place(std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) text_.append(part).push_back('\0');
  }
  // The same place, and a number in it, such as that of a line.
  Place(std::string_view before, std::uint64_t number) : text_(before) { text_.append(std::to_string(number)); }
  std::string_view text() const { return text_; }

 private:
  std::string text_;
};

// A key and a nonce that were drawn for one text. With both, the same text at the same place gives the same bytes: so a
// line can be made from the journal again. Never used for another text or place.
struct Draw {
  std::string key{};  // its id; empty: nothing is sealed
  Nonce nonce{};
  explicit operator bool() const { return !key.empty(); }
  friend bool operator==(const Draw&, const Draw&) = default;
};
// Draws for the active key, and counts. An empty one when nothing is sealed. Before the text reaches the disk,
// reserve() must have been called.
Draw draw();
std::string to_text(const Draw& draw);  // "<key id>:<nonce, base64>"
std::optional<Draw> draw_from_text(std::string_view text);

// Tells whether a text has the form of a sealed one. Looks at its beginning only.
inline bool is_sealed(std::string_view text) { return text.starts_with(R"({"e":1,"k":")"); }
// The id of the key with which a text is sealed, "" if it is not.
std::string_view key_of(std::string_view text);

// How long a text of `bytes` is when it is sealed.
std::size_t sealed_size(std::size_t bytes, const Draw& draw);
// The length of what is sealed in a text, from its length; nothing if it does not have the form of a sealed one.
std::optional<std::size_t> plain_size(std::string_view sealed);
// Appends `text`, sealed. The key of `draw` must be among keys().
void append_sealed(std::string& out, std::string_view text, const Draw& draw, const Place& place);
// Seals with the active key; returns the text itself when nothing is sealed. Counts: see draw().
std::string seal(std::string text, const Place& place);
// Replaces `out` by what was sealed. Returns false if it does not open: it is damaged, sealed for another place, with
// another key, or with one that is not among keys().
bool open(std::string_view sealed, const Place& place, std::string& out);
// The same for a text in a larger object: `members` is what stands from "e" on, with the brace at the end.
bool are_sealed(std::string_view members);
std::string_view key_of_members(std::string_view members);  // "" if they are not sealed
bool open_members(std::string_view members, const Place& place, std::string& out);
// Opens a text if it is sealed, and returns others as they are. degraded if it does not open.
Result<std::string> open_if_sealed(std::string text, const Place& place);

}  // namespace sessiond::seal
