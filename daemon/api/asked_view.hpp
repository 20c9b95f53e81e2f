// A view of a conversation as a request asks for it: the query of GET S/messages?view=llm and ?view=summarize.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/api/handler.hpp"
#include "daemon/api/transcript_source.hpp"
#include "policy/context/view.hpp"
#include "policy/media.hpp"

namespace sessiond::api {

inline constexpr std::int64_t longest_window = 1'000'000'000;

struct AskedView {
  context::ViewOptions options{};
  std::optional<std::int64_t> window{};
  bool summarize = false;
  policy::MediaAs media = policy::MediaAs::handle;
  std::string until{};
  std::string run{};  // whose view it is; empty: that of the conversation
};

// ?window=, in tokens.
Result<std::optional<std::int64_t>> asked_window(const http::Request& request);
// bad_request for what does not go with a view.
Result<AskedView> read_asked_view(const http::Request& request);
// Returns the problem that is answered when a view has more bytes than asked for, whatever was left out.
Problem too_many_bytes(const context::View& view, const AskedView& asked);
// Returns the problem that is answered when the conversation does not fit into memory.
Problem too_long();
// The entry of the session; {} when it has none.
std::string_view entry_of(const TranscriptSource& source);

}  // namespace sessiond::api
