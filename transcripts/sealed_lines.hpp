// Lines of transcripts as they are sealed (store/seal/sealed.hpp). A line belongs to its agent, its transcript and its
// seq: an archive keeps the beginning of its transcript's name, so its lines open as before.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "store/seal/sealed.hpp"

namespace sessiond::transcripts {

inline constexpr std::uint64_t header_seq =
    std::numeric_limits<std::uint64_t>::max();  // in the place of a header's seq
// What a sealed line that does not open is taken for: no JSON, so an entry of type "unreadable".
inline constexpr std::string_view closed_line = "(a sealed line that does not open)";

// Names the transcript in places of its lines, by the path of its file, of an archive of it, or of a staged one:
// the agent's folder and what its name begins with.
std::string seal_scope(std::string_view path);
// Appends a line that ends in '\n', sealed with `draw`; as it is if that is empty.
void append_line(std::string& out, std::string_view line, const seal::Draw& draw, std::string_view scope,
                 std::uint64_t seq);
// The length of that.
std::size_t line_size(std::size_t plain, const seal::Draw& draw);

}  // namespace sessiond::transcripts
