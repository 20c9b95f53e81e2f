// Media in messages: base64 of more than 64 KiB becomes a handle, and a handle becomes the part again that it was.
//
//   {"type":"image","data":"iVBOR…","mimeType":"image/png"}
//   {"type":"image","source":{"type":"blob","sha256":"<64 hex digits>","media_type":"image/png","bytes":90000,
//     "was":["{\"type\":\"image\",\"data\":\"","\",\"mimeType\":\"image/png\"}"]}}
//
// `was` is the part as it came, before and behind its base64; `form` says how the base64 was written, if it was not the
// usual way. Read are the spellings of OpenAI (data URLs, input_audio), Anthropic (source), Google (inlineData) and
// OpenClaw (data, mimeType), wherever in the body such an object stands.
//
// A handle names its blob when it stands in the text in exactly these bytes: `"type":"blob","sha256":"<hash>"`, or
// `{"$blob":"<hash>"` in an entry of sessions.json. Whatever finds names (names_in) looks for these bytes, so what
// clients write must be brought into this form, and be checked, before it is stored (written_handles). Pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/problem.hpp"

namespace sessiond::policy {

inline constexpr std::size_t small_media_bytes = 64 << 10;  // up to so many bytes stay as they are
inline constexpr std::size_t small_media_text = (small_media_bytes + 3) / 3 * 4 - 4;  // shorter base64 decodes to less

// A first look: whether a text is long enough to hold media that become a handle.
inline bool may_hold_media(std::string_view json) { return json.size() > small_media_text; }

struct Media {
  std::string sha256{}, bytes{};
};
struct WithoutMedia {
  std::string text{};  // empty: nothing was found
  std::vector<Media> media{};
};
// Puts a handle in the place of all media of a JSON value that json::check has accepted.
using HashOf = std::string (*)(std::string_view bytes);
WithoutMedia take_media(std::string_view json, HashOf hash_of);

// A first look: whether a text may hold a handle that a client wrote.
bool may_hold_handle(std::string_view json);
struct WrittenHandle {
  std::string pointer{}, sha256{};
};
struct WrittenHandles {
  std::vector<WrittenHandle> found{};
  std::string text{};  // the value with the handles in the form that names blobs; empty: as it came
};
// The handles of a JSON value, in whichever spelling, also within strings that are JSON themselves. Pointers begin with
// `pointer`.
WrittenHandles written_handles(std::string_view json, std::string_view pointer = "");

// Where a text stands: only a message names by "type":"blob", and only an entry by "$blob". A merge patch can make the
// former of two bodies that name nothing.
enum class NamedBy : unsigned char { message, entry, either };
// Calls `call` with each hash that a text names. The text may be any bytes, and a part of a file.
void names_in(std::string_view text, NamedBy by, const std::function<void(std::string_view hash)>& call);
bool names_blob(std::string_view text, NamedBy by, std::string_view hash);
inline constexpr std::size_t longest_name = 96;  // bytes of a name: pieces of a file overlap by so many

enum class MediaAs : unsigned char { handle, inlined, url };
// The bytes of a blob. Nothing: it cannot be read; the handle stays then, and says "unavailable":true.
using BytesOf = std::function<std::optional<std::string>(const std::string& sha256)>;
// Returns how many bytes a JSON value has, about, when each handle is shown in its own spelling.
std::size_t inlined_bytes(std::string_view json);
// Shows the media of an entry: in their own spelling, or as {"type":"url","url":"/v1/blobs/<hash>","media_type":…}.
// Returns `json` when there are none.
std::string with_media(std::string json, MediaAs as, const BytesOf& bytes_of);

}  // namespace sessiond::policy
